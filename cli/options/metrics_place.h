// SPDX-License-Identifier: Apache-2.0
// MetricsPlace: the address where a mount serves its metrics; the value of metrics=. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct MetricsPlace {
  std::string path;     // of a UNIX socket, absolute; if empty, address and port hold
  std::string address;  // IPv4 or IPv6, numeric
  uint16_t port = 0;

  bool local() const { return !path.empty(); }
  bool loopback() const;
  std::string text() const;  // in the syntax of the option
  bool operator==(const MetricsPlace&) const = default;
};

// Accepts "unix:/PATH", "127.0.0.1:9464", "[::1]:9464" or "localhost:9464". The failure names the valid
// forms.
Outcome<MetricsPlace> parse_metrics_place(std::string_view text);

}  // namespace nfsrdma::cli
