// LoopRequests without a kernel: very many requests that wait, and callers whose /proc does not answer.
#include "fuse/loop_requests.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/fuse/libfuse_session.h"
#include "tests/unit/fuse/memory_filesystem.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::fuse::test {
namespace {

using nfsrdma::test::eventually;

class LoopRequestsTest : public ::testing::Test {
 protected:
  LoopRequestsTest() {
    loops.start();
    session = std::make_unique<LibfuseSession>(loops[0], *requests);
  }
  ~LoopRequestsTest() override {
    session->answer_all();
    session.reset();
    loops.stop_and_join();
  }

  BufferPool pool;
  MemoryFilesystem fs{pool};
  ErrnoMap errors{"memory:/export", "/mnt"};
  LoopPool loops{1};
  std::shared_ptr<LoopRequests> requests =
      std::make_shared<LoopRequests>(loops[0], fs, errors, std::chrono::milliseconds(0));
  std::unique_ptr<LibfuseSession> session;
};

// One of them was interrupted: all are looked through ten times a second. Searched one by one they would take
// 5,000,000,000 steps each time.
TEST_F(LoopRequestsTest, ManyThatWait_AreLookedThroughInOneGo) {
  session->getattrs(::getpid(), 100'000);
  const uint64_t stopped = session->getattrs(0, 1);
  session->interrupt(stopped);
  // Whose caller nobody can see is given up when the filer is silent, which is asked in each round.
  EXPECT_TRUE(eventually([&] { return fs.asked_whether_responding() > 10; }));
  EXPECT_EQ(session->answers(), 0u);
  fs.not_responding(true);
  EXPECT_TRUE(eventually([&] { return session->answered(stopped); }));
  EXPECT_EQ(session->error_of(stopped), EINTR);
  EXPECT_EQ(session->answers(), 1u);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
