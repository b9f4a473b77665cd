// SPDX-License-Identifier: Apache-2.0
// Helpers for owners of a non-blocking TCP socket: receive into two pieces of memory, splice into pipes, and
// wait for readiness with a deadline. Loop thread only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <memory>

#include "transport/memory/pipe.h"
#include "transport/runtime/sync.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::net {

// One recvmsg: fills `direct` (may be empty) first, then `staging`. Returns as recvmsg(2), but never EINTR.
ssize_t receive_into(int fd, MutableBytes direct, MutableBytes staging);

// SO_RCVLOWAT of one socket: the socket is not readable before that many bytes have arrived (or the stream
// has ended). Set more than 1 only for bytes that are certain to come.
class LowWater {
 public:
  void set(int fd, size_t bytes);

 private:
  int bytes_ = 1;
};

// Moves a socket's data into pipes.
class PipeFiller {
 public:
  enum class Step : uint8_t {
    kSome,     // bytes()
    kNothing,  // no data at present
    kFull,     // the pipe has no free slot
    kNotNow,   // recvmsg must report, or handle, what comes next
    kNever,    // this socket does not support splice
    kLost,     // error(); splice has consumed the socket's error, so no later call reports it
  };
  Step fill(Pipe& pipe, int fd, size_t bytes);
  size_t bytes() const { return bytes_; }
  int error() const { return errnum_; }

 private:
  size_t bytes_ = 0;
  int errnum_ = 0;
  bool stuck_ = false;
};

// Waits once until a socket is ready, and does not take the socket over. The handlers share this object,
// because the last handler may run after the waiter has ended.
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
  // Also cancels the wait; the descriptor stays open.
  void release();

  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;
  Completion<End> done_;
  bool finished_ = false;
};

}  // namespace nfsrdma::net
