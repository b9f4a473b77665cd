// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/mount/confinement.h"
#include "cli/mount/unmount.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::cli {
namespace {

std::string key_of(const MountEntry& entry) {
  return fmt::format("{} {}", entry.id, entry.mount_point);
}

// Separates the guard from the daemon's terminal, files and signals.
void live_alone(std::vector<unsigned> kept) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  if (chdir("/") != 0) _exit(1);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  std::ranges::sort(kept);
  unsigned next = 3;
  for (const unsigned fd : kept) {
    if (fd > next) close_range(next, fd - 1, 0);
    next = std::max(next, fd + 1);
  }
  close_range(next, ~0U, 0);
}

// The last complete line that the daemon wrote before it ended and so closed the pipe.
std::string last_word(int pipe) {
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(n));
  if (!said.ends_with('\n')) return {};
  said.pop_back();
  return said.substr(said.rfind('\n') + 1);
}

[[noreturn]] void guard(int pipe, const NamespaceFile& mount_namespace) {
  std::vector<unsigned> kept;
  for (const int fd : {pipe, Proc::ours().descriptor(), mount_namespace ? mount_namespace->get() : -1}) {
    if (fd >= 0) kept.push_back(static_cast<unsigned>(fd));
  }
  live_alone(std::move(kept));
  CapabilityNeeds needs;
  needs.other_namespace = mount_namespace != nullptr;
  if (geteuid() == 0) (void)drop_capabilities(kept_capabilities(needs));
  const std::string wanted = last_word(pipe);
  const auto where = enter_mount_namespace(mount_namespace);
  if (!where) _exit(1);
  const auto table = read_mountinfo(**where);
  const auto entry =
      std::ranges::find_if(table, [&](const MountEntry& e) { return e.ours() && key_of(e) == wanted; });
  UnmountOptions options;
  options.lazy = true;
  options.where = *where;
  if (entry != table.end()) (void)unmount(*entry, options, system_control_places());
  _exit(0);
}

}  // namespace

Outcome<MountGuard> MountGuard::start(const NamespaceFile& mount_namespace) {
  int ends[2];
  const auto failed = [](const char* what) {
    return refuse(MountExit::kSystem, fmt::format("auto_unmount: {}: {}", what, std::strerror(errno)));
  };
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return failed("fork");
  if (child == 0) guard(read_end.get(), mount_namespace);
  return MountGuard(std::move(write_end));
}

void MountGuard::arm(const MountEntry& entry) {
  tell(key_of(entry) + "\n");
}

void MountGuard::disarm() {
  tell("-\n");
}

// If the guard was killed, the write fails without effect: SIGPIPE is ignored.
void MountGuard::tell(const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(pipe_.get(), line.data(), line.size());
}

}  // namespace nfsrdma::cli
