// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/system_call_filter.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

// Since Linux 5.17. glibc and others name their memory areas with it.
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

namespace nfsrdma::cli {
namespace {

// Allowed with any arguments. No architecture has all of these calls.
// clang-format off
constexpr const char* kAllowed[] = {
    // Data transfer: sockets, the device, pipes, the log.
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "splice", "tee",
    "sendfile", "lseek", "pipe", "pipe2",
    // Files: /proc, /sys, configuration, the log, host names, libraries that libc and rdma-core load.
    "open", "openat", "close", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs",
    "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents64", "getcwd", "fcntl", "flock",
    "fadvise64", "dup", "dup2", "dup3", "ftruncate", "umask",
    // The control socket's file, and its directory.
    "mkdir", "mkdirat", "unlink", "unlinkat", "chmod", "fchmod", "fchmodat",
    // Memory.
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "mlock", "munlock", "membarrier",
    "get_mempolicy", "memfd_create",
    // Threads. None of these calls starts a process: see kChecked.
    "futex", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu", "exit", "exit_group",
    "restart_syscall",
    // Signals. abort(3) uses tgkill.
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill",
    // Time.
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "timerfd_create", "timerfd_settime", "timerfd_gettime",
    // Waiting.
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd",
    "eventfd2", "poll", "ppoll", "select", "pselect6", "inotify_init1", "inotify_add_watch",
    "inotify_rm_watch",
    // Sockets: to the server, the resolver and the log; the control socket; rdma-core's netlink.
    "bind", "connect", "listen", "accept", "accept4", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
    // When the mount is ready, the daemon leaves the caller's terminal and directory.
    "setsid", "chdir",
    // Queries.
    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid",
    "getgroups", "uname", "sysinfo", "getrandom", "getrlimit", "getrusage", "times", "capget",
    // The end of the mount.
    "umount2",
};
// clang-format on

// Allowed only with certain values of one argument. The first matching rule allows the call.
struct Checked {
  const char* name;
  unsigned argument;
  uint64_t mask;
  uint64_t value;  // argument & mask
};

constexpr uint64_t kInt = 0xffffffff;  // an int argument: the kernel ignores the upper half
constexpr uint64_t kIoctlGroup = 0xff00;
constexpr uint64_t kMountFlags =
    MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOEXEC | MS_SYNCHRONOUS | MS_DIRSYNC;  // fuse/kernel_mount.cc

constexpr Checked kChecked[] = {
    // Threads only, no processes.
    {"clone", 0, CLONE_THREAD, CLONE_THREAD},
    // New mounts only: no bind mounts, no moved and no changed mounts.
    {"mount", 3, ~kMountFlags, 0},
    // Only prlimit64's getrlimit(2) function: the daemon does not change limits any more.
    {"prlimit64", 2, ~uint64_t{0}, 0},
    {"socket", 0, kInt, AF_UNIX},
    {"socket", 0, kInt, AF_INET},
    {"socket", 0, kInt, AF_INET6},
    {"socket", 0, kInt, AF_NETLINK},
    {"socketpair", 0, kInt, AF_UNIX},
    {"ioctl", 1, kInt, FIONBIO},
    {"ioctl", 1, kInt, FIONREAD},
    {"ioctl", 1, kInt, FIOCLEX},
    {"ioctl", 1, kInt, SIOCOUTQ},
    {"ioctl", 1, kInt, TCGETS},            // isatty(3)
    {"ioctl", 1, kIoctlGroup, 0x8900},     // SIOC...: interface names
    {"ioctl", 1, kIoctlGroup, 0x1b << 8},  // rdma/rdma_user_ioctl_cmds.h
    {"ioctl", 1, kIoctlGroup, 229 << 8},   // linux/fuse.h
    {"prctl", 0, kInt, PR_SET_NAME},
    {"prctl", 0, kInt, PR_GET_NAME},
    {"prctl", 0, kInt, PR_SET_VMA},
    {"prctl", 0, kInt, PR_CAPBSET_READ},  // libcap uses it to detect the kernel's capabilities
};

// The C library works without these calls.
constexpr const char* kAbsent[] = {
    "clone3", "futex_waitv", "cachestat", "fchmodat2", "mseal", "openat2", "set_mempolicy_home_node"};

struct ReleaseFilter {
  void operator()(std::remove_pointer_t<scmp_filter_ctx>* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, ReleaseFilter>;

// Data for the signal handler. The first thread that installs the filter creates it once.
struct Witness {
  int fd = -1;
  std::array<std::array<char, 40>, 512> names{};
};
Witness* witness = nullptr;

// Writes the name of the call, then ends the process as the kernel would have done.
void end_by_name(int signal, siginfo_t* info, void*) {
  const auto number = static_cast<size_t>(info->si_syscall);
  const char* name = number < witness->names.size() ? witness->names[number].data() : "a new one\n";
  (void)!::write(witness->fd, name, std::strlen(name));
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  (void)raise(signal);
}

Outcome<> watch_forbidden_calls(const std::string& file) {
  if (witness != nullptr) return {};
  auto made = std::make_unique<Witness>();
  made->fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (made->fd < 0) return refuse(MountExit::kSystem, fmt::format("{}: {}", file, std::strerror(errno)));
  for (size_t number = 0; number < made->names.size(); ++number) {
    const std::unique_ptr<char, decltype(&::free)> name(
        seccomp_syscall_resolve_num_arch(seccomp_arch_native(), static_cast<int>(number)), &::free);
    const auto line = fmt::format("{}\n", name ? name.get() : std::to_string(number));
    std::strncpy(made->names[number].data(), line.c_str(), made->names[number].size() - 1);
  }
  struct sigaction action {};
  action.sa_sigaction = end_by_name;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0)
    return refuse(MountExit::kSystem, fmt::format("SIGSYS: {}", std::strerror(errno)));
  witness = made.release();
  return {};
}

// libseccomp's functions return -errno. Calls that this architecture or this libseccomp does not know are
// skipped.
template <class Add>
int for_call(const char* name, const Add& add) {
  const int number = seccomp_syscall_resolve_name(name);
  return number < 0 ? 0 : add(number);
}

int allow(scmp_filter_ctx filter, const Checked& rule) {
  const scmp_arg_cmp compare{rule.argument, SCMP_CMP_MASKED_EQ, rule.mask, rule.value};
  return for_call(rule.name, [&](int number) {
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 1, &compare);
  });
}

int fill(scmp_filter_ctx filter) {
  int error = 0;
  const auto keep = [&error](int result) {
    if (error == 0) error = result;
  };
  // drop_capabilities() has already set no_new_privs, so libseccomp need not. SSB: leaves the speculation
  // mitigations off; they cost time and protect against foreign code, which this process does not run.
  // OPTIMIZE level 2: libseccomp makes a filter with a binary search.
  keep(seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0));
  keep(seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1));
  keep(seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2));
  for (const char* name : kAllowed)
    keep(for_call(name, [&](int number) { return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0); }));
  for (const char* name : kAbsent)
    keep(for_call(name,
                  [&](int number) { return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0); }));
  for (const Checked& rule : kChecked) keep(allow(filter, rule));
  return error;
}

}  // namespace

Outcome<> filter_system_calls(const FilterOptions& options) {
  const bool watched = !options.forbidden_calls_file.empty();
  if (watched) {
    if (auto done = watch_forbidden_calls(options.forbidden_calls_file); !done) return done;
  }
  const Filter filter(seccomp_init(watched ? SCMP_ACT_TRAP : SCMP_ACT_KILL_PROCESS));
  int error = filter ? fill(filter.get()) : -ENOMEM;
  if (error == 0) error = seccomp_load(filter.get());
  if (error != 0) return refuse(MountExit::kSystem, fmt::format("seccomp: {}", std::strerror(-error)));
  return {};
}

}  // namespace nfsrdma::cli
