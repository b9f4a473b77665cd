// SPDX-License-Identifier: Apache-2.0
// Log: one line per event, in the style of kernel messages. A line names the next command to run where that
// helps.
//
// log.cc uses spdlog. This header does not include it: otherwise each file that logs would compile its own
// formatter. A library may log without knowing where the lines go; main installs the sinks (cli/). Any
// thread.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>

namespace nfsrdma::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// True if lines of this level are written to a sink.
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

// Limits log lines that a hostile or broken peer can provoke at will: passes the 1st, 2nd, 4th, 8th... event.
class Throttle {
 public:
  // Counts the event. Returns its number if it should be logged, else 0.
  uint64_t hit() {
    const uint64_t n = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    return (n & (n - 1)) == 0 ? n : 0;
  }

 private:
  std::atomic<uint64_t> count_{0};
};

}  // namespace nfsrdma::log
