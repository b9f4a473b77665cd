// SPDX-License-Identifier: Apache-2.0
// TlsDoor: TLS for the connections of one server (RFC 9289): its certificate, and whether clients must use
// it.
//
// Shared by the server's links; one loop. The files are read again when they have changed, so a renewed
// certificate counts for the next connection. If they cannot be read then, the last good ones stay.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <optional>

#include "transport/tls/context.h"

namespace nfsrdma::filer::links {

enum class TlsPolicy : uint8_t {
  kOffered,   // clients may use it
  kRequired,  // calls without it are AUTH_TOOWEAK, except NULL
  kMutual,    // and each client must have a certificate that is trusted
};

class TlsDoor {
 public:
  // Errors: tls::Context::server().
  static Result<std::shared_ptr<TlsDoor>> open(tls::Settings settings, TlsPolicy policy);

  const tls::Context& context();
  bool required() const { return policy_ != TlsPolicy::kOffered; }

 private:
  // When each file was last changed; in the order of Settings.
  using Times = std::array<timespec, 3>;

  TlsDoor(tls::Settings settings, TlsPolicy policy, Times times, tls::Context context);
  static Times times_of(const tls::Settings& settings);

  const tls::Settings settings_;
  const TlsPolicy policy_;
  Times times_;
  tls::Context context_;
};

}  // namespace nfsrdma::filer::links
