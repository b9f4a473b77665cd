// Log: one line per event, kernel-style, with what to run next where that helps.
//
// spdlog does the work; this header fixes the logger's name, so that a library may log without knowing where
// lines go. main installs the sinks (cli/). Any thread.
#pragma once

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>

namespace nfsrdma::log {

template <class... Args>
void error(spdlog::format_string_t<Args...> fmt, Args&&... args) {
  spdlog::error(fmt, std::forward<Args>(args)...);
}
template <class... Args>
void warn(spdlog::format_string_t<Args...> fmt, Args&&... args) {
  spdlog::warn(fmt, std::forward<Args>(args)...);
}
template <class... Args>
void info(spdlog::format_string_t<Args...> fmt, Args&&... args) {
  spdlog::info(fmt, std::forward<Args>(args)...);
}
template <class... Args>
void debug(spdlog::format_string_t<Args...> fmt, Args&&... args) {
  spdlog::debug(fmt, std::forward<Args>(args)...);
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
