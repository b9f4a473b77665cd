// SPDX-License-Identifier: Apache-2.0
// Connector: from a host name to a connected, configured, non-blocking socket.
//
// Tries every address of the host in the resolver's order, each for at most connect_timeout. A connection
// that follows another one (server_address.h) tries only that one's address. Sets on the socket: TCP_NODELAY
// (a request must not wait for the acknowledgement of the one before), keepalive and TCP_USER_TIMEOUT from
// timeo and retrans (as the kernel's client does), and, if asked and permitted, a reserved local port.
//
// Errors: Layer::kTransport. kInterrupted after cancel(); kPermanent when the host does not exist; otherwise
// kReconnect, with the errno of the last address and a cause that lists the error of each address. Loop
// thread only.
#pragma once

#include <memory>
#include <string>

#include "transport/net/connector_options.h"
#include "transport/net/endpoint.h"
#include "transport/net/socket_io.h"

namespace nfsrdma::net {

// Socket options that detect a dead peer. On an idle connection the detection takes idle + interval * count
// seconds.
struct DeadPeerTimes {
  int keepalive_idle_s = 0;      // TCP_KEEPIDLE
  int keepalive_interval_s = 0;  // TCP_KEEPINTVL
  int keepalive_count = 0;       // TCP_KEEPCNT
  unsigned user_timeout_ms = 0;  // TCP_USER_TIMEOUT: for sent data without acknowledgement
};
// Clamped to what the kernel accepts.
DeadPeerTimes dead_peer_times(std::chrono::milliseconds timeo, unsigned retrans);
// Sets TCP_NODELAY and the times; also used for accepted sockets.
Result<> configure(int fd, const DeadPeerTimes& times);

struct Connected {
  Socket socket;
  std::string peer;
  std::string local;
};

class Connector {
 public:
  Connector(Loop& loop, const ConnectorOptions& options) : loop_(loop), options_(options), resolver_(loop) {}

  // Resolves, then connects. One at a time.
  Task<Result<Connected>> connect();
  // Tries these addresses in order.
  Task<Result<Connected>> connect_any(Endpoints endpoints);
  // The current connect() ends soon with kInterrupted.
  void cancel();

 private:
  Task<Result<Connected>> connect_one(Endpoint endpoint);
  Result<Socket> open(const Endpoint& endpoint);
  void bind_reserved(int fd, int family);

  Loop& loop_;
  const ConnectorOptions& options_;
  Resolver resolver_;
  std::shared_ptr<SocketWait> attempt_;  // while the socket connects
  bool cancelled_ = false;
  bool reserved_port_refused_ = false;  // logged once
};

}  // namespace nfsrdma::net
