// SPDX-License-Identifier: Apache-2.0
// Shared by the ceilings of a FUSE client: the mount, its loop, socket I/O, and a reply whose data goes from
// the socket to /dev/fuse through a pipe, as the daemon's does. One thread only.
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

// Lifetime of entries and attributes, as nfs(5)'s acregmin.
inline constexpr double kValidSeconds = 3.0;

// The server behind a ceiling, reached through one socket.
class FarEnd {
 public:
  FarEnd() = default;
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;
  virtual ~FarEnd() = default;

  // Readable when answer() has something to do.
  virtual int socket() const = 0;
  // Sends FUSE replies for the answers that the socket has; false when the far end is gone.
  virtual bool answer() = 0;
  // Called after ten seconds without a request or an answer.
  virtual void idle() {}

  int fuse = -1;        // /dev/fuse
  uint64_t unique = 0;  // of the FUSE request being handled
  fuse_buf handled{};   // the request's memory; to keep it, replace `mem` by other memory or by null
};

// Block until all bytes are transferred; false when the other end is gone. send_all() modifies `parts`.
bool send_all(int socket, iovec* parts, size_t count);
// Removes the first `bytes` bytes from the parts.
void step_over(iovec*& parts, size_t& count, size_t bytes);
bool receive_all(int socket, void* to, size_t size);

// Moves bytes that are sure to arrive from a socket into a pipe. Wakes up only for 256 KiB of them, or for
// the rest, as the daemon does.
class Inflow {
 public:
  explicit Inflow(size_t size) : left_(size) {}

  // splice(2); does not wait for room in the pipe.
  ssize_t some(int socket, int pipe);
  // Makes the socket readable for each byte again.
  void end(int socket) { set_low_water(socket, 1); }
  size_t left() const { return left_; }

 private:
  void set_low_water(int socket, size_t bytes);

  size_t left_;
  size_t low_water_ = 1;
  bool begun_ = false;
};

// A pipe of 256 fragments; prints a warning if it cannot have them.
std::array<int, 2> make_pipe();

class PipedReply {
 public:
  PipedReply() : pipe_(make_pipe()) {}
  PipedReply(const PipedReply&) = delete;
  PipedReply& operator=(const PipedReply&) = delete;
  ~PipedReply();

  // Begins the reply to the request `unique`, with `size` bytes of data.
  bool begin(uint64_t unique, size_t size);
  // Adds the next `size` bytes of the socket to the data.
  bool add(int socket, size_t size);
  // Adds `size` bytes of a pipe, which must all be there.
  bool move(int pipe, size_t size);
  // Sends the reply; all data was added. `req` is the request.
  bool end(int fuse, fuse_req_t req);

 private:
  bool land();

  std::array<int, 2> pipe_;
  size_t size_ = 0;           // of the reply
  size_t piped_ = 0;          // bytes of it in the pipe
  std::vector<char> landed_;  // the whole reply so far, once it did not fit the pipe
};

// For ops.init: the daemon's settings, as far as they matter for speed (fuse/handshake.cc has the reasons).
void negotiate(fuse_conn_info* conn, uint32_t max_io);
// For ops.open: no FUSE_FLUSH at close(2) for a file that is opened for reading only.
void spare_flush(fuse_file_info* info);

// Mounts, serves in the foreground until the unmount, and returns main's result. `options` are mount options;
// `far_end` may be null.
int serve(const fuse_lowlevel_ops& ops, void* userdata, FarEnd* far_end, const char* options,
          const char* mountpoint);
