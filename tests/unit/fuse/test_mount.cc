// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fuse/test_mount.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>

namespace nfsrdma::fuse::test {

std::string why_no_mount() {
  if (::access("/dev/fuse", F_OK) != 0) return "no /dev/fuse";
  if (::access("/dev/fuse", R_OK | W_OK) != 0) return "/dev/fuse may not be opened by this user";
  if (::geteuid() != 0 && ::system("command -v fusermount3 >/dev/null") != 0)
    return "no fusermount3 for an ordinary user";
  const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::string("/dev/fuse: ") + std::strerror(errno);
  ::close(fd);
  return {};
}

TestMount::TestMount(MountSetup setup) : loops_(setup.loops) {
  std::string name = "/tmp/nfsrdma-fuse-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  directory_ = name;
  filesystem_ = std::make_unique<MemoryFilesystem>(pool_, setup.lifetimes);
  filesystem_->asynchronous(setup.asynchronous);
  FuseOptions options = setup.options;
  options.source = "memory:/export";
  options.mount_point = directory_;
  options.machine_name = "test";
  auto mount = FuseMount::create(options, *filesystem_, loops_, pool_);
  if (!mount) throw std::runtime_error(describe(mount.error()));
  mount_ = std::move(*mount);
  mount_->on_unmounted([this] { ended_ = true; });
  loops_.start();
  if (auto started = mount_->start(filesystem_->root()); !started) {
    mount_.reset();
    ::rmdir(directory_.c_str());
    throw std::runtime_error(describe(started.error()));
  }
}

TestMount::~TestMount() {
  stop();
  ::rmdir(directory_.c_str());
}

void TestMount::stop() {
  if (!mount_) return;
  filesystem_->not_responding(false);
  filesystem_->let_everything_go();
  // A client that has just exited may still be closing its files. A blocked client must not keep the mount.
  int result = 0;
  const auto unmounted = [&] {
    result = mount_->ended() ? 0 : try_to_unmount(false);
    return result != EBUSY;
  };
  if (!eventually(unmounted, std::chrono::milliseconds(20))) result = try_to_unmount(true);
  if (result != 0) {
    ADD_FAILURE() << "unmount: " << std::strerror(result);
    mount_->detach();
  }
  EXPECT_TRUE(eventually([this] { return ended_.load(); })) << "the kernel did not end the connection";
  check_accounts();
  loops_.stop_and_join();
  mount_.reset();
  EXPECT_EQ(filesystem_->live_nodes(), 0u);
  EXPECT_EQ(pool_.outstanding_bytes(), 0u);
}

int TestMount::try_to_unmount(bool lazy) {
  std::atomic<int> result{-1};
  mount_->unmount(lazy, [&result](Result<> r) { result = r ? 0 : r.error().errnum; });
  EXPECT_TRUE(eventually([&result] { return result != -1; }));
  return result;
}

void TestMount::check_accounts() {
  EXPECT_TRUE(eventually([this] { return mount_->in_flight() == 0; }));
  EXPECT_TRUE(eventually([this] { return filesystem_->open_files() == 0; })) << filesystem_->open_files();
  EXPECT_TRUE(eventually([this] { return filesystem_->open_directories() == 0; }));
  const FuseStatistics s = mount_->statistics();
  EXPECT_EQ(s.unanswered, 0u);
  EXPECT_EQ(s.kernel_inodes, 0u);
}

// Stops the loops during fork(2): a child of a process with threads inherits their locks as they are, and
// ASan's allocator has locks that fork(2) does not handle.
pid_t TestMount::fork_quietly() {
  struct Stop {
    explicit Stop(unsigned loops) : standing(loops) {}
    std::latch standing, go_on{1};
  };
  const auto stop = std::make_shared<Stop>(loops_.size());
  for (unsigned i = 0; i < loops_.size(); ++i) {
    loops_[i].post([stop] {
      stop->standing.count_down();
      stop->go_on.wait();
    });
  }
  stop->standing.wait();
  const pid_t child = ::fork();
  if (child != 0) stop->go_on.count_down();
  return child;
}

pid_t TestMount::start_client(const std::function<void()>& what) {
  std::fflush(nullptr);
  const pid_t child = fork_quietly();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Most importantly the parent's /dev/fuse.
  ::close_range(3, ~0u, 0);
  // Failures of this test before the fork do not count for the child.
  const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
  const int before = result.total_part_count();
  what();
  std::fflush(nullptr);
  ::_exit(result.total_part_count() != before ? 1 : 0);
}

int TestMount::wait_client(pid_t child) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(child, &status, WNOHANG) != 0; })) {
    ADD_FAILURE() << "a client process hangs";
    filesystem_->let_everything_go();
    ::kill(child, SIGKILL);
    if (!eventually([&] { return ::waitpid(child, &status, WNOHANG) != 0; }))
      ADD_FAILURE() << "and cannot be killed";
  }
  return status;
}

void TestMount::wait_clients(std::vector<pid_t> children, std::chrono::microseconds pause,
                             const std::function<void(const std::vector<pid_t>&)>& meanwhile) {
  const auto has_ended = [](pid_t child) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) != child) return false;
    EXPECT_EQ(status, 0);
    return true;
  };
  const auto all_have_ended = [&] {
    std::erase_if(children, has_ended);
    meanwhile(children);
    return children.empty();
  };
  if (eventually(all_have_ended, pause)) return;
  for (const pid_t child : children) EXPECT_EQ(wait_client(child), 0);
}

void TestMount::client(const std::function<void()>& what) {
  const int status = wait_client(start_client(what));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "client: wait status " << status;
}

uint64_t TestMount::count(std::string_view operation) const {
  for (const FuseOperationStatistics& o : statistics().operations) {
    if (o.name == operation) return o.count;
  }
  return 0;
}

}  // namespace nfsrdma::fuse::test

// As root every test runs in a mount namespace of its own, so that even a killed test leaves no mount behind.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0)
    ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  spdlog::set_level(spdlog::level::warn);
  if (std::getenv("NFSRDMA_TEST_DEBUG") != nullptr) spdlog::set_level(spdlog::level::debug);
  return RUN_ALL_TESTS();
}
