#include "cli/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/runtime/fd.h"

// Linux 5.6; Debian 12's headers have it, older ones do not.
#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

namespace nfsrdma::cli {
namespace {

void be_killed_later() {
  const Fd fd(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  constexpr std::string_view kAdjustment = "-500";
  if (fd && write(fd.get(), kAdjustment.data(), kAdjustment.size()) < 0)
    return;  // not permitted: stay as we are
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

Outcome<> enter_mount_namespace(const std::string& name) {
  const bool is_pid =
      !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::string path = is_pid ? fmt::format("/proc/{}/ns/mnt", name) : name;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || setns(fd.get(), CLONE_NEWNS) != 0) {
    return refuse(MountExit::kSystem, fmt::format("namespace {}: {}", name, std::strerror(errno)));
  }
  return {};
}

}  // namespace nfsrdma::cli
