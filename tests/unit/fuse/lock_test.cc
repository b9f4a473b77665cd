// SPDX-License-Identifier: Apache-2.0
// POSIX locks, open-file-description locks and flock through the kernel, and which signals interrupt a wait
// for one.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

class Locks : public FuseTest {};
NFSRDMA_FUSE_SUITE(Locks);

struct flock range(short type, off_t start, off_t length) {
  struct flock f {};
  f.l_type = type;
  f.l_whence = SEEK_SET;
  f.l_start = start;
  f.l_len = length;
  return f;
}

int open_file(const std::string& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

// A process that takes a lock and holds it until `release` is called.
class Holder {
 public:
  Holder(TestMount& m, std::function<void()> take) : mount_(m) {
    child_ = m.start_client([take = std::move(take)] {
      take();
      ::raise(SIGSTOP);
    });
  }
  ~Holder() { release(); }
  void wait_until_taken() {
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, WUNTRACED), child_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  void release() {
    if (child_ == 0) return;
    ::kill(child_, SIGCONT);
    EXPECT_EQ(mount_.wait_client(child_), 0);
    child_ = 0;
  }

 private:
  TestMount& mount_;
  pid_t child_ = 0;
};

TEST_P(Locks, PosixLock_ExcludesOtherProcesses) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 100, 50);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
  });
  holder.wait_until_taken();
  m.client([&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 149, 1);
    EXPECT_ERRNO(::fcntl(fd, F_SETLK, &w), EAGAIN);
    struct flock free = range(F_WRLCK, 150, 10);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &free));
    struct flock query = range(F_RDLCK, 0, 0);
    EXPECT_POSIX(::fcntl(fd, F_GETLK, &query));
    EXPECT_EQ(query.l_type, F_WRLCK);
    EXPECT_EQ(query.l_start, 100);
    EXPECT_EQ(query.l_len, 50);
    struct flock none = range(F_RDLCK, 0, 100);
    EXPECT_POSIX(::fcntl(fd, F_GETLK, &none));
    EXPECT_EQ(none.l_type, F_UNLCK);
  });
  holder.release();
  EXPECT_EQ(m.fs().locks("f"), 0u);
}

TEST_P(Locks, WholeFileLock_ReachesToTheEnd) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_RDLCK, 10, 0);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
  });
  holder.wait_until_taken();
  m.client([&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, off_t{1} << 40, 1);
    EXPECT_ERRNO(::fcntl(fd, F_SETLK, &w), EAGAIN);
    struct flock query = range(F_WRLCK, 0, 0);
    EXPECT_POSIX(::fcntl(fd, F_GETLK, &query));
    EXPECT_EQ(query.l_start, 10);
    EXPECT_EQ(query.l_len, 0);
  });
}

TEST_P(Locks, WaitForPosixLock_EndsWhenItIsFree) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 0, 0);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
  });
  holder.wait_until_taken();
  const pid_t waiter = m.start_client([&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 5, 5);
    EXPECT_POSIX(::fcntl(fd, F_SETLKW, &w));
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("setlk wait") == 1; }));
  holder.release();
  EXPECT_EQ(m.wait_client(waiter), 0);
}

TEST_P(Locks, WaitForPosixLock_IsInterruptedByAnyHandledSignal) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 0, 0);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
  });
  holder.wait_until_taken();
  const pid_t waiter = m.start_client([&] {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, nullptr);
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 5, 5);
    EXPECT_ERRNO(::fcntl(fd, F_SETLKW, &w), EINTR);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("setlk wait") == 1; }));
  ::kill(waiter, SIGUSR1);
  EXPECT_EQ(m.wait_client(waiter), 0);
  EXPECT_EQ(m.fs().locks("f"), 1u);
}

TEST_P(Locks, WaitOnASoftMount_EndsWhenTheFilerIsSilent) {
  MountSetup setup = mount_setup();
  setup.options.soft_limit = std::chrono::milliseconds(200);
  TestMount m(setup);
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    EXPECT_POSIX(::flock(fd, LOCK_EX));
  });
  holder.wait_until_taken();
  const pid_t waiter = m.start_client([&] {
    const int fd = open_file(m.path("f"));
    EXPECT_ERRNO(::flock(fd, LOCK_EX), ETIMEDOUT);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("flock wait") == 1; }));
  // The waiter's loop asks every LoopRequests::kSoftPeriod, each of the others at most once more.
  const size_t before = m.fs().asked_whether_timed_out();
  EXPECT_TRUE(eventually([&] { return m.fs().asked_whether_timed_out() > before + setup.loops; }));
  EXPECT_EQ(m.statistics().early_answers, 0u) << "another's lock is not the filer's silence";
  m.fs().soft_timeout(true);
  EXPECT_EQ(m.wait_client(waiter), 0);
  m.fs().soft_timeout(false);
  holder.release();
  EXPECT_TRUE(eventually([&] { return m.fs().locks("f") == 0; }));
}

TEST_P(Locks, KilledWaiter_LeavesNoLock) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    EXPECT_POSIX(::flock(fd, LOCK_EX));
  });
  holder.wait_until_taken();
  const pid_t waiter = m.start_client([&] {
    const int fd = open_file(m.path("f"));
    ::flock(fd, LOCK_EX);
    FAIL() << "got a lock that another process holds";
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("flock wait") == 1; }));
  ::kill(waiter, SIGKILL);
  const int status = m.wait_client(waiter);
  EXPECT_TRUE(WIFSIGNALED(status));
  holder.release();
  EXPECT_TRUE(eventually([&] { return m.fs().locks("f") == 0; }));
}

TEST_P(Locks, Flock_SharedAndExclusive) {
  TestMount m(mount_setup());
  Holder holder(m, [&] {
    const int fd = open_file(m.path("f"));
    EXPECT_POSIX(::flock(fd, LOCK_SH));
  });
  holder.wait_until_taken();
  m.client([&] {
    const int fd = open_file(m.path("f"));
    EXPECT_POSIX(::flock(fd, LOCK_SH | LOCK_NB));
    EXPECT_ERRNO(::flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    EXPECT_POSIX(::flock(fd, LOCK_UN));
  });
  const pid_t waiter = m.start_client([&] {
    const int fd = open_file(m.path("f"));
    EXPECT_POSIX(::flock(fd, LOCK_EX));
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("flock wait") == 1; }));
  holder.release();
  EXPECT_EQ(m.wait_client(waiter), 0);
  EXPECT_TRUE(eventually([&] { return m.fs().locks("f") == 0; }));
}

TEST_P(Locks, ClosingAnyDescriptor_DropsTheProcessesPosixLocks) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = open_file(m.path("f"));
    const int other = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 0, 0);
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
    ::close(other);
    const pid_t stranger = ::fork();
    if (stranger == 0) {
      const int third = open_file(m.path("f"));
      struct flock again = range(F_WRLCK, 0, 0);
      ::_exit(::fcntl(third, F_SETLK, &again) == 0 ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(stranger, &status, 0), stranger);
    EXPECT_EQ(status, 0);
    ::close(fd);
  });
}

TEST_P(Locks, OpenFileDescriptionLock_EndsWithItsLastDescriptor) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 0, 10);
    EXPECT_POSIX(::fcntl(fd, F_OFD_SETLK, &w));
    // Unlike a POSIX lock it survives the close of another descriptor.
    const int other = open_file(m.path("f"));
    ::close(other);
    const int third = open_file(m.path("f"));
    struct flock again = range(F_WRLCK, 0, 10);
    EXPECT_ERRNO(::fcntl(third, F_OFD_SETLK, &again), EAGAIN);
    ::close(fd);
    // close(2) does not wait for RELEASE.
    struct flock wait = range(F_WRLCK, 0, 10);
    EXPECT_POSIX(::fcntl(third, F_OFD_SETLKW, &wait));
    ::close(third);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().locks("f") == 0; }));
}

TEST_P(Locks, GrantedAfterTheProcessDied_IsGivenBack) {
  TestMount m(mount_setup());
  m.client([&] { ::close(open_file(m.path("f"))); });
  m.fs().hold("setlk");
  const pid_t child = m.start_client([&] {
    const int fd = open_file(m.path("f"));
    struct flock w = range(F_WRLCK, 0, 0);
    ::fcntl(fd, F_SETLK, &w);
  });
  EXPECT_TRUE(eventually([&] { return m.fs().held("setlk") == 1; }));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(m.wait_client(child)));
  // The process is gone and its file released; only now is the lock granted.
  EXPECT_TRUE(eventually([&] { return m.count("RELEASE") == 2 || m.fs().held("setlk") == 2; }));
  m.fs().let_go("setlk");
  EXPECT_TRUE(eventually([&] { return m.mount().in_flight() == 0; }));
  EXPECT_EQ(m.fs().locks("f"), 0u);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
