// SPDX-License-Identifier: Apache-2.0
// Reporter: tells the waiting user how the mount attempt ends.
//
// There are two kinds. In the background the mounting code is a child process. Its reports go through a pipe
// to the parent (cli/mount/launch.h), whose exit status tells whether the mount succeeded. In the foreground
// there is no parent: failures go to standard error, and readiness to the service manager (sd_notify(3)).
//
// ready() or failed() is called once, from the thread that started the mount. background() and progress() may
// be called before. After background() a PipeReporter ignores all calls, because the parent has exited. Never
// throws, and never blocks on a parent that has died.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cli/support/outcome.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

class Reporter {
 public:
  virtual ~Reporter() = default;
  // A line for the user who waits ("connect: Connection refused; trying again").
  virtual void progress(std::string_view line) = 0;
  // The mount works. From now on the process runs on its own.
  virtual void ready() = 0;
  // The mount failed. The process is about to end.
  virtual void failed(const Failure& failure) = 0;
  // `bg`: the first attempt failed; the user need not wait for further attempts.
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

// One message on the pipe. kEnd: the writer ended without a final report.
struct Report {
  enum class Kind : uint8_t { kProgress = 'P', kReady = 'R', kFailed = 'F', kBackground = 'B', kEnd = 0 };
  Kind kind = Kind::kEnd;
  uint8_t code = 0;  // exit status, with kFailed
  std::string text;

  bool operator==(const Report&) const = default;
};

// Parses reports from a byte stream that arrives in arbitrary pieces. Invalid bytes yield kEnd.
class ReportReader {
 public:
  void append(std::string_view bytes) { buffer_ += bytes; }
  // Takes the next complete report. Returns false if more bytes are needed.
  bool next(Report& report);

 private:
  std::string buffer_;
};

std::string encode_report(const Report& report);

// sd_notify(3): sends "READY=1", "STOPPING=1"... to $NOTIFY_SOCKET. Returns false if the variable is missing
// or sending fails.
bool notify_service_manager(const char* state);

}  // namespace nfsrdma::cli
