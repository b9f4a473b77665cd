// SPDX-License-Identifier: Apache-2.0
// Mounts of the embedded filer by a daemon through /dev/fuse, from the options to `status` and unmount. The
// daemon runs in a child of the test, which is forked before other threads exist.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>

#include "cli/mount/mount_daemon.h"
#include "cli/options/options.h"
#include "cli/stats/take_snapshot.h"
#include "cli/support/mountinfo.h"
#include "tests/unit/cli/local_filer.h"
#include "tests/unit/cli/temp_directory.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::cli {
namespace {

class MountedFiler : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "/dev/fuse may not be opened by this user";
    ASSERT_EQ(pipe2(go_.data(), O_CLOEXEC), 0);
    address_ = local_address();
    directory_ = temp_.path("mnt");
    ASSERT_EQ(mkdir(directory_.c_str(), 0755), 0);
  }
  void TearDown() override {
    if (child_ <= 0) return;
    kill(child_, SIGTERM);
    EXPECT_EQ(finish(), 0) << log();
  }

  // Forks the daemon, which waits for go().
  void start(const std::string& list) {
    std::vector<OptionLayer> layers;
    const auto items = split_options(list);
    for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
    auto parsed = parse_options(layers, false);
    MountPlan plan;
    plan.program = "prog";
    plan.source = *parse_source(address_ + ":/export");
    ASSERT_TRUE(parsed && check_options(*parsed, plan.source)) << list;
    plan.options = parsed->values;
    plan.options.threads = 2;
    plan.options.log_target = LogTarget::kFile;
    plan.options.log_file = temp_.path("log");
    plan.mount_point = directory_;
    plan.root = geteuid() == 0;
    plan.foreground = true;
    child_ = fork();
    if (child_ != 0) return;
    char byte = 0;
    if (read(go_[0], &byte, 1) != 1) _exit(99);
    const int errors = open(temp_.path("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(errors, STDERR_FILENO);
    ForegroundReporter reporter("prog", false);
    _exit(run_mount_daemon(plan, reporter));
  }
  void go(bool rdma, rdma::ResponderOptions responder = {}) {
    server_ = start_local_filer(rdma, responder);
    if (server_) {
      server_->make_file("/export/file", std::string(300'000, 'x'));
      ASSERT_EQ(write(go_[1], "x", 1), 1);
      return;
    }
    kill(std::exchange(child_, -1), SIGKILL);
    GTEST_SKIP() << "a server of this machine listens at port 2049 or 20049 of every address";
  }
  std::optional<Snapshot> status() {
    std::optional<Snapshot> found;
    test::eventually([&] {
      const std::vector<MountEntry> table = read_mountinfo();
      const MountEntry* entry = mount_at(table, directory_);
      if (entry == nullptr || !entry->ours()) return false;
      if (auto snapshot = take_snapshot(*entry)) found = *std::move(snapshot);
      return found.has_value();
    });
    return found;
  }
  size_t read_file() const { return text(directory_ + "/file").size(); }
  int finish() {
    int status = 0;
    EXPECT_EQ(waitpid(std::exchange(child_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static std::string text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string log() const { return text(temp_.path("log")); }
  size_t said(const std::string& part) const {
    const std::string all = log();
    size_t count = 0;
    for (size_t at = 0; (at = all.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
  }

  TempDirectory temp_;
  std::array<int, 2> go_{};
  std::string address_, directory_;
  pid_t child_ = -1;
  std::unique_ptr<filer::Server> server_;
};

TEST_F(MountedFiler, WithRdma_SaysHowItGoes) {
  start("");
  go(true);
  if (child_ < 0) return;
  const auto s = status();
  ASSERT_TRUE(s) << log() << text(temp_.path("stderr"));
  EXPECT_EQ(read_file(), 300'000u);
  EXPECT_NE(s->mount_options.find("proto=rdma,"), std::string::npos) << s->mount_options;
  EXPECT_EQ(s->notice, "");
  ASSERT_EQ(s->client.transports.size(), 2u);
  for (const rpc::TransportStatus& t : s->client.transports) {
    ASSERT_TRUE(t.rdma);
    EXPECT_EQ(t.rdma->version, 2u);
    EXPECT_EQ(t.peer, address_ + ":20049");
  }
  EXPECT_NE(status_text(*s).find("  software RDMA"), std::string::npos) << status_text(*s);
  EXPECT_NE(status_text(*s).find(", version 2, "), std::string::npos) << status_text(*s);
  uint64_t placed = 0;
  const auto later = status();
  for (const rpc::TransportStatus& t : later->client.transports) placed += t.rdma->bytes_placed;
  EXPECT_GE(placed, 200'000u) << "read-ahead may split the file";
}

TEST_F(MountedFiler, WithoutRdma_SaysWhyOnceInTheLogAndInStatus) {
  start("");
  go(false);
  if (child_ < 0) return;
  const auto s = status();
  ASSERT_TRUE(s) << log() << text(temp_.path("stderr"));
  EXPECT_EQ(read_file(), 300'000u);
  EXPECT_NE(s->mount_options.find("proto=tcp,"), std::string::npos) << s->mount_options;
  EXPECT_NE(s->notice.find("software RDMA: connect: " + address_ + ":20049: Connection refused"),
            std::string::npos)
      << s->notice;
  EXPECT_EQ(said(address_ + ":20049: Connection refused; trying TCP"), 1u) << log();
}

TEST_F(MountedFiler, WithVersion1_SaysSoOnce) {
  start("proto=rdma");
  go(true, {.version2 = false});
  if (child_ < 0) return;
  const auto s = status();
  ASSERT_TRUE(s) << log() << text(temp_.path("stderr"));
  EXPECT_EQ(s->client.transports[0].rdma->version, 1u);
  EXPECT_NE(status_text(*s).find("version 1 (it has no RPC-over-RDMA version 2 (ERR_VERS))"),
            std::string::npos);
  EXPECT_EQ(said("it has no RPC-over-RDMA version 2 (ERR_VERS); using version 1"), 1u) << log();
}

TEST_F(MountedFiler, RdmaAskedForAndRefused_FailsWithWhatToDo) {
  start("proto=rdma,retry=0");
  go(false);
  if (child_ < 0) return;
  EXPECT_EQ(finish(), 32);
  const std::string line = text(temp_.path("stderr"));
  EXPECT_TRUE(
      line.starts_with("prog: " + address_ + ":/export: connect: " + address_ + ":20049: Connection refused"))
      << line;
  EXPECT_TRUE(line.ends_with("; run 'nfsrdma-fuse probe -o proto=rdma " + address_ + ":/export'\n")) << line;
}

}  // namespace
}  // namespace nfsrdma::cli
