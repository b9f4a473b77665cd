// SPDX-License-Identifier: Apache-2.0
// Input of the entries that are given text: pieces, and what every message of a failure is held to.
#pragma once

#include <cstdint>
#include <string_view>

#include "cli/outcome.h"
#include "tests/fuzz/fuzz.h"

namespace nfsrdma::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Up to `separator`, which is removed as well; all of it where there is none.
inline std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view taken = text.substr(0, text.find(separator));
  text.remove_prefix(taken.size() + (taken.size() < text.size() ? 1 : 0));
  return taken;
}

// A refusal says why, with the exit status that its caller promises.
template <class T, class Code>
void require_reason(const cli::Outcome<T>& outcome, Code code) {
  require(outcome || !outcome.error().text.empty(), "a refusal has a reason");
  require(outcome || outcome.error().exit_code == static_cast<int>(code),
          "and the exit status that is promised");
}

}  // namespace nfsrdma::fuzz
