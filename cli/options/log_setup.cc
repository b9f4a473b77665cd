// SPDX-License-Identifier: Apache-2.0
#include "cli/options/log_setup.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kIdentifier = "nfsrdma-fuse";
constexpr const char* kJournalSocket = "/run/systemd/journal/socket";

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kTrace: return spdlog::level::trace;
  }
  return spdlog::level::info;
}

int syslog_priority(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical: return LOG_CRIT;
    case spdlog::level::err: return LOG_ERR;
    case spdlog::level::warn: return LOG_WARNING;
    case spdlog::level::info: return LOG_INFO;
    default: return LOG_DEBUG;
  }
}

std::string_view level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
    case spdlog::level::err: return "error";
    case spdlog::level::warn: return "warning";
    case spdlog::level::info: return "info";
    case spdlog::level::debug: return "debug";
    default: return "trace";
  }
}

std::string time_now() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - seconds).count();
  const std::time_t t = std::chrono::system_clock::to_time_t(seconds);
  std::tm local{};
  localtime_r(&t, &local);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}{:%z}", local, ms, local);
}

// Receives finished lines, one at a time.
class Target {
 public:
  explicit Target(bool with_time) : with_time_(with_time) {}
  virtual ~Target() = default;
  virtual void write_line(int priority, const std::string& line) = 0;
  // The journal and syslog add their own timestamps.
  bool with_time() const { return with_time_; }

 private:
  bool with_time_;
};

class DescriptorTarget final : public Target {
 public:
  explicit DescriptorTarget(Fd fd) : Target(true), fd_(std::move(fd)) {}
  void write_line(int, const std::string& line) override {
    const std::string text = line + '\n';
    // If the disk is full, log lines are lost; requests are not affected.
    while (write(fd_.get(), text.data(), text.size()) < 0 && errno == EINTR) {
    }
  }

 private:
  Fd fd_;
};

class SyslogTarget final : public Target {
 public:
  SyslogTarget() : Target(false) { openlog(kIdentifier, LOG_PID | LOG_NDELAY, LOG_DAEMON); }
  void write_line(int priority, const std::string& line) override { syslog(priority, "%s", line.c_str()); }
};

// https://systemd.io/JOURNAL_NATIVE_PROTOCOL: one datagram per entry, FIELD=value lines.
class JournalTarget final : public Target {
 public:
  JournalTarget(Fd fd, std::string mount_point)
      : Target(false), fd_(std::move(fd)), mount_point_(std::move(mount_point)) {}
  void write_line(int priority, const std::string& line) override {
    const std::string entry =
        fmt::format("MESSAGE={}\nPRIORITY={}\nSYSLOG_IDENTIFIER={}\nSYSLOG_PID={}\nNFSRDMA_MOUNT_POINT={}\n",
                    line, priority, kIdentifier, getpid(), printable(mount_point_));
    send(fd_.get(), entry.data(), entry.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  Fd fd_;
  std::string mount_point_;
};

Outcome<Fd> connect_journal() {
  Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, kJournalSocket);
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return refuse(MountExit::kSystem, fmt::format("log=journal: {}: {}; use log=syslog or log=FILE",
                                                  kJournalSocket, std::strerror(errno)));
  }
  return fd;
}

tl::unexpected<Failure> cannot_open(const std::string& file, int error) {
  const char* cause = std::strerror(error);
  // Root's daemon has dropped the capability to override file permissions (cli/mount/confinement.h).
  if (error == EACCES && geteuid() == 0)
    return refuse(MountExit::kSystem, fmt::format("log={}: {}; root's daemon writes only to what root owns: "
                                                  "make root the owner of the log and its directory",
                                                  file, cause));
  return refuse(MountExit::kSystem, fmt::format("log={}: {}", file, cause));
}

Outcome<Fd> open_file(const std::string& file) {
  Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600));
  if (!fd) return cannot_open(file, errno);
  return fd;
}

Outcome<std::unique_ptr<Target>> make_target(const LogSettings& s) {
  switch (s.target) {
    case LogTarget::kJournal: {
      auto fd = connect_journal();
      if (!fd) return tl::unexpected(std::move(fd).error());
      return std::make_unique<JournalTarget>(*std::move(fd), s.mount_point);
    }
    case LogTarget::kFile: {
      auto fd = open_file(s.file);
      if (!fd) return tl::unexpected(std::move(fd).error());
      return std::make_unique<DescriptorTarget>(*std::move(fd));
    }
    case LogTarget::kStderr:
      return std::make_unique<DescriptorTarget>(Fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)));
    case LogTarget::kDefault:
    case LogTarget::kSyslog: break;
  }
  return std::make_unique<SyslogTarget>();
}

}  // namespace

// The logger's only sink for the life of the process. The logger itself cannot be replaced while threads log.
class ProcessLog::SwitchSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // A null `target` keeps the current one.
  void exchange(const LogSettings& settings, std::unique_ptr<Target> target) {
    std::lock_guard lock(mutex_);
    settings_ = settings;
    if (target) target_ = std::move(target);
  }

  bool writes_to(LogTarget target) {
    std::lock_guard lock(mutex_);
    return target_ && settings_.target == target;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!target_) return;
    const std::string_view text(message.payload.data(), message.payload.size());
    target_->write_line(syslog_priority(message.level),
                        format_log_line(settings_.format, target_->with_time(), level_name(message.level),
                                        settings_.mount_point, text));
  }
  void flush_() override {}

  LogSettings settings_;
  std::unique_ptr<Target> target_;
};

ProcessLog::ProcessLog() : sink_(std::make_shared<SwitchSink>()) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(kIdentifier, sink_));
  // Standard error can always be opened.
  if (auto done = apply({}); !done) report(kIdentifier, done.error());
}

ProcessLog::~ProcessLog() = default;

Outcome<> ProcessLog::apply(const LogSettings& settings) {
  // In a background daemon the stderr descriptor is now /dev/null, so the target that was opened at the start
  // stays.
  const bool same = settings.target == LogTarget::kStderr && sink_->writes_to(LogTarget::kStderr);
  Outcome<std::unique_ptr<Target>> target;
  if (!same) target = make_target(settings);
  if (!target) return tl::unexpected(std::move(target).error());
  sink_->exchange(settings, *std::move(target));
  set_log_level(settings.level);
  return {};
}

std::string format_log_line(LogFormat format, bool with_time, std::string_view level,
                            std::string_view mount_point, std::string_view message) {
  if (format == LogFormat::kJson) {
    nlohmann::ordered_json line;
    if (with_time) line["time"] = time_now();
    line["level"] = level;
    if (!mount_point.empty()) line["mount_point"] = mount_point;
    line["message"] = message;
    return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  }
  std::string line;
  if (with_time) line = fmt::format("{} {:<7} ", time_now(), level);
  if (!mount_point.empty()) line += fmt::format("{}: ", mount_point);
  line += message;
  return printable(line);
}

LogSettings log_settings(const MountOptions& options, const std::string& mount_point, bool foreground) {
  LogTarget target = options.log_target;
  if (target == LogTarget::kDefault) target = foreground ? LogTarget::kStderr : LogTarget::kSyslog;
  return {target, options.log_file, options.log_level, options.log_format, mount_point};
}

Outcome<> check_rotation(const LogSettings& settings) {
  if (settings.target != LogTarget::kFile || geteuid() != 0) return {};
  const std::string directory = settings.file.substr(0, settings.file.rfind('/') + 1);
  const bool exists = access(settings.file.c_str(), F_OK) == 0;
  if (access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0 ||
      (exists && access(settings.file.c_str(), W_OK) != 0))
    return cannot_open(settings.file, errno);
  return {};
}

void set_log_level(LogLevel level) {
  spdlog::set_level(spdlog_level(level));
}

LogLevel log_level() {
  switch (spdlog::get_level()) {
    case spdlog::level::trace: return LogLevel::kTrace;
    case spdlog::level::debug: return LogLevel::kDebug;
    case spdlog::level::info: return LogLevel::kInfo;
    case spdlog::level::warn: return LogLevel::kWarning;
    default: return LogLevel::kError;
  }
}

LogLevel next_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo: return LogLevel::kDebug;
    case LogLevel::kDebug: return LogLevel::kTrace;
    default: return LogLevel::kInfo;
  }
}

}  // namespace nfsrdma::cli
