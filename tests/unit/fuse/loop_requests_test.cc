// SPDX-License-Identifier: Apache-2.0
// LoopRequests without a kernel: very many waiting requests, and callers whose /proc does not answer.
#include "fuse/loop_requests.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>

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
    inspector.start();
    session = std::make_unique<LibfuseSession>(loops[0], *requests);
  }
  ~LoopRequestsTest() override {
    session->answer_all();
    inspector.stop();
    inspector.join();
    session.reset();
    loops.stop_and_join();
  }

  BufferPool pool;
  MemoryFilesystem fs{pool};
  ErrnoMap errors{"memory:/export", "/mnt"};
  LoopPool loops{1};
  // Replaces the read of /proc. Set it before the first request.
  std::function<SignalIntent(pid_t)> look = [](pid_t) { return SignalIntent::kNone; };
  CallerInspector inspector{[this](pid_t tid) { return look(tid); }};
  OperationTracer tracer;
  std::shared_ptr<LoopRequests> requests =
      std::make_shared<LoopRequests>(loops[0], fs, errors, inspector, tracer, std::chrono::milliseconds(0));
  std::unique_ptr<LibfuseSession> session;
};

// One of them was interrupted, so all are examined ten times a second. A search for each one would take
// 5,000,000,000 steps each time.
TEST_F(LoopRequestsTest, ManyThatWait_AreLookedThroughInOneGo) {
  session->getattrs(::getpid(), 100'000);
  const uint64_t stopped = session->getattrs(0, 1);
  session->interrupt(stopped);
  // The status of caller 0 cannot be read. Its request is answered early once the server is silent; each
  // round asks for that.
  EXPECT_TRUE(eventually([&] { return fs.asked_whether_responding() > 10; }));
  EXPECT_EQ(session->answers(), 0u);
  fs.not_responding(true);
  EXPECT_TRUE(eventually([&] { return session->answered(stopped); }));
  EXPECT_EQ(session->error_of(stopped), EINTR);
  EXPECT_EQ(session->answers(), 1u);
}

// The kernel behaves so: a thread that reads /proc of a process being killed waits until that process's
// asynchronous reads are answered.
TEST_F(LoopRequestsTest, LookThatWaitsForAnAnswer_DoesNotKeepTheLoopFromIt) {
  std::atomic<bool> looking{false}, returned{false}, saw_the_answer{false};
  std::atomic<uint64_t> read{0};
  look = [&](pid_t) {
    looking = true;
    saw_the_answer = eventually([&] { return session->answered(read); });
    returned = true;
    return SignalIntent::kFatal;
  };
  read = session->read(::getpid());
  EXPECT_TRUE(eventually([&] { return looking.load(); }));
  session->answer(read);
  EXPECT_TRUE(eventually([&] { return returned.load(); }));
  EXPECT_TRUE(saw_the_answer);
  EXPECT_EQ(session->error_of(read), 0);
}

TEST_F(LoopRequestsTest, OldReadOfAKilledCaller_IsGivenUp) {
  constexpr pid_t kKilled = 0x7ffffffe, kAlive = 0x7ffffffd;
  look = [](pid_t tid) { return tid == kAlive ? SignalIntent::kNone : SignalIntent::kFatal; };
  const uint64_t of_alive = session->read(kAlive), without_caller = session->read(0);
  const uint64_t first = session->read(kKilled), second = session->read(kKilled);
  EXPECT_TRUE(eventually([&] { return session->answered(first) && session->answered(second); }));
  EXPECT_EQ(session->error_of(first), EINTR);
  EXPECT_EQ(session->error_of(second), EINTR);
  EXPECT_FALSE(session->answered(of_alive));
  EXPECT_FALSE(session->answered(without_caller));
}

TEST(CallerInspector, ACallerOfManyRequests_IsLookedAtOnce) {
  std::atomic<int> looks{0}, told{0};
  CallerInspector inspector([&](pid_t tid) {
    ++looks;
    return tid == 7 ? SignalIntent::kFatal : SignalIntent::kStop;
  });
  inspector.start();
  inspector.ask({7, 8, 7, 7}, [&](const CallerInspector::Intents& intents) {
    EXPECT_EQ(intents, (CallerInspector::Intents{{7, SignalIntent::kFatal}, {8, SignalIntent::kStop}}));
    ++told;
  });
  EXPECT_TRUE(eventually([&] { return told == 1; }));
  EXPECT_EQ(looks, 2);
  inspector.stop();
  inspector.ask({7}, [&](const CallerInspector::Intents&) { ++told; });
  inspector.join();
  EXPECT_EQ(told, 1);
}

TEST_F(LoopRequestsTest, WhatIsSeenOfACaller_DoesNotConcernWhoHasTheRecordNext) {
  std::atomic<bool> looking{false}, go_on{false};
  look = [&](pid_t) {
    if (!looking.exchange(true)) {
      EXPECT_TRUE(eventually([&] { return go_on.load(); }));
    }
    return SignalIntent::kFatal;
  };
  const uint64_t first = session->read(::getpid());
  EXPECT_TRUE(eventually([&] { return looking.load(); }));
  session->answer(first);
  EXPECT_EQ(session->error_of(first), 0);
  const uint64_t next = session->read(::getpid());
  go_on = true;
  inspector.stop();
  inspector.join();
  session->getattrs(::getpid(), 1);  // runs after what the inspector has posted
  EXPECT_FALSE(session->answered(next));
}

}  // namespace
}  // namespace nfsrdma::fuse::test
