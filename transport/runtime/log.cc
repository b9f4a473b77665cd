// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/log.h"

#include <spdlog/spdlog.h>

#include "transport/runtime/trace.h"

namespace nfsrdma::log {
namespace {

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

bool on(Level level) {
  return spdlog::should_log(spdlog_level(level));
}

void write(Level level, fmt::string_view format, fmt::format_args args) {
  if (!on(level)) return;
  spdlog::log(spdlog_level(level), spdlog::string_view_t(fmt::vformat(format, args)));
}

bool tracing() {
  return spdlog::should_log(spdlog::level::trace);
}

void trace(std::string_view line) {
  spdlog::log(spdlog::level::trace, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace nfsrdma::log
