// SPDX-License-Identifier: Apache-2.0
// ClientOptions: what a client's TLS sessions need (client.h). Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "transport/tls/settings.h"

namespace nfsrdma::tls {

struct ClientOptions {
  Settings settings;
  std::string host;  // whose certificate is expected
  uint32_t program = 0;
  uint32_t version = 0;
  std::chrono::milliseconds timeout{10'000};  // for the whole
};

}  // namespace nfsrdma::tls
