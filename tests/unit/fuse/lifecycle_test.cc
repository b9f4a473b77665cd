// SPDX-License-Identifier: Apache-2.0
// The life of a mount: how it ends, what is released, and what the kernel drops on request meanwhile.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <tuple>

#include "fuse/kernel_mount.h"
#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

class Lifecycle : public FuseTest {
 protected:
  // Requests an unmount and returns its errno.
  static int unmount(TestMount& m, bool lazy) {
    std::atomic<int> result{-1};
    m.mount().unmount(lazy, [&result](Result<> r) { result = r ? 0 : r.error().errnum; });
    EXPECT_TRUE(eventually([&result] { return result != -1; }));
    return result;
  }
};
NFSRDMA_FUSE_SUITE(Lifecycle);

TEST_P(Lifecycle, MountTable_ShowsSourceAndType) {
  MountSetup s = mount_setup();
  s.options.read_only = true;
  s.options.exec = false;
  TestMount m(s);
  const std::string mounts = read_file("/proc/self/mounts");
  const std::string line = "memory:/export " + m.path() + " fuse.rpcrdma ro,nosuid,nodev,noexec,";
  EXPECT_NE(mounts.find(line), std::string::npos) << mounts;
  m.client([&] { EXPECT_ERRNO(::mkdir(m.path("d").c_str(), 0700), EROFS); });
}

TEST_P(Lifecycle, OpenFile_MakesUnmountBusy) {
  TestMount m(mount_setup());
  const pid_t child = m.start_client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    ::raise(SIGSTOP);
    EXPECT_EQ(::write(fd, "late", 4), 4);
  });
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(unmount(m, false), EBUSY);
  EXPECT_FALSE(m.mount().ended());
  EXPECT_EQ(unmount(m, true), 0);
  EXPECT_FALSE(m.mount().ended());
  ::kill(child, SIGCONT);
  EXPECT_EQ(m.wait_client(child), 0);
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  EXPECT_EQ(m.fs().contents("f"), "late");
}

TEST_P(Lifecycle, ForcedUnmount_EndsWaitsAndReleasesFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may force";
  TestMount m(mount_setup());
  m.fs().hold("fsync");
  const pid_t child = m.start_client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_ERRNO(::fsync(fd), ECONNABORTED);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("fsync") == 1; }));
  ::umount2(m.path().c_str(), MNT_FORCE);
  EXPECT_EQ(m.wait_client(child), 0);
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  // No RELEASE came, but the file was released. Its fsync still waits.
  EXPECT_TRUE(eventually([&] { return m.fs().open_files() == 0; }));
  EXPECT_EQ(m.mount().in_flight(), 1u);
  m.fs().let_go("fsync");
  EXPECT_TRUE(eventually([&] { return m.mount().in_flight() == 0; }));
  ::umount2(m.path().c_str(), MNT_DETACH);
}

// The kernel gives the ID of a mount that is gone to the next mount. A daemon that ends late must not take
// its successor for its own mount.
TEST_P(Lifecycle, LateEnd_LeavesTheNextMountAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root mounts without fusermount3";
  TestMount m(mount_setup());
  const auto ours = find_mount(*MountNamespace::ours(), m.path());
  ASSERT_TRUE(ours);
  EXPECT_POSIX(::umount2(m.path().c_str(), 0));
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  // Other programs mount, too, and may have taken the ID.
  constexpr int kMostTries = 100;
  for (int tries = 1;; ++tries) {
    ASSERT_EQ(::mount("next", m.path().c_str(), "tmpfs", 0, nullptr), 0);
    const auto next = find_mount(*MountNamespace::ours(), m.path());
    ASSERT_TRUE(next);
    if (next->id == ours->id || tries == kMostTries) break;  // the last one stays, whatever its ID
    ASSERT_EQ(::umount2(m.path().c_str(), 0), 0);
  }
  EXPECT_EQ(unmount(m, false), 0);  // as a late signal would request
  m.stop();
  EXPECT_TRUE(find_mount(*MountNamespace::ours(), m.path())) << "it was taken away";
  ::umount2(m.path().c_str(), MNT_DETACH);
}

TEST_P(Lifecycle, Detach_AnswersWhoWaits) {
  TestMount m(mount_setup());
  m.fs().hold("mkdir");
  const pid_t child = m.start_client([&] { EXPECT_ERRNO(::mkdir(m.path("d").c_str(), 0700), EIO); });
  EXPECT_TRUE(eventually([&] { return m.fs().held("mkdir") == 1; }));
  m.mount().detach();
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Lifecycle, NeverStarted_LeavesNothing) {
  BufferPool pool;
  LoopPool loops(GetParam().first);
  MemoryFilesystem fs(pool);
  FuseOptions options;
  options.mount_point = "/tmp";
  auto mount = FuseMount::create(options, fs, loops, pool);
  ASSERT_TRUE(mount);
  EXPECT_FALSE((*mount)->ended());
}

TEST_P(Lifecycle, BadMountPoints_AreRefusedWithTheirReason) {
  BufferPool pool;
  LoopPool loops(1);
  MemoryFilesystem fs(pool);
  FuseOptions options;
  options.mount_point = "/nonexistent/dir";
  auto mount = FuseMount::create(options, fs, loops, pool);
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().errnum, ENOENT);
  options.mount_point = "/etc/passwd";
  mount = FuseMount::create(options, fs, loops, pool);
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().errnum, ENOTDIR);
}

TEST_P(Lifecycle, ReadAhead_IsRaisedAsAsked) {
  if (::geteuid() != 0 || ::access("/sys/class/bdi", F_OK) != 0)
    GTEST_SKIP() << "needs root and /sys/class/bdi";
  MountSetup s = mount_setup();
  s.options.read_ahead_kb = 4096;
  TestMount m(s);
  const auto kernel = find_mount(*MountNamespace::ours(), m.path());
  ASSERT_TRUE(kernel);
  EXPECT_EQ(read_file("/sys/class/bdi/" + kernel->device + "/read_ahead_kb"), "4096\n");
}

TEST_P(Lifecycle, LongerReadAhead_MakesReadsOfOneMebibyte) {
  if (::geteuid() != 0 || ::access("/sys/class/bdi", F_OK) != 0)
    GTEST_SKIP() << "needs root and /sys/class/bdi";
  MountSetup s = mount_setup();
  s.options.read_ahead_kb = 4096;
  TestMount m(s);
  m.client([&] { write_file(m.path("f"), pattern(16u << 20)); });
  m.client([&] { EXPECT_TRUE(read_file(m.path("f")) == pattern(16u << 20)); });
  EXPECT_LE(m.count("READ"), 24u);
}

// --- invalidation

TEST_P(Lifecycle, InvalidatedData_IsReadAgainThroughTheOpenFile) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  const pid_t child = m.start_client([&] {
    write_file(m.path("f"), "old");
    const int fd = ::open(m.path("f").c_str(), O_RDONLY);
    char buffer[16];
    EXPECT_EQ(::pread(fd, buffer, sizeof buffer, 0), 3);
    ::raise(SIGSTOP);
    EXPECT_EQ(::pread(fd, buffer, sizeof buffer, 0), 5);
    EXPECT_EQ(std::string(buffer, 5), "newer");
  });
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  m.fs().external_write("f", "newer");
  m.mount().front_end()->invalidate_data(m.fs().node("f"));
  EXPECT_TRUE(eventually([&] { return m.statistics().invalidations == 1; }));
  // That the first was sent does not mean that it is done. The second one comes after the first is done.
  m.mount().front_end()->invalidate_data(m.fs().node("f"));
  EXPECT_TRUE(eventually([&] { return m.statistics().invalidations == 2; }));
  ::kill(child, SIGCONT);
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Lifecycle, InvalidatedAttributes_AreAskedForAgain) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  const auto size = [&](off_t expected) {
    m.client([&m, expected] {
      struct stat st {};
      EXPECT_POSIX(::stat(m.path("f").c_str(), &st));
      EXPECT_EQ(st.st_size, expected);
    });
  };
  m.client([&] { write_file(m.path("f"), "old"); });
  size(3);
  m.fs().external_write("f", "newer");
  size(3);
  for (uint64_t i = 1; i <= 2; ++i) {
    m.mount().front_end()->invalidate_attributes(m.fs().node("f"));
    EXPECT_TRUE(eventually([&] { return m.statistics().invalidations == i; }));
  }
  size(5);
}

TEST_P(Lifecycle, InvalidatedEntry_IsLookedUpAgain) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  m.client([&] { write_file(m.path("f"), "x"); });
  m.fs().external_remove("f");
  m.client([&] { EXPECT_POSIX(::access(m.path("f").c_str(), F_OK)); });
  m.mount().front_end()->invalidate_entry(m.fs().root().node, "f");
  m.client([&] {
    EXPECT_TRUE(eventually([&] { return ::access(m.path("f").c_str(), F_OK) != 0; }));
    EXPECT_EQ(errno, ENOENT);
  });
  EXPECT_TRUE(eventually([&] { return m.statistics().kernel_inodes == 0; }));
}

// A directory in use stays reachable after its name was invalidated.
TEST_P(Lifecycle, InvalidatedEntry_KeepsTheWorkingDirectory) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  const pid_t child = m.start_client([&] {
    sigset_t go;
    ::sigemptyset(&go);
    ::sigaddset(&go, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &go, nullptr);
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0755));
    EXPECT_POSIX(::chdir(m.path("d").c_str()));
    EXPECT_POSIX(::mkdir("ready", 0755));
    int signal = 0;
    ::sigwait(&go, &signal);
    char name[PATH_MAX];
    EXPECT_NE(::getcwd(name, sizeof name), nullptr) << strerrordesc_np(errno);
  });
  EXPECT_TRUE(eventually([&] { return m.statistics().kernel_inodes == 2; }));
  m.mount().front_end()->invalidate_entry(m.fs().root().node, "d");
  EXPECT_TRUE(eventually([&] { return m.statistics().invalidations == 1; }));
  ::kill(child, SIGUSR1);
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Lifecycle, DropData_ReturnsWhenTheKernelHasDoneIt) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  m.fs().drop_data_on_lock(m.mount().front_end());
  const pid_t child = m.start_client([&] {
    write_file(m.path("f"), "old");
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    char buffer[16];
    EXPECT_EQ(::pread(fd, buffer, sizeof buffer, 0), 3);
    ::raise(SIGSTOP);
    struct flock w {};
    w.l_type = F_WRLCK;
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
    EXPECT_EQ(::pread(fd, buffer, 3, 0), 3);
    EXPECT_EQ(std::string(buffer, 3), "new");
  });
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  m.fs().external_write("f", "new");
  ::kill(child, SIGCONT);
  EXPECT_EQ(m.wait_client(child), 0);
}

TEST_P(Lifecycle, DetachWhileAnInvalidationIsStuck_DoesNotDeadlock) {
  TestMount m(mount_setup());
  m.client([&] { write_file(m.path("f"), pattern(100000)); });
  m.fs().hold("read");
  const pid_t reader = m.start_client([&] {
    char c = 0;
    const int fd = ::open(m.path("f").c_str(), O_RDONLY);
    EXPECT_EQ(::read(fd, &c, 1), -1);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("read") >= 1; }));
  m.mount().front_end()->invalidate_data(m.fs().node("f"));
  EXPECT_TRUE(eventually([&] { return m.statistics().invalidations == 1; }));
  m.mount().detach();
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  m.fs().let_go("read");
  m.stop();
  m.wait_client(reader);
}

// --- everything at once

void list_with_attributes(const std::string& path) {
  DIR* d = ::opendir(path.c_str());
  if (d == nullptr) return;
  while (const dirent* e = ::readdir(d)) {
    struct stat st {};
    ::fstatat(::dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW);
  }
  ::closedir(d);
}

TEST_P(Lifecycle, ChurnWithInvalidations_CountsLookupsExactly) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  constexpr int kProcesses = 3;
  constexpr int kNames = 40;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(m.start_client([&m, p] {
      uint64_t x = static_cast<uint64_t>(p) + 1;
      for (int i = 0; i < 1500; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const std::string a = m.path("n" + std::to_string((x >> 33) % kNames));
        const std::string b = m.path("n" + std::to_string((x >> 43) % kNames));
        struct stat st {};
        switch ((x >> 53) % 8) {
          case 0: ::close(::open(a.c_str(), O_CREAT | O_RDWR, 0600)); break;
          case 1: ::unlink(a.c_str()); break;
          case 2: ::rename(a.c_str(), b.c_str()); break;
          case 3: std::ignore = ::link(a.c_str(), b.c_str()); break;
          case 4: ::stat(a.c_str(), &st); break;
          case 5: ::mkdir(a.c_str(), 0700); break;
          case 6: ::rmdir(a.c_str()); break;
          default: list_with_attributes(m.path()); break;
        }
      }
    }));
  }
  int round = 0;
  m.wait_clients(children, std::chrono::microseconds(500), [&](const auto&) {
    m.mount().front_end()->invalidate_entry(m.fs().root().node, "n" + std::to_string(round++ % kNames));
  });
  // After this the kernel must hold none of the names.
  m.client([&] {
    for (int i = 0; i < kNames; ++i) (void)::remove(m.path("n" + std::to_string(i)).c_str());
  });
  EXPECT_TRUE(eventually([&] { return m.statistics().kernel_inodes == 0; })) << m.statistics().kernel_inodes;
  EXPECT_LE(m.fs().live_nodes(), 1u);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
