// SPDX-License-Identifier: Apache-2.0
// Signals and a silent server: which waiting request is answered early, with which errno, and that nothing is
// lost.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "fuse/loop_requests.h"
#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

class Interrupts : public FuseTest {};
NFSRDMA_FUSE_SUITE(Interrupts);

void handle(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

// Starts `what` in a child and returns when the Filesystem holds `operation`.
pid_t start_stuck(TestMount& m, const std::string& operation, const std::function<void()>& what) {
  m.fs().hold(operation);
  const pid_t child = m.start_client(what);
  EXPECT_TRUE(eventually([&] { return m.fs().held(operation) == 1; }));
  return child;
}

void let_it_end(TestMount& m, const std::string& operation) {
  m.fs().let_go(operation);
  EXPECT_TRUE(eventually([&] { return m.mount().in_flight() == 0; }));
}

// A child that has written to a file and waits for a signal.
pid_t start_writer(TestMount& m) {
  const pid_t child = m.start_client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    if (::write(fd, "x", 1) == 1) ::pause();
  });
  EXPECT_TRUE(eventually([&] { return m.count("WRITE") == 1; }));
  return child;
}

struct KillCase {
  const char* operation;
  void (*call)(const std::string& file, const std::string& other);
};

// Each of these processes is blocked in one operation when it is killed.
const KillCase kKillCases[] = {
    {"lookup", [](const std::string&, const std::string& other) { ::access(other.c_str(), F_OK); }},
    {"getattr",
     [](const std::string& file, const std::string&) {
       struct stat st {};
       ::stat(file.c_str(), &st);
     }},
    {"setattr", [](const std::string& file, const std::string&) { ::chmod(file.c_str(), 0600); }},
    {"open", [](const std::string& file, const std::string&) { ::open(file.c_str(), O_RDONLY); }},
    {"create",
     [](const std::string&, const std::string& other) { ::open(other.c_str(), O_CREAT | O_RDWR, 0600); }},
    {"read",
     [](const std::string& file, const std::string&) {
       char c = 0;
       if (::read(::open(file.c_str(), O_RDONLY | O_DIRECT), &c, 1) == 0) return;
     }},
    {"write",
     [](const std::string& file, const std::string&) {
       if (::write(::open(file.c_str(), O_WRONLY), "x", 1) == 0) return;
     }},
    {"fsync", [](const std::string& file, const std::string&) { ::fsync(::open(file.c_str(), O_RDONLY)); }},
    {"mkdir", [](const std::string&, const std::string& other) { ::mkdir(other.c_str(), 0700); }},
    {"unlink", [](const std::string& file, const std::string&) { ::unlink(file.c_str()); }},
    {"rename",
     [](const std::string& file, const std::string& other) { ::rename(file.c_str(), other.c_str()); }},
    {"symlink",
     [](const std::string&, const std::string& other) {
       if (::symlink("x", other.c_str()) == 0) return;
     }},
    {"opendir",
     [](const std::string& file, const std::string&) {
       ::open(file.substr(0, file.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY);
     }},
};

TEST_P(Interrupts, SigkillEndsTheWait_WhateverTheRequest) {
  for (const KillCase& c : kKillCases) {
    SCOPED_TRACE(c.operation);
    MountSetup s = mount_setup();
    s.lifetimes.attributes = {};
    TestMount m(s);
    m.client([&] { write_file(m.path("f"), "data"); });
    EXPECT_TRUE(eventually([&] { return m.mount().in_flight() == 0; }));
    const pid_t child = start_stuck(m, c.operation, [&] { c.call(m.path("f"), m.path("other")); });
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
    EXPECT_GE(m.statistics().early_answers, 1u);
    // The Filesystem answers now, but nobody waits. The destructor checks that the result was given back.
    let_it_end(m, c.operation);
  }
}

TEST_P(Interrupts, ProcessKilledBeforeItsFlush_CanExitWhileTheFilerIsSilent) {
  TestMount m(mount_setup());
  m.fs().not_responding(true);
  m.fs().hold("flush");
  const pid_t child = m.start_client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_EQ(::write(fd, "x", 1), 1);
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
  let_it_end(m, "flush");
  EXPECT_EQ(m.fs().contents("f"), "x");
}

// Signals without a handler. The fatal signal stays pending while the process exits.
TEST_P(Interrupts, ProcessEndedByAnySignal_CanExitWhileTheFilerIsSilent) {
  for (const int signal : {SIGALRM, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGKILL}) {
    SCOPED_TRACE(signal);
    TestMount m(mount_setup());
    m.fs().hold("flush");
    const pid_t child = start_writer(m);
    m.fs().not_responding(true);
    ::kill(child, signal);
    const int status = m.wait_client(child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    let_it_end(m, "flush");
  }
}

// While the server responds only SIGKILL and stop signals end the process's FLUSH early.
TEST_P(Interrupts, ProcessEndedByATimerOrUserSignal_ExitsBehindItsData) {
  for (const int signal : {SIGALRM, SIGUSR1}) {
    SCOPED_TRACE(signal);
    TestMount m(mount_setup());
    m.fs().hold("flush");
    const pid_t child = start_writer(m);
    ::kill(child, signal);
    EXPECT_TRUE(eventually([&] { return m.fs().held("flush") == 1; }));
    // It is considered again and again whether the process may exit without the answer.
    const size_t before = m.fs().asked_whether_responding();
    EXPECT_TRUE(eventually([&] { return m.fs().asked_whether_responding() >= before + 3; }));
    EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
    EXPECT_EQ(m.statistics().early_answers, 0u);
    m.fs().let_go("flush");
    EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
  }
}

TEST_P(Interrupts, FatalSigterm_CountsAsKilled) {
  TestMount m(mount_setup());
  const pid_t child = start_stuck(m, "mkdir", [&] { ::mkdir(m.path("d").c_str(), 0700); });
  ::kill(child, SIGTERM);
  const int status = m.wait_client(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  let_it_end(m, "mkdir");
}

TEST_P(Interrupts, HandledSigint_WaitsWhileTheFilerResponds) {
  TestMount m(mount_setup());
  const pid_t child = start_stuck(m, "mkdir", [&] {
    handle(SIGINT);
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
  });
  ::kill(child, SIGINT);
  EXPECT_TRUE(eventually([&] { return m.statistics().interrupts == 1; }));
  EXPECT_EQ(m.statistics().early_answers, 0u);
  m.fs().let_go("mkdir");
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Interrupts, HandledSigint_EndsTheWaitOnASilentFiler) {
  TestMount m(mount_setup());
  m.fs().not_responding(true);
  const pid_t child = start_stuck(m, "mkdir", [&] {
    handle(SIGINT);
    EXPECT_ERRNO(::mkdir(m.path("d").c_str(), 0700), EINTR);
  });
  ::kill(child, SIGINT);
  EXPECT_EQ(m.wait_client(child), 0);
  let_it_end(m, "mkdir");
}

TEST_P(Interrupts, SilenceThatBeginsAfterTheSignal_EndsTheWaitToo) {
  TestMount m(mount_setup());
  const pid_t child = start_stuck(m, "mkdir", [&] {
    handle(SIGINT);
    EXPECT_ERRNO(::mkdir(m.path("d").c_str(), 0700), EINTR);
  });
  ::kill(child, SIGINT);
  EXPECT_TRUE(eventually([&] { return m.statistics().interrupts == 1; }));
  EXPECT_EQ(m.statistics().early_answers, 0u);
  m.fs().not_responding(true);
  EXPECT_EQ(m.wait_client(child), 0);
  let_it_end(m, "mkdir");
}

TEST_P(Interrupts, TimerSignals_NeverCauseEintr) {
  TestMount m(mount_setup());
  m.fs().not_responding(true);
  const pid_t child = start_stuck(m, "mkdir", [&] {
    // git's progress meter does the same.
    handle(SIGALRM);
    const itimerval every{{0, 10'000}, {0, 10'000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
  });
  EXPECT_TRUE(eventually([&] { return m.statistics().interrupts == 1; }));
  m.let_pass(3 * LoopRequests::kInterruptedPeriod);  // it is considered again after each
  EXPECT_EQ(m.statistics().early_answers, 0u);
  m.fs().let_go("mkdir");
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Interrupts, KillAfterATimerSignal_IsNoticed) {
  TestMount m(mount_setup());
  const pid_t child = start_stuck(m, "mkdir", [&] {
    handle(SIGALRM);
    ::alarm(1);
    ::mkdir(m.path("d").c_str(), 0700);
  });
  EXPECT_TRUE(eventually([&] { return m.statistics().interrupts == 1; }));
  // The kernel sends no second INTERRUPT for this request.
  ::kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
  let_it_end(m, "mkdir");
}

// The killed caller's write is cancelled; later writes are not.
TEST_P(Interrupts, WriteWhoseCallerIsKilled_MayBeDropped) {
  for (const int flags : {0, O_APPEND, O_DIRECT}) {
    SCOPED_TRACE(flags);
    TestMount m(mount_setup());
    m.client([&] { write_file(m.path("f"), "old"); });
    const auto write = [&](char letter) {
      const std::string page(4096, letter);
      alignas(4096) char bytes[4096];
      std::memcpy(bytes, page.data(), page.size());
      const int fd = ::open(m.path("f").c_str(), O_WRONLY | flags);
      EXPECT_EQ(::write(fd, bytes, sizeof bytes), static_cast<ssize_t>(sizeof bytes));
    };
    const pid_t child = start_stuck(m, "write", [&] { write('k'); });
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
    let_it_end(m, "write");
    EXPECT_EQ(m.fs().contents("f"), "old");
    m.client([&] { EXPECT_EQ(read_file(m.path("f")), "old") << "in the kernel's pages"; });
    for (int i = 0; i < 3; ++i) m.client([&] { write('n'); });
    const std::string kept = flags == O_APPEND ? "old" + std::string(3 * 4096, 'n') : std::string(4096, 'n');
    EXPECT_TRUE(m.fs().contents("f") == kept);
  }
}

TEST_P(Interrupts, AnsweredEarly_LeavesNoFileOpen) {
  TestMount m(mount_setup());
  m.client([&] { write_file(m.path("f"), "x"); });
  const pid_t child = start_stuck(m, "open", [&] { ::open(m.path("f").c_str(), O_RDONLY); });
  ::kill(child, SIGKILL);
  m.wait_client(child);
  let_it_end(m, "open");
  EXPECT_EQ(m.fs().open_files(), 0u);
  EXPECT_EQ(m.statistics().undone, 1u);
}

TEST_P(Interrupts, AnsweredEarly_CountsNoLookup) {
  TestMount m(mount_setup());
  const pid_t child = start_stuck(m, "create", [&] { ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600); });
  ::kill(child, SIGKILL);
  m.wait_client(child);
  let_it_end(m, "create");
  EXPECT_EQ(m.fs().open_files(), 0u);
  EXPECT_EQ(m.statistics().kernel_inodes, 0u);
  EXPECT_EQ(m.fs().contents("f"), "");  // the file was created nevertheless
}

// The killed process's request is answered, then another process asks and the kernel caches the answer for
// long, then the change is made.
TEST_P(Interrupts, ChangeThatIsMadeAfterItsAnswer_IsNotHiddenByWhatTheKernelWasTold) {
  MountSetup setup = mount_setup();
  setup.lifetimes = {std::chrono::hours(1), std::chrono::hours(1), std::chrono::hours(1)};
  struct Late {
    const char* operation;
    std::function<void()> change;
    std::function<bool()> made;
  };
  TestMount m(setup);
  const std::string f = m.path("f"), g = m.path("g"), d = m.path("d"), l = m.path("l");
  // In a child, because a thread of this process must not wait in the mount.
  const auto child_says = [&](const std::function<bool()>& question) {
    const pid_t child = m.start_client([&] { ::_exit(question() ? 0 : 1); });
    return m.wait_client(child) == 0;
  };
  const auto status = [](const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 ? std::optional(st) : std::nullopt;
  };
  m.client([&] { write_file(f, "data"); });
  const Late cases[] = {
      {"setattr", [&] { return ::truncate(f.c_str(), 1); },
       [&] { return status(f) && status(f)->st_size == 1; }},
      {"link", [&] { return ::link(f.c_str(), l.c_str()); },
       [&] { return status(l) && status(f) && status(f)->st_nlink == 2; }},
      {"mkdir", [&] { return ::mkdir(d.c_str(), 0700); }, [&] { return status(d).has_value(); }},
      {"rename", [&] { return ::rename(f.c_str(), g.c_str()); }, [&] { return !status(f) && status(g); }},
      {"rmdir", [&] { return ::rmdir(d.c_str()); }, [&] { return !status(d); }},
      {"unlink", [&] { return ::unlink(g.c_str()); }, [&] { return !status(g); }},
  };
  for (const Late& late : cases) {
    SCOPED_TRACE(late.operation);
    const pid_t child = start_stuck(m, late.operation, late.change);
    ::kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
    EXPECT_FALSE(child_says(late.made));
    let_it_end(m, late.operation);
    EXPECT_TRUE(eventually([&] { return child_says(late.made); }));
  }
}

TEST_P(Interrupts, SoftMount_AnswersOldRequests) {
  MountSetup s = mount_setup();
  s.options.soft_limit = std::chrono::milliseconds(200);
  TestMount m(s);
  const pid_t child =
      start_stuck(m, "mkdir", [&] { EXPECT_ERRNO(::mkdir(m.path("d").c_str(), 0700), ETIMEDOUT); });
  m.fs().soft_timeout(true);
  EXPECT_EQ(m.wait_client(child), 0);
  m.fs().soft_timeout(false);
  let_it_end(m, "mkdir");
}

TEST_P(Interrupts, HardMount_NeverTimesOut) {
  TestMount m(mount_setup());
  m.fs().soft_timeout(true);
  const pid_t child = start_stuck(m, "mkdir", [&] {
    handle(SIGINT);
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
  });
  ::kill(child, SIGINT);  // so that the request is considered more often
  EXPECT_TRUE(eventually([&] { return m.fs().asked_whether_responding() >= 6; }));
  EXPECT_EQ(m.statistics().early_answers, 0u);
  m.fs().let_go("mkdir");
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Interrupts, StormOfSignals_KeepsEveryAccount) {
  MountSetup s = mount_setup();
  s.lifetimes = {};
  TestMount m(s);
  m.fs().not_responding(true);
  // Blocked until the handler is installed.
  sigset_t sigint;
  ::sigemptyset(&sigint);
  ::sigaddset(&sigint, SIGINT);
  ::sigprocmask(SIG_BLOCK, &sigint, nullptr);
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(m.start_client([&m, &sigint, p] {
      handle(SIGINT);
      ::sigprocmask(SIG_UNBLOCK, &sigint, nullptr);
      for (int i = 0; i < 300; ++i) {
        const std::string name = m.path("f" + std::to_string(p));
        const int fd = ::open(name.c_str(), O_CREAT | O_RDWR, 0600);
        if (fd >= 0) {
          if (::write(fd, "x", 1) < 0) {
            EXPECT_EQ(errno, EINTR);
          }
          ::close(fd);
        } else {
          EXPECT_EQ(errno, EINTR);
        }
        ::unlink(name.c_str());
      }
      // libfuse keeps an INTERRUPT that it read after the end of its request until another request comes.
      // Each request takes one, and at the end of the session libfuse does not free the rest.
      ::sigprocmask(SIG_BLOCK, &sigint, nullptr);
      for (int i = 0; i < 64; ++i) ::access(m.path("none" + std::to_string(i)).c_str(), F_OK);
    }));
  }
  ::sigprocmask(SIG_UNBLOCK, &sigint, nullptr);
  m.wait_clients(children, std::chrono::microseconds(200), [](const std::vector<pid_t>& running) {
    for (const pid_t child : running) ::kill(child, SIGINT);
  });
}

}  // namespace
}  // namespace nfsrdma::fuse::test
