// SPDX-License-Identifier: Apache-2.0
// Log targets: the sinks behind transport/runtime/log.h.
//
// There is one ProcessLog per process. It becomes spdlog's default logger when it is constructed, before any
// other thread exists. apply() replaces its target at any time. Targets: the journal (native datagram
// protocol), syslog(3), standard error, or a file (opened for appending, mode 0600, reopened on SIGHUP for
// logrotate). Formats: text, or JSON with one object per line. Messages quote names that come from a server
// or a user, so control characters are escaped in every format. Any thread may log. Sending to the journal
// never blocks (MSG_DONTWAIT). A sink never throws.
#pragma once

#include <memory>
#include <string>

#include "cli/options/mount_options.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct LogSettings {
  LogTarget target = LogTarget::kStderr;
  std::string file;  // LogTarget::kFile
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string mount_point;  // in every line, because one machine has many mounts
};

// Derives the settings from the options. The default target is syslog; in the foreground it is standard
// error.
LogSettings log_settings(const MountOptions& options, const std::string& mount_point, bool foreground);

// Checks that root's daemon can reopen the log after the file has been moved away. Fails with
// MountExit::kSystem.
Outcome<> check_rotation(const LogSettings& settings);

class ProcessLog {
 public:
  ProcessLog();  // logs to standard error until apply()
  ~ProcessLog();
  ProcessLog(const ProcessLog&) = delete;
  ProcessLog& operator=(const ProcessLog&) = delete;

  // Opens the target again, as a log rotation requires. Any thread. Fails with MountExit::kSystem if the
  // target cannot be opened; the log then stays unchanged.
  Outcome<> apply(const LogSettings& settings);

 private:
  class SwitchSink;
  std::shared_ptr<SwitchSink> sink_;
};

// These change the running log; any thread.
void set_log_level(LogLevel level);
LogLevel log_level();
// SIGUSR2 cycles through info, debug and trace.
LogLevel next_log_level(LogLevel level);

// One line in the given form, without a newline; for the sinks, and for tests.
std::string format_log_line(LogFormat format, bool with_time, std::string_view level,
                            std::string_view mount_point, std::string_view message);

}  // namespace nfsrdma::cli
