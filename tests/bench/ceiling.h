// SPDX-License-Identifier: Apache-2.0
// What the ceilings of a FUSE client share: the mount, its loop, what they do with their socket, and a reply
// whose data goes from that to /dev/fuse through a pipe, as the daemon's does. One thread's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/uio.h>

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

// Smaller replies are cheaper through memory, as in the daemon.
inline constexpr size_t kMinSplicedBytes = 64u << 10;

// Entries and attributes, as nfs(5)'s acregmin has it.
inline constexpr double kValidSeconds = 3.0;

// What stands behind a ceiling, reached through one socket.
class FarEnd {
 public:
  FarEnd() = default;
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;
  virtual ~FarEnd() = default;

  // Readable when answer() has something to do.
  virtual int socket() const = 0;
  // Replies through /dev/fuse to what the socket has an answer for; false once the far end is gone.
  virtual bool answer() = 0;
  // Nothing has come for ten seconds.
  virtual void idle() {}

  int fuse = -1;        // /dev/fuse
  uint64_t unique = 0;  // of the FUSE request that is being handled
  fuse_buf handled{};   // where that lies; whoever keeps its memory leaves other in its place, or none
};

// Blocking, to the last byte; false once the other end is gone. send_all() uses `parts` up.
bool send_all(int socket, iovec* parts, size_t count);
// So many bytes of the parts are done with.
void step_over(iovec*& parts, size_t& count, size_t bytes);
bool receive_all(int socket, void* to, size_t size);

// Bytes of a socket that are sure to come, into a pipe; nobody is woken up for less than 256 KiB of them, or
// what is left, as in the daemon.
class Inflow {
 public:
  explicit Inflow(size_t size) : left_(size) {}

  // As splice(2), which does not wait for room in the pipe.
  ssize_t some(int socket, int pipe);
  // Ready for each byte again.
  void end(int socket) { set_low_water(socket, 1); }
  size_t left() const { return left_; }

 private:
  void set_low_water(int socket, size_t bytes);

  size_t left_;
  size_t low_water_ = 1;
  bool begun_ = false;
};

// Of 256 fragments; says so where there is none.
std::array<int, 2> make_pipe();

class PipedReply {
 public:
  PipedReply() : pipe_(make_pipe()) {}
  PipedReply(const PipedReply&) = delete;
  PipedReply& operator=(const PipedReply&) = delete;
  ~PipedReply();

  // What follows answers the request with this number, with so much data.
  bool begin(uint64_t unique, size_t size);
  // The next bytes of the socket are the next of the data.
  bool add(int socket, size_t size);
  // Those of a pipe, where all of them are.
  bool move(int pipe, size_t size);
  // All data was added. `req` is the request.
  bool end(int fuse, fuse_req_t req);

 private:
  bool land();

  std::array<int, 2> pipe_;
  size_t size_ = 0;           // of the reply
  size_t piped_ = 0;          // bytes of it in the pipe
  std::vector<char> landed_;  // all of it so far, once it did not fit the pipe
};

// For ops.init: what the daemon asks for, as far as it matters for speed (fuse/handshake.cc says why).
void negotiate(fuse_conn_info* conn, uint32_t max_io);
// For ops.open: who has written nothing need not be asked when the file is closed.
void spare_flush(fuse_file_info* info);

// Mounts, serves in the foreground until it is unmounted, and returns main's result. `options` are mount
// options; `far_end` may be null.
int serve(const fuse_lowlevel_ops& ops, void* userdata, FarEnd* far_end, const char* options,
          const char* mountpoint);
