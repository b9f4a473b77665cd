// SPDX-License-Identifier: Apache-2.0
#include "transport/net/socket_io.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace nfsrdma::net {

ssize_t receive_into(int fd, MutableBytes direct, MutableBytes staging) {
  iovec pieces[2];
  msghdr message{};
  message.msg_iov = pieces;
  if (!direct.empty()) pieces[message.msg_iovlen++] = {direct.data(), direct.size()};
  pieces[message.msg_iovlen++] = {staging.data(), staging.size()};
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &message, 0);
  } while (n < 0 && errno == EINTR);
  return n;
}

void LowWater::set(int fd, size_t bytes) {
  const int wanted = static_cast<int>(bytes);
  if (wanted == bytes_) return;
  if (::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0) bytes_ = wanted;
}

PipeFiller::Step PipeFiller::fill(Pipe& pipe, int fd, size_t bytes) {
  const ssize_t n = pipe.fill(fd, bytes);
  if (n > 0) {
    stuck_ = false;
    bytes_ = static_cast<size_t>(n);
    return Step::kSome;
  }
  if (n == 0) return Step::kNotNow;  // end of stream: recvmsg reports it
  errnum_ = errno;
  if (errnum_ == EAGAIN) {
    if (pipe.full()) return Step::kFull;
    // No data. If the socket is readable again next time, recvmsg is needed: splice stops at an urgent byte,
    // recvmsg steps over it.
    stuck_ = !stuck_;
    return stuck_ ? Step::kNothing : Step::kNotNow;
  }
  const bool never = errnum_ == EINVAL || errnum_ == ENOSYS || errnum_ == EPERM || errnum_ == ENOMEM;
  return never ? Step::kNever : Step::kLost;
}

void SocketWait::arm(const std::shared_ptr<SocketWait>& self, asio::posix::stream_descriptor::wait_type what,
                     TimePoint deadline) {
  self->timer_.expires_at(deadline);
  self->timer_.async_wait([self](const asio::error_code& ec) {
    if (!ec) self->finish(End::kTimeout);
  });
  self->descriptor_.async_wait(what, [self](const asio::error_code& ec) {
    if (!ec) self->finish(End::kReady);
  });
}

void SocketWait::finish(End end) {
  if (std::exchange(finished_, true)) return;
  timer_.cancel();
  release();
  done_.set(end);
}

void SocketWait::release() {
  if (descriptor_.is_open()) descriptor_.release();
}

}  // namespace nfsrdma::net
