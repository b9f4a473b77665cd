// SPDX-License-Identifier: Apache-2.0
// Endpoint: one socket address. Socket: owns a file descriptor and closes it in its destructor.
//
// resolve(): from a host name to endpoints, by getaddrinfo. A literal address is answered at once. A name is
// looked up again for each call, in a separate thread, because getaddrinfo may block as long as the
// resolver's configuration says. The loop is not blocked, and cancel() does not wait for that thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/net/family.h"
#include "transport/runtime/sync.h"
#include "xdr/support/result.h"

namespace nfsrdma::net {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  int family() const { return address.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  uint16_t port() const;
  void set_port(uint16_t port);
};

// "10.0.0.1:2049", "[fe80::1%eth0]:2049".
std::string to_string(const Endpoint& endpoint);
// The address in a result of to_string(), without port and brackets.
std::string address_in(const std::string& endpoint);
Result<Endpoint> local_endpoint(int fd);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

using Endpoints = std::vector<Endpoint>;

// One lookup in progress. Loop thread only, except for the thread that runs getaddrinfo.
class Resolver {
 public:
  explicit Resolver(Loop& loop) : loop_(loop) {}

  // Errors: kTransport, op "resolve". kPermanent when the name does not exist, kReconnect when the lookup
  // failed for another reason, kInterrupted after cancel(). One call at a time.
  Task<Result<Endpoints>> resolve(std::string host, uint16_t port, Family family);
  void cancel();

 private:
  struct Lookup;
  Loop& loop_;
  std::shared_ptr<Lookup> lookup_;
};

}  // namespace nfsrdma::net
