// SPDX-License-Identifier: Apache-2.0
#include "loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

int listen_on_loopback(sockaddr_in& address) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listener, 1) == 0 &&
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0)
    return listener;
  ::close(listener);
  return -1;
}

void without_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

int start_far_end(const std::function<void(int socket)>& serve) {
  sockaddr_in address{};
  const int listener = listen_on_loopback(address);
  if (listener < 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const int socket = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    without_delay(socket);
    serve(socket);
    ::_exit(0);
  }
  const int socket = child < 0 ? -1 : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected =
      socket >= 0 && ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(listener);
  if (connected) {
    without_delay(socket);
    return socket;
  }
  if (socket >= 0) ::close(socket);
  return -1;
}
