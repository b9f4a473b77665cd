// SPDX-License-Identifier: Apache-2.0
// SOURCE: the server and path of a mount.
//
//     host:/path          nfs(5); host is a name or a dotted quad
//     [v6]:/path          nfs(5); a zone identifier is allowed: [fe80::1%eth0]
//     nfs://host[:port]/path   RFC 2224; the path is percent-decoded and starts at the server's root
//
// Pure parsing; nothing is looked up. The resulting path is absolute, with single slashes and without a
// trailing slash ("/" for the root). "." and ".." are refused: NFSv4 has no such names (RFC 8881 section
// 14.5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

enum class HostKind : uint8_t { kName, kIpv4, kIpv6 };

struct Source {
  std::string text;  // as given by the user: the mount table shows it, and umount and fstab compare it
  std::string host;  // without brackets, with a zone identifier
  HostKind host_kind = HostKind::kName;
  std::optional<uint16_t> port;  // only with nfs://
  std::string path;
};

// True if `text` is an address of `family` (AF_INET or AF_INET6), without brackets or a zone identifier.
bool is_address(int family, const std::string& text);

// Fails with MountExit::kUsage.
Outcome<Source> parse_source(std::string_view text);

// `SERVER[:/path]` for `probe`: as above, but the path may be missing ("/").
Outcome<Source> parse_server(std::string_view text);

}  // namespace nfsrdma::cli
