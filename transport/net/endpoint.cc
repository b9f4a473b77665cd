// SPDX-License-Identifier: Apache-2.0
#include "transport/net/endpoint.h"

#include <netdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "transport/runtime/mutex.h"

namespace nfsrdma::net {
namespace {

Error resolve_error(int code, int errnum, const std::string& host) {
  const bool temporary = code == EAI_AGAIN || code == EAI_SYSTEM || code == EAI_MEMORY;
  const char* text = code == EAI_SYSTEM ? std::strerror(errnum) : ::gai_strerror(code);
  return {.layer = Layer::kTransport,
          .recovery = temporary ? Recovery::kReconnect : Recovery::kPermanent,
          .errnum = EHOSTUNREACH,
          .op = "resolve",
          .cause = "cannot find the address of host '" + host + "': " + text};
}

Result<Endpoints> look_up(const std::string& host, uint16_t port, Family family, int flags) {
  addrinfo hints{};
  hints.ai_family = family == Family::kIpv4 ? AF_INET : family == Family::kIpv6 ? AF_INET6 : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return fail(resolve_error(code, errno, host));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Endpoints found;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    Endpoint& e = found.emplace_back();
    std::memcpy(&e.address, a->ai_addr, a->ai_addrlen);
    e.length = a->ai_addrlen;
  }
  return found;
}

}  // namespace

uint16_t Endpoint::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(get())->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(get())->sin_port);
}

void Endpoint::set_port(uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
}

std::string to_string(const Endpoint& e) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  const int code = ::getnameinfo(e.get(), e.length, host, sizeof(host), port, sizeof(port),
                                 NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) return "unknown address";
  return e.family() == AF_INET6 ? "[" + std::string(host) + "]:" + port : std::string(host) + ":" + port;
}

std::string address_in(const std::string& endpoint) {
  const std::string address = endpoint.substr(0, endpoint.rfind(':'));
  return address.starts_with('[') ? address.substr(1, address.size() - 2) : address;
}

Result<Endpoint> local_endpoint(int fd) {
  Endpoint e;
  e.length = sizeof(e.address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&e.address), &e.length) != 0) {
    return fail(system_error(errno, "getsockname"));
  }
  return e;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

// Shared by the waiting coroutine and the thread. `wanted` becomes false when the coroutine gets its answer
// or is cancelled. From then on the thread touches neither loop nor coroutine.
struct Resolver::Lookup {
  Mutex mutex;
  bool wanted NFSRDMA_GUARDED_BY(mutex) = true;
  Completion<Result<Endpoints>> done;

  bool take() {
    MutexLock lock(mutex);
    return std::exchange(wanted, false);
  }

  static void run(std::shared_ptr<Lookup> self, Loop* loop, std::string host, uint16_t port, Family family) {
    Result<Endpoints> found = look_up(host, port, family, 0);
    // Under the lock: while `wanted` is true, the coroutine waits, so it and its loop are alive.
    MutexLock lock(self->mutex);
    if (!self->wanted) return;
    loop->post([self, answer = std::move(found)]() mutable {
      if (self->take()) self->done.set(std::move(answer));
    });
  }
};

Task<Result<Endpoints>> Resolver::resolve(std::string host, uint16_t port, Family family) {
  Result<Endpoints> literal = look_up(host, port, family, AI_NUMERICHOST);
  if (literal) co_return literal;

  auto lookup = std::make_shared<Lookup>();
  lookup_ = lookup;
  try {
    std::thread(&Lookup::run, lookup, &loop_, host, port, family).detach();
  } catch (const std::system_error& e) {
    lookup_.reset();
    co_return fail(resolve_error(EAI_SYSTEM, e.code().value(), host));
  }
  Result<Endpoints> answer = co_await lookup->done.wait();
  lookup_.reset();
  co_return answer;
}

void Resolver::cancel() {
  const auto lookup = lookup_;
  if (!lookup || !lookup->take()) return;
  lookup->done.set(fail({.layer = Layer::kTransport,
                         .recovery = Recovery::kInterrupted,
                         .errnum = EINTR,
                         .op = "resolve",
                         .cause = "cancelled"}));
}

}  // namespace nfsrdma::net
