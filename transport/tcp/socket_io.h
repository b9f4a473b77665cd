// SPDX-License-Identifier: Apache-2.0
// What every owner of a non-blocking TCP socket does with it: receive into a place of its own and what
// follows it, and wait for readiness with a deadline. Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>

#include "transport/memory/pipe.h"
#include "transport/runtime/sync.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::tcp {

// One recvmsg: fills `direct` (may be empty) first, then `staging`. As recvmsg(2), without EINTR.
ssize_t receive_into(int fd, MutableBytes direct, MutableBytes staging);

// SO_RCVLOWAT of one socket: it is not ready before so many bytes can be received (or the stream has ended).
// Only for bytes that are sure to come; 1 otherwise.
class LowWater {
 public:
  void set(int fd, size_t bytes);

 private:
  int bytes_ = 1;
};

// Moves what one socket has into pipes.
class PipeFiller {
 public:
  enum class Step : uint8_t {
    kSome,     // bytes()
    kNothing,  // there is nothing now
    kFull,     // the pipe's slots are in use
    kNotNow,   // recvmsg has to say, or do, the next thing
    kNever,    // this socket cannot be spliced from
    kLost,     // error(); splice has taken the socket's error, and nobody else gets to see it
  };
  Step fill(Pipe& pipe, int fd, size_t bytes);
  size_t bytes() const { return bytes_; }
  int error() const { return errnum_; }

 private:
  size_t bytes_ = 0;
  int errnum_ = 0;
  bool stuck_ = false;
};

// Waits once until the socket, which stays its owner's, is ready. The handlers share it: the one that comes
// last may find the waiter gone.
class SocketWait {
 public:
  enum class End : uint8_t { kReady, kTimeout, kCancelled };

  SocketWait(Loop& loop, int fd) : descriptor_(loop.context(), fd), timer_(loop.context()) {}
  ~SocketWait() { release(); }

  static void arm(const std::shared_ptr<SocketWait>& self, asio::posix::stream_descriptor::wait_type what,
                  TimePoint deadline);
  auto wait() { return done_.wait(); }
  void finish(End end);

 private:
  // Also cancels the wait for the socket; the descriptor stays open.
  void release();

  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;
  Completion<End> done_;
  bool finished_ = false;
};

}  // namespace nfsrdma::tcp
