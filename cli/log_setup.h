// SPDX-License-Identifier: Apache-2.0
// Where log lines go: the sinks behind transport/runtime/log.h.
//
// ProcessLog is main's, one per process: it becomes spdlog's default logger when it is made, before any
// thread exists, and apply() exchanges what is behind it at any time. Targets: the journal (its native
// datagram protocol), syslog(3), standard error, a file (opened for appending, mode 0600, reopened on SIGHUP
// so that logrotate works). Forms: text, and JSON with one object per line. Messages quote names that came
// from a server or a user, so control characters are made visible in every form. Any thread may log; a sink
// never blocks on a peer (the journal's socket is non-blocking) and never throws.
#pragma once

#include <memory>
#include <string>

#include "cli/mount_options.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

struct LogSettings {
  LogTarget target = LogTarget::kStderr;
  std::string file;  // LogTarget::kFile
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string mount_point;  // in every line: one machine has many mounts
};

// What the options mean: no target asked for is syslog, in the foreground standard error.
LogSettings log_settings(const MountOptions& options, const std::string& mount_point, bool foreground);

// Whether root's daemon can open the log anew once its file has been moved away. Fails with
// MountExit::kSystem.
Outcome<> check_rotation(const LogSettings& settings);

class ProcessLog {
 public:
  ProcessLog();  // logs to standard error until apply()
  ~ProcessLog();
  ProcessLog(const ProcessLog&) = delete;
  ProcessLog& operator=(const ProcessLog&) = delete;

  // Any thread. Opens the target anew (which is what a log rotation needs). Fails with MountExit::kSystem
  // when it cannot be opened; the log then stays what it was.
  Outcome<> apply(const LogSettings& settings);

 private:
  class SwitchSink;
  std::shared_ptr<SwitchSink> sink_;
};

// Live changes; any thread.
void set_log_level(LogLevel level);
LogLevel log_level();
// SIGUSR2: info, debug, trace, and round.
LogLevel next_log_level(LogLevel level);

// One line in the given form, without a newline; for the sinks, and for tests.
std::string format_log_line(LogFormat format, bool with_time, std::string_view level,
                            std::string_view mount_point, std::string_view message);

}  // namespace nfsrdma::cli
