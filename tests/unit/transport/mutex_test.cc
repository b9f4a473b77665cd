// SPDX-License-Identifier: Apache-2.0
// Mutex: one holder at a time, and no waiter is forgotten.
#include "transport/runtime/mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace nfsrdma::test {
namespace {

// Under sanitizers Mutex is the standard library's.
template <class M>
class MutexTest : public testing::Test {};
using Kinds = testing::Types<FutexMutex, Mutex>;
TYPED_TEST_SUITE(MutexTest, Kinds);

TYPED_TEST(MutexTest, OneHolderAtATime) {
  TypeParam mutex;
  uint64_t count = 0;  // not atomic: only the mutex protects it
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        std::lock_guard lock(mutex);
        ++count;
        if (i % 100 == 0) std::this_thread::yield();  // so that other threads try to lock it meanwhile
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(count, 80000U);
  EXPECT_EQ(sizeof(FutexMutex), 4U);
}

TYPED_TEST(MutexTest, WhoWaits_GetsItWhenItIsFree) {
  TypeParam mutex;
  std::unique_lock held(mutex);
  int turns = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::lock_guard lock(mutex);
      ++turns;
    });
  }
  EXPECT_FALSE(mutex.try_lock());
  held.unlock();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(turns, 3);
  EXPECT_TRUE(std::unique_lock(mutex, std::try_to_lock).owns_lock());
}

#ifdef NFSRDMA_SANITIZED
TEST(LockRankDeathTest, LowerOrEqualRankUnderAHeldOne_EndsTheProgram) {
  Mutex table(LockRank::kTable), object(LockRank::kObject), leaf, other_leaf;
  {
    MutexLock first(table);
    MutexLock second(object);
    MutexLock third(leaf);
    EXPECT_DEATH(other_leaf.lock(), "a mutex of rank 4 is locked while one of rank 4 is held");
  }
  MutexLock held(object);
  EXPECT_DEATH(table.lock(), "a mutex of rank 1 is locked while one of rank 2 is held");
  held.unlock();
  MutexLock afterwards(table);
}
#endif

}  // namespace
}  // namespace nfsrdma::test
