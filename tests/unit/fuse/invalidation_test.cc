// SPDX-License-Identifier: Apache-2.0
// Invalidations while a page stays locked, because its READ is not answered.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <vector>

#include "fuse/invalidator.h"
#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

class StuckInvalidation : public FuseTest {
 protected:
  static MountSetup lasting() {
    MountSetup s = mount_setup();
    s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
    return s;
  }
  // A process that reads `name` and stays blocked until held READs are let go.
  static pid_t start_reader(TestMount& m, const std::string& name) {
    return m.start_client([&m, name] { EXPECT_EQ(read_file(m.path(name)), name); });
  }
  static bool told(TestMount& m, uint64_t notices) {
    return eventually([&] { return m.statistics().invalidations == notices; });
  }
};
NFSRDMA_FUSE_SUITE(StuckInvalidation);

TEST_P(StuckInvalidation, OfOneFile_HoldsUpNoLockOfAnother) {
  TestMount m(lasting());
  m.fs().drop_data_on_lock(m.mount().front_end());
  const pid_t locker = m.start_client([&] {
    write_file(m.path("f"), "f");
    write_file(m.path("g"), "old");
    const int fd = ::open(m.path("g").c_str(), O_RDWR);
    char buffer[16];
    EXPECT_EQ(::pread(fd, buffer, sizeof buffer, 0), 3);
    ::raise(SIGSTOP);
    struct flock w {};
    w.l_type = F_WRLCK;
    EXPECT_POSIX(::fcntl(fd, F_SETLK, &w));
  });
  int status = 0;
  ::waitpid(locker, &status, WUNTRACED);
  m.fs().hold("read");
  const pid_t reader = start_reader(m, "f");
  EXPECT_TRUE(eventually([&] { return m.fs().held("read") >= 1; }));
  // The kernel blocks in this notification: it waits for the page that is being read.
  m.mount().front_end()->invalidate_data(m.fs().node("f"));
  EXPECT_TRUE(told(m, 1));
  ::kill(locker, SIGCONT);
  EXPECT_EQ(m.wait_client(locker), 0);
  m.fs().let_go("read");
  EXPECT_EQ(m.wait_client(reader), 0);
}

TEST_P(StuckInvalidation, OfOneFile_HoldsUpItsOwnNextOne) {
  TestMount m(lasting());
  m.client([&] {
    write_file(m.path("f"), "f");
    write_file(m.path("g"), "g");
  });
  m.fs().hold("read");
  const pid_t reader = start_reader(m, "f");
  EXPECT_TRUE(eventually([&] { return m.fs().held("read") >= 1; }));
  FrontEnd* const kernel = m.mount().front_end();
  kernel->invalidate_data(m.fs().node("f"));
  EXPECT_TRUE(told(m, 1));
  kernel->invalidate_attributes(m.fs().node("f"));
  kernel->invalidate_data(m.fs().node("f"));
  kernel->invalidate_data(m.fs().node("g"));
  EXPECT_TRUE(told(m, 2));
  EXPECT_EQ(m.statistics().invalidations_merged, 1u);
  m.fs().let_go("read");
  EXPECT_EQ(m.wait_client(reader), 0);
  EXPECT_TRUE(told(m, 3));
}

// As many as there can be threads. The next notice waits, and none is lost.
TEST_P(StuckInvalidation, OfTooManyFiles_HoldsUpOthersUntilOneIsOver) {
  constexpr uint64_t kStuck = Invalidator::kMaxThreads;
  TestMount m(lasting());
  const auto name = [](uint64_t i) { return "f" + std::to_string(i); };
  m.client([&] {
    for (uint64_t i = 0; i <= kStuck; ++i) write_file(m.path(name(i)), name(i));
  });
  m.fs().hold("read");
  std::vector<pid_t> readers;
  for (uint64_t i = 0; i < kStuck; ++i) readers.push_back(start_reader(m, name(i)));
  EXPECT_TRUE(eventually([&] { return m.fs().held("read") == kStuck; }));
  for (uint64_t i = 0; i < kStuck; ++i) m.mount().front_end()->invalidate_data(m.fs().node(name(i)));
  EXPECT_TRUE(told(m, kStuck));
  m.mount().front_end()->invalidate_data(m.fs().node(name(kStuck)));
  m.client([&] { write_file(m.path("g"), "still alive"); });
  EXPECT_EQ(m.statistics().invalidations, kStuck);
  m.fs().let_go("read");
  for (const pid_t reader : readers) EXPECT_EQ(m.wait_client(reader), 0);
  EXPECT_TRUE(told(m, kStuck + 1));
}

TEST_P(StuckInvalidation, OfSeveralFiles_IsNoDeadlockWhenTheMountEnds) {
  TestMount m(lasting());
  m.client([&] {
    write_file(m.path("f"), "f");
    write_file(m.path("g"), "g");
  });
  m.fs().hold("read");
  std::vector<pid_t> readers;
  for (const std::string name : {"f", "g"}) {
    readers.push_back(m.start_client([&m, name] {
      char c = 0;
      const int fd = ::open(m.path(name).c_str(), O_RDONLY);
      EXPECT_EQ(::read(fd, &c, 1), -1);
    }));
  }
  EXPECT_TRUE(eventually([&] { return m.fs().held("read") == 2; }));
  for (const std::string name : {"f", "g"}) m.mount().front_end()->invalidate_data(m.fs().node(name));
  EXPECT_TRUE(told(m, 2));
  m.mount().detach();
  EXPECT_TRUE(eventually([&] { return m.mount().ended(); }));
  m.fs().let_go("read");
  m.stop();
  for (const pid_t reader : readers) m.wait_client(reader);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
