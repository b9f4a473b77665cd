// SPDX-License-Identifier: Apache-2.0
// Certificates for tests: an authority that signs what it is asked to, right or wrong. Files in a directory
// of its own, removed at the end. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tls/settings.h"

struct evp_pkey_st;
struct x509_st;

namespace nfsrdma::test {

struct Wanted {
  std::vector<std::string> dns_names;
  std::vector<std::string> addresses;
  std::string purpose{};            // of extendedKeyUsage: "serverAuth"; empty: no such extension
  long valid_from_seconds = -3600;  // from now on
  long valid_until_seconds = 3600;
};

class Authority {
 public:
  explicit Authority(const std::string& name = "Test Authority");
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // PEM file of its certificate.
  std::string file() const { return path("authority.pem"); }
  // Certificate and key, signed by this authority. Trusts this authority.
  tls::Settings issue(const Wanted& wanted);
  // Trusts this authority, and has no certificate.
  tls::Settings trusting() const { return {.trust = file(), .certificate = {}, .key = {}}; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  std::string directory_;
  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
  int issued_ = 0;
};

}  // namespace nfsrdma::test
