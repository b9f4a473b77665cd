// SPDX-License-Identifier: Apache-2.0
// Reporter: how the code that mounts tells the waiting user what became of it.
//
// Two kinds. In the background the mounting code is a child process and its reports go through a pipe to the
// parent (cli/launch.h), whose exit status is the truth about the mount. In the foreground there is no
// parent: failures go to standard error, and readiness to the service manager (sd_notify(3)).
//
// Exactly one of ready(), failed() and background() is called, once, from the thread that started; progress()
// only before it. Never throws, never blocks on a parent that has died.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cli/outcome.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

class Reporter {
 public:
  virtual ~Reporter() = default;
  // Something worth a line while the user waits ("connect: Connection refused; trying again").
  virtual void progress(std::string_view line) = 0;
  // The mount answers. From here on the process is on its own.
  virtual void ready() = 0;
  // It will not be mounted. The process is about to end.
  virtual void failed(const Failure& failure) = 0;
  // `bg`: the first attempt failed; the user need not wait for the others.
  virtual void background(std::string_view why) = 0;
};

class PipeReporter final : public Reporter {
 public:
  // `pipe`: the write end.
  explicit PipeReporter(Fd pipe) : pipe_(std::move(pipe)) {}
  void progress(std::string_view line) override;
  void ready() override;
  void failed(const Failure& failure) override;
  void background(std::string_view why) override;

 private:
  void detach();
  Fd pipe_;
  bool detached_ = false;
};

class ForegroundReporter final : public Reporter {
 public:
  ForegroundReporter(std::string program, bool verbose) : program_(std::move(program)), verbose_(verbose) {}
  void progress(std::string_view line) override;
  void ready() override;
  void failed(const Failure& failure) override;
  void background(std::string_view why) override;

 private:
  std::string program_;
  bool verbose_;
};

// One message on the pipe. kEnd: the writer is gone without a final report.
struct Report {
  enum class Kind : uint8_t { kProgress = 'P', kReady = 'R', kFailed = 'F', kBackground = 'B', kEnd = 0 };
  Kind kind = Kind::kEnd;
  uint8_t code = 0;  // exit status, with kFailed
  std::string text;

  bool operator==(const Report&) const = default;
};

// Takes reports out of a byte stream that arrives in any pieces. A stream that is not one of ours ends in
// kEnd.
class ReportReader {
 public:
  void append(std::string_view bytes) { buffer_ += bytes; }
  // The next complete report; nothing when more bytes are needed.
  bool next(Report& report);

 private:
  std::string buffer_;
};

std::string encode_report(const Report& report);

// sd_notify(3): "READY=1", "STOPPING=1"... to $NOTIFY_SOCKET; false when there is none or it does not take
// it.
bool notify_service_manager(std::string_view state);

}  // namespace nfsrdma::cli
