#include "cli/mount_guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/unmount.h"

namespace nfsrdma::cli {
namespace {

constexpr int kPipe = 3;

std::string key_of(const MountEntry& entry) {
  return fmt::format("{} {}", entry.id, entry.mount_point);
}

// The daemon's terminal, files and signals are not the guard's.
void live_alone(int pipe) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  if (chdir("/") != 0) _exit(1);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kPipe; ++fd) dup2(null, fd);
  if (pipe != kPipe) dup2(pipe, kPipe);
  close_range(kPipe + 1, ~0U, 0);
}

// What was said last before the daemon closed the pipe by ending.
std::string last_word() {
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = read(kPipe, buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(n));
  if (!said.ends_with('\n')) return {};
  said.pop_back();
  return said.substr(said.rfind('\n') + 1);
}

[[noreturn]] void guard(int pipe) {
  live_alone(pipe);
  const std::string wanted = last_word();
  const auto table = read_mountinfo();
  const auto entry =
      std::ranges::find_if(table, [&](const MountEntry& e) { return e.ours() && key_of(e) == wanted; });
  UnmountOptions options;
  options.lazy = true;
  if (entry != table.end()) (void)unmount(*entry, options, system_control_places());
  _exit(0);
}

}  // namespace

Outcome<MountGuard> MountGuard::start() {
  int ends[2];
  const auto failed = [](const char* what) {
    return refuse(MountExit::kSystem, fmt::format("auto_unmount: {}: {}", what, std::strerror(errno)));
  };
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return failed("fork");
  if (child == 0) guard(read_end.get());
  return MountGuard(std::move(write_end));
}

void MountGuard::arm(const MountEntry& entry) {
  tell(key_of(entry) + "\n");
}

void MountGuard::disarm() {
  tell("-\n");
}

// A guard that somebody has killed cannot be helped: SIGPIPE is ignored.
void MountGuard::tell(const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(pipe_.get(), line.data(), line.size());
}

}  // namespace nfsrdma::cli
