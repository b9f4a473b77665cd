// SPDX-License-Identifier: Apache-2.0
// Context: what all TLS sessions of one end share: trusted certificates, our own, and the rules of
// RPC-with-TLS (RFC 9289 section 5): TLS 1.3 only, ALPN "sunrpc", no early data.
//
// It reads the files when it is made. Make another one for each connection of a client, so that renewed
// certificates count without a remount. A value: copies share it. Any thread.
//
// Errors: Layer::kSecurity, Recovery::kPermanent; the cause names the file.
#pragma once

#include <memory>
#include <string_view>

#include "transport/tls/settings.h"
#include "xdr/support/result.h"

struct bio_method_st;
struct ssl_ctx_st;

namespace nfsrdma::tls {

inline constexpr std::string_view kAlpn = "sunrpc";  // RFC 9289 section 7.2

class Context {
 public:
  // A client checks the server's certificate. Its own is shown to a server that asks for it.
  static Result<Context> client(const Settings& settings);
  // A server has a certificate, and asks each client for one (section 4.2). A client's certificate must be
  // trusted. `mutual`: a client must have one.
  static Result<Context> server(const Settings& settings, bool mutual);

  ssl_ctx_st* get() const { return context_.get(); }
  // How a session reads and writes its socket, whose descriptor is the BIO's data: like OpenSSL's own, but a
  // write to a closed socket raises no SIGPIPE.
  const bio_method_st* socket_method() const { return method_.get(); }

 private:
  Context() = default;
  static Result<Context> with(std::shared_ptr<ssl_ctx_st> made);

  std::shared_ptr<ssl_ctx_st> context_;
  std::shared_ptr<bio_method_st> method_;
};

}  // namespace nfsrdma::tls
