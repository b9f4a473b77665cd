// SPDX-License-Identifier: Apache-2.0
#include "transport/net/connector.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "transport/net/server_address.h"
#include "transport/runtime/log.h"

namespace nfsrdma::net {
namespace {

// The kernel's client uses ports 665 to 1023 (sunrpc.min_resvport, max_resvport): well-known services are
// below.
constexpr unsigned kFirstReservedPort = 665;
constexpr unsigned kLastReservedPort = 1023;

Error connect_error(int errnum, std::string cause, Recovery recovery = Recovery::kReconnect) {
  return {.layer = Layer::kTransport,
          .recovery = recovery,
          .errnum = errnum,
          .op = "connect",
          .cause = std::move(cause)};
}

Error cancelled_error() {
  return connect_error(EINTR, "cancelled", Recovery::kInterrupted);
}

Result<> set_option(int fd, int level, int name, int value, const char* what) {
  if (::setsockopt(fd, level, name, &value, sizeof(value)) == 0) return {};
  return fail(connect_error(errno, what));
}

bool bind_port(int fd, int family, unsigned port) {
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  socklen_t length = 0;
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&any)->sin6_port = htons(static_cast<uint16_t>(port));
    length = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in*>(&any)->sin_port = htons(static_cast<uint16_t>(port));
    length = sizeof(sockaddr_in);
  }
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&any), length) == 0;
}

}  // namespace

Result<> configure(int fd, const DeadPeerTimes& t) {
  NFSRDMA_TRY(set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"));
  NFSRDMA_TRY(set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  NFSRDMA_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, t.keepalive_idle_s, "TCP_KEEPIDLE"));
  NFSRDMA_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, t.keepalive_interval_s, "TCP_KEEPINTVL"));
  NFSRDMA_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, t.keepalive_count, "TCP_KEEPCNT"));
  return set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(t.user_timeout_ms),
                    "TCP_USER_TIMEOUT");
}

DeadPeerTimes dead_peer_times(std::chrono::milliseconds timeo, unsigned retrans) {
  constexpr int64_t kMaxKeepaliveSeconds = 32767;  // MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL
  constexpr int64_t kMaxKeepaliveCount = 127;      // MAX_TCP_KEEPCNT
  const int64_t seconds = std::clamp<int64_t>((timeo.count() + 999) / 1000, 1, kMaxKeepaliveSeconds);
  const int64_t tries = int64_t{retrans} + 1;
  const int64_t count = std::clamp<int64_t>(tries, 1, kMaxKeepaliveCount);
  const int64_t timeout =
      timeo.count() > INT32_MAX / tries ? INT32_MAX : std::max<int64_t>(timeo.count() * tries, 1);
  return {static_cast<int>(seconds), static_cast<int>(seconds), static_cast<int>(count),
          static_cast<unsigned>(timeout)};
}

Task<Result<Connected>> Connector::connect() {
  cancelled_ = false;
  while (options_.follows) {
    const std::optional<Endpoint> taken = options_.address->get();
    if (!taken) co_return fail(connect_error(EHOSTUNREACH, "the first connection is not made yet"));
    Endpoints only{*taken};
    Result<Connected> connected = co_await connect_any(std::move(only));
    // The first connection may have moved to another address meanwhile.
    if (!connected || to_string(*options_.address->get()) == to_string(*taken)) co_return connected;
  }
  Result<Endpoints> endpoints = co_await resolver_.resolve(options_.host, options_.port, options_.family);
  if (!endpoints) co_return fail(std::move(endpoints).error());
  if (cancelled_) co_return fail(cancelled_error());
  co_return co_await connect_any(std::move(*endpoints));
}

Task<Result<Connected>> Connector::connect_any(Endpoints endpoints) {
  cancelled_ = false;
  int errnum = EHOSTUNREACH;
  std::string cause;
  for (const Endpoint& endpoint : endpoints) {
    Result<Connected> connected = co_await connect_one(endpoint);
    if (connected && options_.address && !options_.follows) options_.address->set(endpoint);
    if (connected) co_return connected;
    if (cancelled_) co_return fail(cancelled_error());
    errnum = connected.error().errnum;
    if (!cause.empty()) cause += "; ";
    cause += to_string(endpoint) + ": " + std::strerror(errnum);
    if (!connected.error().cause.empty()) cause += " (" + connected.error().cause + ")";
  }
  if (cause.empty()) cause = "host has no address";
  co_return fail(connect_error(errnum, std::move(cause)));
}

Task<Result<Connected>> Connector::connect_one(Endpoint endpoint) {
  Result<Socket> opened = open(endpoint);
  if (!opened) co_return fail(std::move(opened).error());
  Socket socket = std::move(*opened);

  if (::connect(socket.get(), endpoint.get(), endpoint.length) != 0) {
    if (errno != EINPROGRESS) co_return fail(connect_error(errno, {}));
    auto attempt = std::make_shared<SocketWait>(loop_, socket.get());
    attempt_ = attempt;
    SocketWait::arm(attempt, asio::posix::stream_descriptor::wait_write,
                    Clock::now() + options_.connect_timeout);
    const SocketWait::End end = co_await attempt->wait();
    attempt_.reset();
    if (end == SocketWait::End::kTimeout) co_return fail(connect_error(ETIMEDOUT, {}));
    if (end == SocketWait::End::kCancelled) co_return fail(cancelled_error());
  }
  int errnum = 0;
  socklen_t size = sizeof(errnum);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &errnum, &size) != 0) errnum = errno;
  if (errnum != 0) co_return fail(connect_error(errnum, {}));

  Result<Endpoint> local = local_endpoint(socket.get());
  if (!local) co_return fail(connect_error(local.error().errnum, {}));
  // A connect to a port in our own ephemeral range can connect to itself (RFC 9293 section 3.5, simultaneous
  // open).
  if (to_string(*local) == to_string(endpoint)) co_return fail(connect_error(ECONNREFUSED, "nobody listens"));
  Connected connected;
  connected.peer = to_string(endpoint);
  connected.local = to_string(*local);
  connected.socket = std::move(socket);
  co_return connected;
}

Result<Socket> Connector::open(const Endpoint& endpoint) {
  Socket socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket) return fail(connect_error(errno, "socket"));
  NFSRDMA_TRY(configure(socket.get(), dead_peer_times(options_.timeo, options_.retrans)));
  if (options_.reserved_port) bind_reserved(socket.get(), endpoint.family());
  return socket;
}

// Leaves the socket unbound when no reserved port is available: most servers do not require one.
void Connector::bind_reserved(int fd, int family) {
  constexpr unsigned kPorts = kLastReservedPort - kFirstReservedPort + 1;
  const unsigned start = std::random_device{}() % kPorts;
  for (unsigned i = 0; i < kPorts; ++i) {
    if (bind_port(fd, family, kFirstReservedPort + (start + i) % kPorts)) return;
    if (errno != EADDRINUSE) break;
  }
  if (!std::exchange(reserved_port_refused_, true)) {
    log::info("no reserved port for {}: {}; going on without one", options_.host, std::strerror(errno));
  }
}

void Connector::cancel() {
  cancelled_ = true;
  const auto attempt = attempt_;
  // Both finish() and cancel() resume a waiter, which may destroy the Connector: nothing may follow.
  if (attempt) return attempt->finish(SocketWait::End::kCancelled);
  resolver_.cancel();
}

}  // namespace nfsrdma::net
