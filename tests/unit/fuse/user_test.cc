// SPDX-License-Identifier: Apache-2.0
// Mounts by an ordinary user through fusermount3, and mounts that outlive their daemon.
//
// As root the test gives a child process a mount namespace with a /dev/fuse that everybody may open, and
// makes the child an ordinary user. As an ordinary user the test runs without that.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuse/kernel_mount.h"
#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

constexpr uid_t kNobody = 65534;
constexpr int kSkip = 77;

// Becomes an ordinary user who may open /dev/fuse. Returns the reason if that is impossible, else an empty
// string.
std::string become_user() {
  if (::geteuid() != 0) return why_no_mount();
  if (::unshare(CLONE_NEWNS) != 0) return "no mount namespace of its own";
  std::string directory = "/tmp/nfsrdma-fuse-dev-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return "no temporary directory";
  const bool mounted = ::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=64k") == 0;
  const std::string node = directory + "/fuse";
  const bool made = mounted && ::mknod(node.c_str(), S_IFCHR | 0666, makedev(10, 229)) == 0 &&
                    ::chmod(node.c_str(), 0666) == 0 &&
                    ::mount(node.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr) == 0;
  if (mounted) ::umount2(directory.c_str(), MNT_DETACH);
  ::rmdir(directory.c_str());
  if (!made) return "no device node of its own";
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
      ::setresuid(kNobody, kNobody, kNobody) != 0) {
    return "cannot become another user";
  }
  return why_no_mount();
}

// Runs `what` as an ordinary user in a separate process.
void as_user(const std::function<void()>& what) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
    const int before = result.total_part_count();
    if (const std::string why = become_user(); !why.empty()) {
      std::fprintf(stderr, "skipped: %s\n", why.c_str());
      ::_exit(kSkip);
    }
    what();
    std::fflush(nullptr);
    ::_exit(result.total_part_count() != before ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkip)
    GTEST_SKIP() << "no mount as an ordinary user (see above)";
  EXPECT_EQ(status, 0);
}

TEST(UserMount, Fusermount_MountsAndUnmounts) {
  as_user([] {
    TestMount m;
    m.client([&] {
      EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
      write_file(m.path("d/f"), pattern(300000));
      EXPECT_TRUE(read_file(m.path("d/f")) == pattern(300000));
    });
    const std::string mounts = read_file("/proc/self/mounts");
    EXPECT_NE(mounts.find("memory:/export " + m.path() + " fuse.rpcrdma rw,nosuid,nodev,"), std::string::npos)
        << mounts;
    m.stop();
    EXPECT_FALSE(find_mount(*MountNamespace::ours(), m.path()));
  });
}

TEST(UserMount, Requests_CarryTheMountingUser) {
  as_user([] {
    TestMount m;
    m.client([&] { EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700)); });
    const auto c = m.fs().last_credential("mkdir");
    ASSERT_TRUE(c);
    EXPECT_EQ(c->uid(), ::getuid());
    EXPECT_EQ(c->gid(), ::getgid());
  });
}

TEST(UserMount, BusyMount_SaysSo) {
  as_user([] {
    TestMount m;
    const pid_t child = m.start_client([&] {
      EXPECT_POSIX(::chdir(m.path().c_str()));
      ::raise(SIGSTOP);
    });
    int status = 0;
    ::waitpid(child, &status, WUNTRACED);
    std::atomic<int> result{-1};
    m.mount().unmount(false, [&result](Result<> r) { result = r ? 0 : r.error().errnum; });
    EXPECT_TRUE(eventually([&result] { return result != -1; }));
    EXPECT_EQ(result, EBUSY);
    ::kill(child, SIGKILL);
    ::kill(child, SIGCONT);
    m.wait_client(child);
  });
}

TEST(UserMount, AllowOtherWithoutPermission_FailsWithTheReason) {
  as_user([] {
    const int conf = ::open("/etc/fuse.conf", O_RDONLY);
    if (conf >= 0) {
      ::close(conf);
      if (("\n" + read_file("/etc/fuse.conf")).find("\nuser_allow_other") != std::string::npos) return;
    }
    MountSetup s;
    s.options.allow_other = true;
    EXPECT_THROW(TestMount m(s), std::runtime_error);
  });
}

TEST(KilledDaemon, LeavesAMountThatUmountRemoves) {
  if (const std::string why = why_no_mount(); !why.empty()) GTEST_SKIP() << why;
  if (::geteuid() != 0) GTEST_SKIP() << "umount(8) is root's";
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  std::fflush(nullptr);
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::close(fds[0]);
    TestMount m;
    const std::string path = m.path();
    if (::write(fds[1], path.data(), path.size()) < 0) ::_exit(1);
    ::close(fds[1]);
    ::pause();
  }
  ::close(fds[1]);
  char path[256] = {};
  EXPECT_GT(::read(fds[0], path, sizeof path - 1), 0);
  ::close(fds[0]);
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  struct stat st {};
  EXPECT_ERRNO(::stat(path, &st), ENOTCONN);
  const auto again = resolve_mount_point(*MountNamespace::ours(), path);
  EXPECT_FALSE(again);
  EXPECT_POSIX(::umount2(path, 0));
  EXPECT_POSIX(::rmdir(path));
}

}  // namespace
}  // namespace nfsrdma::fuse::test
