// SPDX-License-Identifier: Apache-2.0
// Settings: whom one end of a TLS session trusts, and how it proves who it is (RFC 9289 section 5.2.1). Plain
// values.
#pragma once

#include <string>

namespace nfsrdma::tls {

struct Settings {
  std::string trust;        // PEM file of certificates that sign others; empty: those of this system
  std::string certificate;  // PEM file: our certificate, then those that lead to a trusted one; empty: none
  std::string key;          // PEM file of its private key; empty: in the file of the certificate
};

}  // namespace nfsrdma::tls
