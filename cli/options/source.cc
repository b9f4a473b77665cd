// SPDX-License-Identifier: Apache-2.0
#include "cli/options/source.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <limits.h>

#include <algorithm>
#include <charconv>

namespace nfsrdma::cli {
namespace {

constexpr std::string_view kForms = "write host:/path, [ipv6]:/path or nfs://host/path";

tl::unexpected<Failure> bad_source(std::string_view text, std::string_view why) {
  return refuse(MountExit::kUsage, fmt::format("source \"{}\": {}", text, why));
}

Outcome<> check_host(std::string_view text, Source& source, bool bracketed) {
  const std::string& host = source.host;
  if (host.empty()) return bad_source(text, "the server's name is missing");
  if (host.size() > 255) return bad_source(text, "the server's name is longer than 255 bytes");
  const bool clean = std::all_of(host.begin(), host.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f && c != '/' && c != '[' && c != ']' && c != '@';
  });
  if (!clean) return bad_source(text, "the server's name has a character that no host name has");
  if (bracketed) {
    const size_t zone = host.find('%');
    if (!is_address(AF_INET6, host.substr(0, zone)) || zone == host.size() - 1) {
      return bad_source(text, "what stands in brackets is not an IPv6 address");
    }
    source.host_kind = HostKind::kIpv6;
    return {};
  }
  if (host.find(':') != std::string::npos)
    return bad_source(text, "write an IPv6 address in brackets: [address]:/path");
  if (host.find(',') != std::string::npos)
    return bad_source(text, "one server only; replicas are not supported");
  if (is_address(AF_INET, host)) source.host_kind = HostKind::kIpv4;
  return {};
}

// Makes the path absolute, with single slashes and no trailing slash.
Outcome<std::string> clean_path(std::string_view text, std::string_view path) {
  if (path.size() >= PATH_MAX) return bad_source(text, "the path is too long");
  std::string out;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty()) continue;
    if (name == "." || name == "..")
      return bad_source(text, "\".\" and \"..\" have no meaning on the server");
    if (name.size() > NAME_MAX) return bad_source(text, "a name in the path is longer than 255 bytes");
    out += '/';
    out += name;
  }
  return out.empty() ? "/" : out;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Outcome<std::string> percent_decode(std::string_view text, std::string_view encoded) {
  std::string out;
  for (size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      out += encoded[i];
      continue;
    }
    const int high = i + 2 < encoded.size() ? hex_digit(encoded[i + 1]) : -1;
    const int low = i + 2 < encoded.size() ? hex_digit(encoded[i + 2]) : -1;
    if (high < 0 || low < 0) return bad_source(text, "'%' must be followed by two hexadecimal digits");
    const auto byte = static_cast<char>(high * 16 + low);
    if (byte == '\0') return bad_source(text, "a path cannot hold a NUL byte");
    out += byte;
    i += 2;
  }
  return out;
}

// Takes "[v6]" or a name from the front of `rest`. A name ends before the first character in `stops`.
Outcome<> take_host(std::string_view text, std::string_view& rest, std::string_view stops, Source& source) {
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad_source(text, "the bracket is not closed");
    source.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    // RFC 6874: in a URL the zone's '%' is itself written %25.
    if (text.starts_with("nfs://")) {
      if (const size_t zone = source.host.find("%25"); zone != std::string::npos)
        source.host.erase(zone + 1, 2);
    }
    return check_host(text, source, true);
  }
  const size_t end = std::min(rest.find_first_of(stops), rest.size());
  source.host = rest.substr(0, end);
  rest.remove_prefix(end);
  return check_host(text, source, false);
}

Outcome<Source> parse_url(std::string_view text) {
  Source source;
  source.text = text;
  std::string_view rest = text.substr(std::string_view("nfs://").size());
  if (auto host = take_host(text, rest, ":/?#", source); !host)
    return tl::unexpected(std::move(host).error());
  if (rest.starts_with(':')) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    uint16_t port = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, port);
    if (error != std::errc{} || stop != rest.data() + end || port == 0) {
      return bad_source(text, "the port must be a number from 1 to 65535");
    }
    source.port = port;
    rest.remove_prefix(end);
  }
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return bad_source(text, "options go into -o; write '?' and '#' of a file name as %3F and %23");
  }
  if (!rest.empty() && !rest.starts_with('/')) return bad_source(text, kForms);
  auto decoded = percent_decode(text, rest);
  if (!decoded) return tl::unexpected(std::move(decoded).error());
  auto path = clean_path(text, *decoded);
  if (!path) return tl::unexpected(std::move(path).error());
  source.path = *std::move(path);
  return source;
}

// An IPv6 address without brackets, as in fe80::1:/path: the first colon is not the one before the path.
bool looks_like_bare_ipv6(std::string_view text) {
  const size_t path = std::min(text.find(":/"), text.size());
  return is_address(AF_INET6, std::string(text.substr(0, path)));
}

Outcome<Source> parse(std::string_view text, bool path_needed) {
  if (text.starts_with("nfs://")) return parse_url(text);
  if (looks_like_bare_ipv6(text))
    return bad_source(text, "write an IPv6 address in brackets: [address]:/path");
  Source source;
  source.text = text;
  std::string_view rest = text;
  if (rest.find('/') < rest.find(':')) return bad_source(text, kForms);
  if (auto host = take_host(text, rest, ":", source); !host) return tl::unexpected(std::move(host).error());
  if (rest.empty()) {
    if (path_needed) return bad_source(text, kForms);
    source.path = "/";
    return source;
  }
  if (!rest.starts_with(":/")) return bad_source(text, kForms);
  auto path = clean_path(text, rest.substr(1));
  if (!path) return tl::unexpected(std::move(path).error());
  source.path = *std::move(path);
  return source;
}

}  // namespace

bool is_address(int family, const std::string& text) {
  in6_addr any;  // large enough for both families
  return inet_pton(family, text.c_str(), &any) == 1;
}

Outcome<Source> parse_source(std::string_view text) {
  return parse(text, true);
}
Outcome<Source> parse_server(std::string_view text) {
  return parse(text, false);
}

}  // namespace nfsrdma::cli
