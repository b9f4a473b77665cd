// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_split.h"

#include <fmt/core.h>

namespace nfsrdma::cli {
namespace {

// Parses one item at the front of `rest` up to its comma, and removes both.
Outcome<RawOption> take_item(std::string_view& rest) {
  RawOption item;
  std::string* target = &item.name;
  size_t i = 0;
  bool quoted = false;
  for (; i < rest.size(); ++i) {
    const char c = rest[i];
    if (c == '\\' && i + 1 < rest.size()) {
      *target += rest[++i];
    } else if (quoted) {
      if (c == '"') {
        quoted = false;
      } else {
        *target += c;
      }
    } else if (c == ',') {
      break;
    } else if (c == '=' && target == &item.name) {
      item.value.emplace();
      target = &*item.value;
      if (i + 1 < rest.size() && rest[i + 1] == '"') {
        quoted = true;
        ++i;
      }
    } else {
      *target += c;
    }
  }
  if (quoted)
    return refuse(MountExit::kUsage, fmt::format("option \"{}\": the quote is not closed", item.name));
  if (item.name.empty() && item.value) {
    return refuse(MountExit::kUsage, fmt::format("option \"={}\" has no name", *item.value));
  }
  rest.remove_prefix(i < rest.size() ? i + 1 : i);
  return item;
}

}  // namespace

Outcome<std::vector<RawOption>> split_options(std::string_view list) {
  std::vector<RawOption> items;
  while (!list.empty()) {
    auto item = take_item(list);
    if (!item) return tl::unexpected(std::move(item).error());
    if (!item->name.empty()) items.push_back(*std::move(item));
  }
  return items;
}

std::string escape_option(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace nfsrdma::cli
