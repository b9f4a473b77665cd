// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using test::eventually;

// launch_in_background() returns in two processes. Here it runs in a child of the test. The child's own child
// (the "daemon") ends with _exit, so that only one process continues the test.
class LaunchTest : public testing::Test {
 protected:
  // Runs the parent's part in a child of the test and returns its exit status. Captures standard error.
  int launch(const std::function<int(Reporter&)>& daemon, std::chrono::milliseconds bound = 60s,
             bool verbose = false) {
    const pid_t parent = start(daemon, bound, verbose);
    return finish(parent);
  }

  pid_t start(const std::function<int(Reporter&)>& daemon, std::chrono::milliseconds bound, bool verbose) {
    const pid_t parent = fork();
    if (parent != 0) return parent;
    const int log = open(stderr_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(log, STDERR_FILENO);
    LaunchOptions options;
    options.program = "prog";
    options.source = "srv:/e";
    options.advice = "run this";
    options.verbose = verbose;
    options.bound = bound;
    _exit(launch_in_background(options, [&](Reporter& reporter) -> int { _exit(daemon(reporter)); }));
  }

  static int finish(pid_t parent) {
    int status = 0;
    EXPECT_EQ(waitpid(parent, &status, 0), parent);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status);
  }

  std::string errors() const {
    std::ifstream file(stderr_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Waits until the daemon has written the file `name`, and returns its content.
  std::string wait_for(const std::string& name) const {
    EXPECT_TRUE(eventually([&] { return access(temp_.path(name).c_str(), F_OK) == 0; })) << name;
    std::ifstream file(temp_.path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void leave(const std::string& name, const std::string& text) const {
    temp_.write(name + ".new", text);
    rename(temp_.path(name + ".new").c_str(), temp_.path(name).c_str());
  }

  TempDirectory temp_;
  std::string stderr_ = temp_.path("stderr");
};

TEST_F(LaunchTest, ReadyDaemon_IsSuccessAndSilent) {
  const int status = launch([](Reporter& reporter) {
    reporter.ready();
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(errors(), "");
}

// On a boot console or in a script's log: a long wait is reported, but not with a line for each attempt.
TEST_F(LaunchTest, WithoutATerminal_EachCauseIsSaidOnce) {
  const int status = launch([](Reporter& reporter) {
    reporter.progress("refused; trying again");
    reporter.progress("refused; trying again");
    reporter.progress("no answer; trying again");
    reporter.progress("refused; trying again");
    reporter.ready();
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(errors(), "prog: refused; trying again\nprog: no answer; trying again\n");
}

TEST_F(LaunchTest, Parent_ReturnsBeforeTheDaemonEnds) {
  const int status = launch([&](Reporter& reporter) {
    reporter.ready();
    wait_for("go");
    leave("done", "x");
    return 0;
  });
  EXPECT_EQ(status, 0);
  leave("go", "");
  wait_for("done");
}

TEST_F(LaunchTest, FailedDaemon_IsItsExitStatusAndOneLine) {
  const int status = launch([](Reporter& reporter) {
    reporter.failed(Failure(MountExit::kFailed, "srv:/e: EXCHANGE_ID: NFS4ERR_CLID_INUSE\nx\x1b[2J"));
    return 32;
  });
  EXPECT_EQ(status, 32);
  EXPECT_EQ(errors(), "prog: srv:/e: EXCHANGE_ID: NFS4ERR_CLID_INUSE\\x0ax\\x1b[2J\n");
}

TEST_F(LaunchTest, BackgroundedDaemon_IsSuccess) {
  const int status = launch([](Reporter& reporter) {
    reporter.background("srv: connect: Connection refused; trying on in the background");
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(errors(), "prog: srv: connect: Connection refused; trying on in the background\n");
}

TEST_F(LaunchTest, Verbose_ShowsProgress) {
  EXPECT_EQ(launch(
                [](Reporter& reporter) {
                  reporter.progress("one");
                  reporter.progress("two");
                  reporter.ready();
                  return 0;
                },
                60s, true),
            0);
  EXPECT_EQ(errors(), "prog: one\nprog: two\n");
}

TEST_F(LaunchTest, DaemonThatDies_IsAnInternalError) {
  EXPECT_EQ(launch([](Reporter&) { return 7; }), 4);
  EXPECT_EQ(errors(), "prog: srv:/e: mount: the daemon ended with status 7 and no word; run this\n");
  EXPECT_EQ(launch([](Reporter&) {
              kill(getpid(), SIGKILL);
              return 0;
            }),
            4);
  EXPECT_EQ(errors(), "prog: srv:/e: mount: the daemon was killed by signal 9; run this\n");
}

TEST_F(LaunchTest, DaemonThatItsFilterEnds_SaysSo) {
  EXPECT_EQ(launch([](Reporter&) {
              raise(SIGSYS);
              return 0;
            }),
            4);
  EXPECT_EQ(errors(),
            "prog: srv:/e: mount: the daemon made a system call that its filter does not allow: 'dmesg' "
            "shows its number "
            "at type=1326; run this\n");
}

TEST_F(LaunchTest, DaemonThatNeverAnswers_IsEndedAfterTheBound) {
  const int status = launch(
      [&](Reporter&) {
        leave("pid", std::to_string(getpid()));
        pause();
        return 0;
      },
      1000ms);
  EXPECT_EQ(status, 32);
  EXPECT_EQ(errors(), "prog: srv:/e: mount: the daemon did not answer within 1 s; run this\n");
  EXPECT_EQ(kill(std::stoi(wait_for("pid")), 0), -1) << "the daemon is still there";
}

TEST_F(LaunchTest, InterruptedUser_EndsTheDaemonToo) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t parent = start(
        [&](Reporter&) {
          leave("pid", std::to_string(getpid()));
          pause();
          return 0;
        },
        60s, false);
    const int daemon = std::stoi(wait_for("pid"));
    kill(parent, signal_number);
    EXPECT_EQ(finish(parent), 8);
    EXPECT_EQ(errors(), "prog: srv:/e: mount: interrupted; run this\n");
    EXPECT_EQ(kill(daemon, 0), -1) << "the daemon is still there";
    unlink(temp_.path("pid").c_str());
  }
}

TEST_F(LaunchTest, ReadyDaemon_HasLeftSessionDirectoryAndTerminal) {
  const int status = launch([&](Reporter& reporter) {
    const pid_t session_before = getsid(0);
    reporter.ready();
    char buffer[4096];
    std::string text = getsid(0) == getpid() && session_before != getpid() ? "own session" : "old session";
    text += std::string(" ") + getcwd(buffer, sizeof buffer);
    for (const int fd : {0, 1, 2}) {
      const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), buffer, sizeof buffer);
      text += " " + std::string(buffer, static_cast<size_t>(n));
    }
    leave("state", text);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wait_for("state"), "own session / /dev/null /dev/null /dev/null");
}

// autofs lets only the process group that it started access the directory while the mount is pending.
TEST_F(LaunchTest, Daemon_StaysInItsProcessGroupUntilItIsReady) {
  const int status = launch([&](Reporter& reporter) {
    const bool same_group = getpgrp() != getpid();
    if (same_group) {
      reporter.ready();
    } else {
      reporter.failed(Failure(MountExit::kFailed, "left too early"));
    }
    return 0;
  });
  EXPECT_EQ(status, 0) << errors();
}

TEST_F(LaunchTest, DeadParent_DoesNotKillTheDaemon) {
  const pid_t parent = start(
      [&](Reporter& reporter) {
        signal(SIGPIPE, SIG_IGN);
        leave("pid", "x");
        wait_for("go");
        reporter.progress("x");
        reporter.ready();
        leave("done", "alive");
        return 0;
      },
      60s, false);
  wait_for("pid");
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  leave("go", "");
  EXPECT_EQ(wait_for("done"), "alive");
}

TEST(ReportReader, Reports_SurviveAnyFragmentation) {
  const std::vector<Report> sent{{Report::Kind::kProgress, 0, "one"},
                                 {Report::Kind::kProgress, 0, ""},
                                 {Report::Kind::kFailed, 32, std::string(3000, 'x')}};
  std::string bytes;
  for (const Report& report : sent) bytes += encode_report(report);
  for (size_t piece = 1; piece <= bytes.size(); piece += 7) {
    ReportReader reader;
    std::vector<Report> received;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      Report report;
      while (reader.next(report)) received.push_back(report);
    }
    EXPECT_EQ(received, sent) << piece;
  }
}

TEST(ReportReader, LongText_IsCutToOnePipeWrite) {
  const std::string bytes = encode_report({Report::Kind::kFailed, 1, std::string(100'000, 'x')});
  EXPECT_EQ(bytes.size(), 4096u);
  ReportReader reader;
  reader.append(bytes);
  Report report;
  ASSERT_TRUE(reader.next(report));
  EXPECT_EQ(report.text.size(), 4092u);
}

TEST(ReportReader, Rubbish_EndsTheStream) {
  EXPECT_TRUE(rc::check("no crash, no hang", [](const std::string& bytes) {
    ReportReader reader;
    reader.append(bytes);
    Report report;
    size_t reports = 0;
    while (reader.next(report)) RC_ASSERT(++reports <= bytes.size());
  }));
  ReportReader reader;
  reader.append(std::string("\0\0\0\0", 4));
  Report report;
  ASSERT_TRUE(reader.next(report));
  EXPECT_EQ(report.kind, Report::Kind::kEnd);
}

TEST(NotifyServiceManager, Socket_GetsTheState) {
  const TempDirectory temp;
  for (const std::string& name : {temp.path("notify"), "@nfsrdma-test-" + std::to_string(getpid())}) {
    const Fd fd(socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    ForegroundReporter("p", false).ready();
    char buffer[64];
    const ssize_t n = recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    EXPECT_EQ(std::string(buffer, n < 0 ? 0 : static_cast<size_t>(n)), "READY=1");
  }
  setenv("NOTIFY_SOCKET", "/nonexistent/x", 1);
  EXPECT_FALSE(notify_service_manager("READY=1"));
  setenv("NOTIFY_SOCKET", "relative", 1);
  EXPECT_FALSE(notify_service_manager("READY=1"));
  unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(notify_service_manager("READY=1"));
}

}  // namespace
}  // namespace nfsrdma::cli
