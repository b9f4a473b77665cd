// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport/support/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

bool wait_for(int fd, short events, std::chrono::milliseconds patience) {
  pollfd p{fd, events, 0};
  int n = 0;
  do {
    n = ::poll(&p, 1, static_cast<int>(patience.count()));
  } while (n < 0 && errno == EINTR);
  return n > 0;
}

}  // namespace

PeerSocket::PeerSocket(net::Socket socket) : socket_(std::move(socket)) {
  const timeval patience{kPatience.count(), 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

ByteVector PeerSocket::read_bytes(size_t n) {
  ByteVector out(n);
  size_t have = 0;
  while (have < n) {
    const ssize_t got = ::recv(socket_.get(), out.data() + have, n - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN)
      ADD_FAILURE() << "the client sent nothing for " << kPatience.count() << " s";
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  out.resize(have);
  return out;
}

std::optional<ByteVector> PeerSocket::read_record(std::vector<size_t>* fragments) {
  ByteVector message;
  while (true) {
    const ByteVector mark = read_bytes(4);
    if (mark.size() < 4) return std::nullopt;
    const uint32_t word = word_at(mark, 0);
    const size_t length = word & 0x7fffffff;
    const ByteVector part = read_bytes(length);
    if (part.size() < length) return std::nullopt;
    if (fragments != nullptr) fragments->push_back(length);
    message.insert(message.end(), part.begin(), part.end());
    if ((word & 0x80000000) != 0) return message;
  }
}

bool PeerSocket::closed_by_client() {
  std::byte b{};
  ssize_t got = 0;
  do {
    got = ::recv(socket_.get(), &b, 1, 0);
  } while (got < 0 && errno == EINTR);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

bool PeerSocket::write(ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN)
      ADD_FAILURE() << "the client read nothing for " << kPatience.count() << " s";
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

void PeerSocket::reset() {
  const linger now{1, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close();
}

Listener::Listener(const char* address, uint16_t port, int backlog)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &a.sin_addr);
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0)
      << std::strerror(errno);
  EXPECT_EQ(::listen(socket_.get(), backlog), 0) << std::strerror(errno);
  socklen_t size = sizeof(a);
  ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&a), &size);
  port_ = ntohs(a.sin_port);
}

PeerSocket Listener::accept() {
  if (!wait_for(socket_.get(), POLLIN, kPatience)) {
    ADD_FAILURE() << "nobody connected for " << kPatience.count() << " s";
    return {};
  }
  return PeerSocket(net::Socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
}

size_t open_descriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

bool Listener::quiet() {
  return !wait_for(socket_.get(), POLLIN, std::chrono::milliseconds(0));
}

void answer_one(PeerSocket& s) {
  const auto call = s.read_record();
  ASSERT_TRUE(call);
  s.write_record(echo(*call));
}

}  // namespace nfsrdma::test
