// SPDX-License-Identifier: Apache-2.0
#include "cli/support/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/runtime/proc.h"

// Since Linux 5.6. Debian 12's headers define it, older ones do not.
#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace nfsrdma::cli {
namespace {

void be_killed_later() {
  const Fd fd = Proc::ours().open("self/oom_score_adj", O_WRONLY);
  constexpr std::string_view kAdjustment = "-500";
  if (fd && write(fd.get(), kAdjustment.data(), kAdjustment.size()) < 0)
    return;  // not permitted: keep the current value
}

}  // namespace

void prepare_daemon_process() {
  signal(SIGPIPE, SIG_IGN);
  umask(077);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (geteuid() != 0) return;
  prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
  be_killed_later();
}

Outcome<NamespaceFile> open_mount_namespace(const std::string& name) {
  if (name.empty()) return nullptr;
  const bool is_pid = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  Fd fd = is_pid ? Proc::ours().open(name + "/ns/mnt") : Fd(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return refuse(MountExit::kSystem, fmt::format("namespace {}: {}", name, std::strerror(errno)));
  return std::make_shared<const Fd>(std::move(fd));
}

Outcome<NamespaceRef> enter_mount_namespace(const NamespaceFile& file) {
  if (file == nullptr) return fuse::MountNamespace::ours();
  auto where = fuse::MountNamespace::enter(*file);
  if (!where) return refuse(MountExit::kSystem, fmt::format("namespace: {}", describe(where.error())));
  return *std::move(where);
}

}  // namespace nfsrdma::cli
