// SPDX-License-Identifier: Apache-2.0
// Captures log lines of `level` and above while it lives. Only one may exist; any thread may log.
#pragma once

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

namespace nfsrdma::test {

class CapturedLog {
 public:
  explicit CapturedLog(spdlog::level::level_enum level) {
    auto logger = std::make_shared<spdlog::logger>("captured", lines_);
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const {
    std::string all;
    for (const std::string& line : lines_->last_formatted()) all += line;
    return all;
  }
  bool has(const std::string& words) const { return text().find(words) != std::string::npos; }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
};

}  // namespace nfsrdma::test
