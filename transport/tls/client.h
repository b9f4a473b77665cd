// SPDX-License-Identifier: Apache-2.0
// Makes a TLS session on a connection that a client has just made: asks the server for TLS, then shakes hands
// (RFC 9289 section 4.1). Nothing else has been sent.
//
// Loop thread only. cancel() ends the current secure() soon with Recovery::kInterrupted.
//
// Errors: of the socket Layer::kTransport, kReconnect. Layer::kSecurity: kPermanent if the server offers no
// TLS, has a certificate that is not accepted, or does not accept ours; kReconnect if it closed the
// connection meanwhile.
#pragma once

#include <memory>

#include "transport/net/socket_io.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"
#include "transport/tls/client_options.h"
#include "transport/tls/stream.h"

namespace nfsrdma::tls {

class Client {
 public:
  Client(Loop& loop, ClientOptions options) : loop_(loop), options_(std::move(options)) {}

  // `fd`: a connected, non-blocking socket, which outlives the stream. One at a time.
  Task<Result<std::unique_ptr<Stream>>> secure(int fd);
  void cancel();

 private:
  Task<Result<>> ask(int fd, TimePoint deadline);
  Task<Result<>> ready(int fd, bool to_write, TimePoint deadline);
  Task<Result<>> receive(int fd, MutableBytes into, TimePoint deadline);

  Loop& loop_;
  const ClientOptions options_;
  std::shared_ptr<net::SocketWait> wait_;
  bool cancelled_ = false;
};

}  // namespace nfsrdma::tls
