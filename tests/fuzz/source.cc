// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: SOURCE, and the server argument of `probe`.
//
// Checked: the path is absolute and normalized, and no name in it is longer than a file name may be. A parsed
// source that is written in nfs(5)'s form is parsed as the same source. Both parsers agree.
#include "cli/options/source.h"

#include <algorithm>
#include <climits>

#include "tests/fuzz/text.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using cli::Source;
using fuzz::require;

bool same(const Source& a, const Source& b) {
  return a.host == b.host && a.host_kind == b.host_kind && a.path == b.path;
}

void check_path(std::string_view path) {
  require(path.starts_with('/') && path.size() < PATH_MAX, "the path is absolute, and one");
  require(path.find('\0') == path.npos, "and has no NUL");
  if (path == "/") return;
  for (path.remove_prefix(1);;) {
    const bool last = path.find('/') == path.npos;
    const std::string_view name = fuzz::take_until(path, '/');
    require(!name.empty() && name != "." && name != ".." && name.size() <= NAME_MAX,
            "of names that files can have");
    if (last) return;
  }
}

void check(const Source& source, std::string_view text) {
  require(source.text == text, "the text is kept as it was given");
  require(!source.host.empty() && source.host.size() <= 255, "the host has a name");
  require(std::none_of(source.host.begin(), source.host.end(),
                       [](unsigned char c) { return c <= ' ' || c == 0x7f; }),
          "without blanks and control characters");
  require(source.port.value_or(1) != 0, "a port is none or a number");
  check_path(source.path);
  const bool v6 = source.host_kind == cli::HostKind::kIpv6;
  const auto again = cli::parse_source((v6 ? "[" + source.host + "]" : source.host) + ":" + source.path);
  require(again && same(*again, source), "a source is read as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  text = text.substr(0, text.find('\0'));  // a program's argument cannot contain a NUL
  const auto source = cli::parse_source(text);
  const auto server = cli::parse_server(text);
  fuzz::require_reason(source, cli::MountExit::kUsage);
  fuzz::require_reason(server, cli::MountExit::kUsage);
  if (server) check(*server, text);
  if (source) require(server && same(*server, *source) && server->port == source->port, "both parsers agree");
  return 0;
}
