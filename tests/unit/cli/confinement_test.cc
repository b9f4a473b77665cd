// SPDX-License-Identifier: Apache-2.0
// The confinement of root's daemon. Each test runs in a child, because nothing of it can be undone.
#include "cli/mount/confinement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "cli/mount/system_call_filter.h"
#include "tests/unit/cli/temp_directory.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::cli {
namespace {

constexpr int kNotFiltered = 99;

class Confinement : public testing::Test {
 protected:
  void SetUp() override {
#ifdef NFSRDMA_SANITIZED
    GTEST_SKIP() << "sanitizers need more system calls";
#endif
  }

  // Enters a private mount namespace: if a call is not forbidden after all (such as mount(2)), its effect
  // stays there.
  static void leave_the_machines_mounts() {
    if (geteuid() == 0 &&
        (unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0))
      _exit(kNotFiltered);
  }

  // Runs `work` in a child behind the filter. Returns waitpid(2)'s status; the exit status is the result of
  // `work`.
  int filtered(const std::function<int()>& work, const FilterOptions& options = {}) {
    const pid_t child = fork();
    if (child == 0) {
      leave_the_machines_mounts();
      const bool done = drop_capabilities(0).has_value() && filter_system_calls(options).has_value();
      _exit(done ? work() : kNotFiltered);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  // The signal that ended the child; 0: none.
  int signal_of(const std::function<int()>& work, const FilterOptions& options = {}) {
    const int status = filtered(work, options);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == kNotFiltered) << "the filter was refused";
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  TempDirectory temp_;
};

std::string own_field(const std::string& name) {
  const std::string text = Proc::ours().read("self/status");
  const size_t at = text.find("\n" + name + ":\t");
  if (at == std::string::npos) return {};
  const size_t begin = at + name.size() + 3;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(Confinement, ForbiddenCalls_EndTheProcess) {
  const struct {
    const char* what;
    std::function<int()> call;
  } kForbidden[] = {
      {"execve", [] { return execl("/bin/true", "true", nullptr); }},
      {"fork", [] { return static_cast<int>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0)); }},
      {"ptrace", [] { return static_cast<int>(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      {"open_by_handle_at",
       [] { return static_cast<int>(syscall(SYS_open_by_handle_at, AT_FDCWD, nullptr, O_RDONLY)); }},
      {"setns", [] { return setns(0, 0); }},
      {"bpf", [] { return static_cast<int>(syscall(SYS_bpf, 0, nullptr, 0)); }},
      {"bind mount", [] { return ::mount("/", "/", nullptr, MS_BIND, nullptr); }},
      {"remount", [] { return ::mount(nullptr, "/", nullptr, MS_REMOUNT, nullptr); }},
      {"packet socket", [] { return socket(AF_PACKET, SOCK_RAW, 0); }},
      {"typing at a terminal", [] { return ioctl(0, TIOCSTI, "x"); }},
      {"another filter", [] { return static_cast<int>(prctl(PR_SET_SECCOMP, 2, nullptr, 0, 0)); }},
      {"setuid", [] { return setuid(0); }},
      {"kill", [] { return kill(getppid(), 0); }},
  };
  for (const auto& one : kForbidden) EXPECT_EQ(signal_of(one.call), SIGSYS) << one.what;
}

TEST_F(Confinement, ForbiddenCall_IsNamedForTests) {
  const std::string file = temp_.path("forbidden");
  const auto other_thread = [] {
    std::thread([] { (void)ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }).join();
    return 0;
  };
  EXPECT_EQ(signal_of(other_thread, {file}), SIGSYS);
  const Fd fd(open(file.c_str(), O_RDONLY));
  char text[64] = {};
  EXPECT_EQ(read(fd.get(), text, sizeof text - 1), 7);
  EXPECT_STREQ(text, "ptrace\n");
}

TEST_F(Confinement, Threads_AreStarted) {
  const auto start = [] {
    int seen = 0;
    std::thread([&seen] { seen = 7; }).join();
    return seen;
  };
  const int status = filtered(start);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(Confinement, Abort_EndsByItsOwnSignal) {
  EXPECT_EQ(signal_of([] {
              std::abort();
              return 0;
            }),
            SIGABRT);
}

TEST_F(Confinement, Capabilities_AreThoseOfTheTable) {
  const uint64_t kept = kept_capabilities({});
  EXPECT_EQ(kept, uint64_t{1} << CAP_SYS_ADMIN | uint64_t{1} << CAP_NET_BIND_SERVICE |
                      uint64_t{1} << CAP_DAC_READ_SEARCH);
  const auto with = [](bool CapabilityNeeds::*need) {
    CapabilityNeeds needs;
    needs.*need = true;
    return kept_capabilities(needs);
  };
  EXPECT_EQ(with(&CapabilityNeeds::hidden_processes), kept | uint64_t{1} << CAP_SYS_PTRACE);
  EXPECT_EQ(with(&CapabilityNeeds::limited_memory), kept | uint64_t{1} << CAP_IPC_LOCK);
  EXPECT_EQ(with(&CapabilityNeeds::other_namespace), kept | uint64_t{1} << CAP_SYS_CHROOT);
}

// For root. Other users have no capabilities to drop, and the test passes as well.
TEST_F(Confinement, DroppedCapabilities_AreGone) {
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t before = std::stoull(own_field("CapPrm"), nullptr, 16);
    const uint64_t kept = kept_capabilities({}) & before;
    if (!drop_capabilities(kept)) _exit(1);
    for (const char* name : {"CapPrm", "CapEff"}) {
      if (std::stoull(own_field(name), nullptr, 16) != kept) _exit(2);
    }
    for (const char* name : {"CapInh", "CapAmb"}) {
      if (std::stoull(own_field(name), nullptr, 16) != 0) _exit(3);
    }
    const bool settable = (before >> CAP_SETPCAP & 1) != 0;
    if (settable && std::stoull(own_field("CapBnd"), nullptr, 16) != kept) _exit(4);
    _exit(own_field("NoNewPrivs") == "1" ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace nfsrdma::cli
