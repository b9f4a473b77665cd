// SPDX-License-Identifier: Apache-2.0
#include "transport/security/packets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace nfsrdma::security {
namespace {

constexpr const char* kOp = "Kerberos helper";
// More than one descriptor is an error, but the kernel has given them to us: they must be closed.
constexpr size_t kMostDescriptors = 8;

union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(kMostDescriptors * sizeof(int))];
};

Error failed() {
  return system_error(errno, kOp);
}

}  // namespace

Result<std::pair<Fd, Fd>> make_packet_pair(int flags) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail(failed());
  std::pair<Fd, Fd> pair{Fd(ends[0]), Fd(ends[1])};
  if ((flags & SOCK_NONBLOCK) != 0 && ::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return fail(failed());
  return pair;
}

Result<> send_packet(int socket, ConstBytes packet) {
  ssize_t n = 0;
  do {
    n = ::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail(failed());
  return {};
}

Result<ByteVector> receive_packet(int socket, size_t most) {
  ByteVector packet(most);
  ssize_t n = 0;
  do {
    // MSG_TRUNC: the result is the packet's own length.
    n = ::recv(socket, packet.data(), packet.size(), MSG_TRUNC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail(failed());
  if (static_cast<size_t>(n) > most) return fail(system_error(EMSGSIZE, kOp));
  packet.resize(static_cast<size_t>(n));
  return packet;
}

Result<> send_exchange(int socket, int exchange, uint32_t user) {
  iovec piece{&user, sizeof user};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof exchange);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof exchange);
  std::memcpy(CMSG_DATA(header), &exchange, sizeof exchange);
  ssize_t n = 0;
  do {
    n = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail(failed());
  return {};
}

Result<SentExchange> receive_exchange(int socket) {
  SentExchange received;
  iovec piece{&received.user, sizeof received.user};
  Control control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t n = 0;
  do {
    n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return fail(failed());
  if (n == 0) return fail(system_error(ENOTCONN, kOp));
  size_t count = 0;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const size_t here = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
      received.socket = Fd(fd);
      ++count;
    }
  }
  const bool whole = n == sizeof received.user && (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0;
  if (count != 1 || !whole) return fail(system_error(EPROTO, kOp));
  return received;
}

}  // namespace nfsrdma::security
