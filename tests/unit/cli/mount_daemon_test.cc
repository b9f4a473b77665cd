// SPDX-License-Identifier: Apache-2.0
// A mount that cannot succeed, from the first attempt to the exit status. The daemon runs in a child of the
// test, because it exits its process when it gives up. Its port has no NFS server. Nothing is ever mounted.
#include "cli/mount/mount_daemon.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/transport/support/eventually.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class FailingMount : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "/dev/fuse may not be opened by this user";
  }
  // Reserves a port that no other process can bind. Connections are refused until listen().
  FailingMount() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    plan_.program = "prog";
    plan_.source = *parse_source("127.0.0.1:/e");
    plan_.mount_point = temp_.path();
    plan_.options.port = ntohs(address.sin_port);
    plan_.options.threads = 1;
    plan_.options.log_target = LogTarget::kFile;
    plan_.options.log_file = temp_.path("log");
    plan_.options.log_level = LogLevel::kDebug;
  }

  void start() {
    begin_ = Clock::now();
    child_ = fork();
    if (child_ != 0) return;
    const int errors = open(temp_.path("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(errors, STDERR_FILENO);
    ForegroundReporter reporter("prog", false);
    _exit(run_mount_daemon(plan_, reporter));
  }

  // Returns the daemon's exit status.
  int finish() {
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    took_ = Clock::now() - begin_;
    return WEXITSTATUS(status);
  }

  std::string text(const char* name) const {
    std::ifstream file(temp_.path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string advice() const {
    return fmt::format("run 'nfsrdma-fuse probe nfs://127.0.0.1:{}/'\n", *plan_.options.port);
  }
  size_t attempts() const {
    const std::string log = text("log");
    size_t count = 0;
    for (size_t at = 0; (at = log.find("trying again", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  TempDirectory temp_;
  Fd socket_;
  MountPlan plan_;
  pid_t child_ = -1;
  Clock::time_point begin_;
  Clock::duration took_{};
};

// nfs(5), retry: how long the mount command retries "before giving up".
TEST_F(FailingMount, RefusedConnection_IsTriedAgainUntilRetryIsOver) {
  plan_.options.retry = 3s;
  start();
  EXPECT_EQ(finish(), 32);
  EXPECT_GE(took_, 3s);
  EXPECT_GE(attempts(), 1u) << text("log");
  const std::string line = text("stderr");
  EXPECT_TRUE(line.starts_with("prog: 127.0.0.1:/e: connect: ")) << line;
  EXPECT_NE(line.find("Connection refused"), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with("; " + advice())) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
}

TEST_F(FailingMount, RetryZero_IsOneAttempt) {
  plan_.options.retry = 0ms;
  start();
  EXPECT_EQ(finish(), 32);
  EXPECT_EQ(attempts(), 0u) << text("log");
}

TEST_F(FailingMount, SilentServer_IsGivenUpWhenRetryIsOver) {
  ASSERT_EQ(listen(socket_.get(), 16), 0);
  plan_.options.retry = 2s;
  start();
  EXPECT_EQ(finish(), 32);
  EXPECT_GE(took_, 2s);
  EXPECT_EQ(text("stderr"), "prog: 127.0.0.1:/e: EXCHANGE_ID: no answer in time; " + advice());
}

TEST_F(FailingMount, Signal_EndsTheTrying) {
  plan_.options.retry = 24h;
  start();
  ASSERT_TRUE(test::eventually([this] { return attempts() != 0; }));
  kill(child_, SIGTERM);
  EXPECT_EQ(finish(), 8);
  EXPECT_EQ(text("stderr"), "prog: 127.0.0.1:/e: mount: interrupted; " + advice());
}

}  // namespace
}  // namespace nfsrdma::cli
