// SPDX-License-Identifier: Apache-2.0
// Log: one line per event, kernel-style, with what to run next where that helps.
//
// spdlog does the work, in log.cc: with its header, each file that logs would compile a formatter of its own.
// A library may log without knowing where lines go; main installs the sinks (cli/). Any thread.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>

namespace nfsrdma::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// Whether lines of this level go anywhere.
bool on(Level level);
void write(Level level, fmt::string_view format, fmt::format_args args);

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, format, fmt::make_format_args(args...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarn, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kInfo, format, fmt::make_format_args(args...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kDebug, format, fmt::make_format_args(args...));
}

// A gate for lines that a hostile or broken peer can provoke at will: opens for the 1st, 2nd, 4th, 8th...
// event.
class Throttle {
 public:
  // The number of the event when it is to be logged, else 0.
  uint64_t hit() {
    const uint64_t n = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    return (n & (n - 1)) == 0 ? n : 0;
  }

 private:
  std::atomic<uint64_t> count_{0};
};

}  // namespace nfsrdma::log
