// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/reporter.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace nfsrdma::cli {
namespace {

// [kind u8][code u8][length u16, little endian][text]. At most PIPE_BUF bytes, so that the pipe takes all of
// it or nothing.
constexpr size_t kHeaderBytes = 4;
constexpr size_t kMaxText = PIPE_BUF - kHeaderBytes;

void write_report(const Fd& pipe, const Report& report) {
  if (!pipe) return;
  const std::string bytes = encode_report(report);
  // Every daemon ignores SIGPIPE (cli/support/process.h). If the parent has died, the report is not needed.
  while (write(pipe.get(), bytes.data(), bytes.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string encode_report(const Report& report) {
  const size_t length = std::min(report.text.size(), kMaxText);
  std::string bytes;
  bytes += static_cast<char>(report.kind);
  bytes += static_cast<char>(report.code);
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8);
  bytes += report.text.substr(0, length);
  return bytes;
}

bool ReportReader::next(Report& report) {
  if (buffer_.size() < kHeaderBytes) return false;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(buffer_[i]); };
  const size_t length = byte(2) + (size_t{byte(3)} << 8);
  const char kind = buffer_[0];
  if (std::strchr("PRFB", kind) == nullptr || kind == '\0' || length > kMaxText) {
    buffer_.clear();
    report = {};
    return true;
  }
  if (buffer_.size() < kHeaderBytes + length) return false;
  report.kind = static_cast<Report::Kind>(kind);
  report.code = byte(1);
  report.text = buffer_.substr(kHeaderBytes, length);
  buffer_.erase(0, kHeaderBytes + length);
  return true;
}

void PipeReporter::progress(std::string_view line) {
  write_report(pipe_, {Report::Kind::kProgress, 0, std::string(line)});
}

void PipeReporter::ready() {
  detach();
  write_report(pipe_, {Report::Kind::kReady, 0, {}});
  pipe_.reset();
}

void PipeReporter::failed(const Failure& failure) {
  write_report(pipe_, {Report::Kind::kFailed, static_cast<uint8_t>(failure.exit_code), failure.text});
  pipe_.reset();
}

void PipeReporter::background(std::string_view why) {
  detach();
  write_report(pipe_, {Report::Kind::kBackground, 0, std::string(why)});
  pipe_.reset();
}

// Detaches from the user's session, terminal and directory. Without `bg` this must not happen before the
// mount, because setsid() changes the process group: while a directory waits for its mount, autofs and
// systemd's automount admit only the process group that they have started (autofs "oz mode"). With `bg` the
// parent exits earlier, so background() detaches.
void PipeReporter::detach() {
  if (std::exchange(detached_, true)) return;
  setsid();
  if (chdir("/") != 0) return;  // "/" always exists
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
  dup2(null.get(), STDERR_FILENO);  // log=stderr uses its own descriptor
}

void ForegroundReporter::progress(std::string_view line) {
  if (verbose_) fmt::print(stderr, "{}: {}\n", program_, printable(line));
}

void ForegroundReporter::ready() {
  notify_service_manager("READY=1");
}

void ForegroundReporter::failed(const Failure& failure) {
  report(program_, failure);
}

void ForegroundReporter::background(std::string_view why) {
  progress(why);
}

bool notify_service_manager(const char* state) {
  // libsystemd also takes the address of a vsock socket, which the filter of root's daemon forbids
  // (system_call_filter.h).
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return false;
  return sd_notify(0, state) > 0;
}

}  // namespace nfsrdma::cli
