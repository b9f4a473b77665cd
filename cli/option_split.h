// SPDX-License-Identifier: Apache-2.0
// Splitting of `-o a,b=c,d`: the comma list of mount(8) and libfuse.
//
// A backslash takes the next character as it is (`\,` and `\\`, as libfuse reads it), and a value that begins
// with a double quote runs to the next one (as libmount reads it), so a comma can be part of a value. Empty
// items are skipped: fstab entries are edited by hand. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/outcome.h"

namespace nfsrdma::cli {

// One item of the list, escapes resolved. `rsize=` has a value, the empty one; `hard` has none.
struct RawOption {
  std::string name;
  std::optional<std::string> value;

  bool operator==(const RawOption&) const = default;
};

// Fails with MountExit::kUsage on an unclosed quote and on an item that begins with '='.
Outcome<std::vector<RawOption>> split_options(std::string_view list);

// The inverse for one text: commas, backslashes and quotes escaped.
std::string escape_option(std::string_view text);

}  // namespace nfsrdma::cli
