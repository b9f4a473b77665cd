// SPDX-License-Identifier: Apache-2.0
// Splits `-o a,b=c,d`, the comma-separated list of mount(8) and libfuse.
//
// A backslash escapes the next character (`\,` and `\\`, as in libfuse). A value that begins with a double
// quote extends to the next double quote (as in libmount). So a value can contain commas. Empty items are
// skipped, because people edit fstab by hand. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// One item of the list, with escapes resolved. `rsize=` has an empty value; `hard` has no value.
struct RawOption {
  std::string name;
  std::optional<std::string> value;

  bool operator==(const RawOption&) const = default;
};

// Fails with MountExit::kUsage for an unclosed quote, or for an item that begins with '='.
Outcome<std::vector<RawOption>> split_options(std::string_view list);

// Escapes commas, backslashes and quotes in one text.
std::string escape_option(std::string_view text);

}  // namespace nfsrdma::cli
