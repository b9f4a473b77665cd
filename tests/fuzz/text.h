// SPDX-License-Identifier: Apache-2.0
// Text as input: splitting it, and checks for error messages.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/support/outcome.h"
#include "tests/fuzz/fuzz.h"

namespace nfsrdma::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Removes and returns the text up to `separator`, which is removed too; all of it if there is none.
inline std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view taken = text.substr(0, text.find(separator));
  text.remove_prefix(taken.size() + (taken.size() < text.size() ? 1 : 0));
  return taken;
}

// A refusal must have a reason and the exit status that its caller documents.
template <class T, class Code>
void require_reason(const cli::Outcome<T>& outcome, Code code) {
  require(outcome || !outcome.error().text.empty(), "a refusal has a reason");
  require(outcome || outcome.error().exit_code == static_cast<int>(code),
          "and the exit status that is promised");
}

}  // namespace nfsrdma::fuzz
