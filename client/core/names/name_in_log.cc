// SPDX-License-Identifier: Apache-2.0
#include "client/core/names/name_in_log.h"

#include <fmt/format.h>

#include <optional>

#include "transport/runtime/log.h"

namespace nfsrdma::client {

std::string called(NameCache& names, Node& node, uint64_t ino) {
  const auto found = log::on(log::Level::kDebug) ? names.name_of(node) : std::nullopt;
  return found ? fmt::format("\"{}\" (inode {})", found->name, ino) : fmt::format("inode {}", ino);
}

std::string how_to_find(NameCache& names, Node& node, uint64_t ino) {
  if (log::on(log::Level::kDebug) && names.name_of(node)) return {};
  return fmt::format("; which file: run 'find -inum {}' in the mount", ino);
}

}  // namespace nfsrdma::client
