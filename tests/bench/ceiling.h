// What the ceilings of a FUSE client share: the mount, its loop, what they do with their socket, and a reply
// whose data goes from that to /dev/fuse through a pipe, as the daemon's does. One thread's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

// Smaller replies are cheaper through memory, as in the daemon.
inline constexpr size_t kMinSplicedBytes = 64u << 10;

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
};

// Blocking, to the last byte; false once the other end is gone. send_all() uses `parts` up.
bool send_all(int socket, iovec* parts, size_t count);
bool receive_all(int socket, void* to, size_t size);

class PipedReply {
 public:
  PipedReply();
  PipedReply(const PipedReply&) = delete;
  PipedReply& operator=(const PipedReply&) = delete;
  ~PipedReply();

  // The next `size` bytes of the socket answer `req`, whose number is `unique`.
  bool pass_on(int socket, int fuse, fuse_req_t req, uint64_t unique, size_t size);

 private:
  int pipe_[2] = {-1, -1};
};

// Mounts, serves in the foreground until it is unmounted, and returns main's result. `options` are mount
// options; `far_end` may be null.
int serve(const fuse_lowlevel_ops& ops, void* userdata, FarEnd* far_end, const char* options,
          const char* mountpoint);
