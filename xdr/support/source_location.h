// SPDX-License-Identifier: Apache-2.0
// SourceLocation is std::source_location. clang 14 (fuzzing, clang-tidy) gets a replacement, because it lacks
// the built-in function that libstdc++'s std::source_location needs.
//
// Immutable. As a default argument `SourceLocation where = SourceLocation::current()` it names the caller.
#pragma once

#include <cstdint>
#include <source_location>

namespace nfsrdma {

#ifdef __cpp_lib_source_location
using SourceLocation = std::source_location;
#else
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          uint32_t line = __builtin_LINE()) {
    SourceLocation here;
    here.file_ = file;
    here.function_ = function;
    here.line_ = line;
    return here;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr uint32_t line() const { return line_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  uint32_t line_ = 0;
};
#endif

}  // namespace nfsrdma
