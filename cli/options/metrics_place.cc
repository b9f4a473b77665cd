// SPDX-License-Identifier: Apache-2.0
#include "cli/options/metrics_place.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <charconv>

#include "cli/options/source.h"

namespace nfsrdma::cli {
namespace {

constexpr std::string_view kUnix = "unix:";

Outcome<MetricsPlace> parse_path(std::string_view path) {
  if (!path.starts_with('/'))
    return bad_usage(fmt::format("\"unix:{}\" needs a path that begins with /", path));
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return bad_usage(
        fmt::format("the path of a socket has at most {} bytes", sizeof(sockaddr_un::sun_path) - 1));
  return MetricsPlace{std::string(path), {}, 0};
}

}  // namespace

bool MetricsPlace::loopback() const {
  return address == "::1" || address.starts_with("127.");
}

std::string MetricsPlace::text() const {
  if (local()) return fmt::format("{}{}", kUnix, path);
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

Outcome<MetricsPlace> parse_metrics_place(std::string_view text) {
  if (text.starts_with(kUnix)) return parse_path(text.substr(kUnix.size()));
  const auto neither = [&] {
    return bad_usage(
        fmt::format("\"{}\" is neither unix:/PATH nor ADDRESS:PORT, as 127.0.0.1:9464 or [::1]:9464", text));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return neither();
  MetricsPlace place;
  place.address = text.substr(0, colon);
  const bool bracketed =
      place.address.size() > 2 && place.address.front() == '[' && place.address.back() == ']';
  if (bracketed) place.address = place.address.substr(1, place.address.size() - 2);
  if (place.address == "localhost") place.address = "127.0.0.1";
  if (!is_address(bracketed ? AF_INET6 : AF_INET, place.address)) return neither();
  const std::string_view port = text.substr(colon + 1);
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), place.port);
  if (error != std::errc{} || stop != port.data() + port.size() || place.port == 0)
    return bad_usage(fmt::format("\"{}\" is no port; one is a number from 1 to 65535", port));
  return place;
}

}  // namespace nfsrdma::cli
