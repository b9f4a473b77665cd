// SPDX-License-Identifier: Apache-2.0
// WaitQueue, AsyncMutex and Completion, on one loop and across four.
#include "transport/runtime/sync.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/unit/transport/support/run_on.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::test {
namespace {

constexpr unsigned kLoops = 4;

// A queue of numbers between loops: the intended use of WaitQueue.
struct Channel {
  Mutex mutex;
  WaitQueue readers;
  std::deque<int> items;

  void put(int v) {
    MutexLock lock(mutex);
    items.push_back(v);
    readers.notify_one();
  }
};

Task<int64_t> take(Channel* channel, int n) {
  Loop* home = Loop::current();
  int64_t sum = 0;
  for (int i = 0; i < n; ++i) {
    while (true) {
      MutexLock lock(channel->mutex);
      if (!channel->items.empty()) {
        sum += channel->items.front();
        channel->items.pop_front();
        break;
      }
      co_await channel->readers.wait(lock);
      if (Loop::current() != home) co_return -1;
    }
  }
  co_return sum;
}

TEST(WaitQueue, ReadersOnFourLoops_EachItemReachesOneOfThemOnItsLoop) {
  LoopPool pool(kLoops);
  pool.start();
  Channel channel;
  constexpr int kEach = 5000;
  std::vector<std::future<int64_t>> sums;
  for (unsigned i = 0; i < kLoops; ++i) sums.push_back(start_on(pool[i], take(&channel, kEach)));
  int64_t expected = 0;
  for (int i = 0; i < kEach * static_cast<int>(kLoops); ++i) {
    channel.put(i);
    expected += i;
  }
  int64_t sum = 0;
  for (auto& s : sums) {
    const int64_t one = s.get();
    ASSERT_GE(one, 0) << "resumed on a foreign loop";
    sum += one;
  }
  EXPECT_EQ(sum, expected);
}

struct CancelCase {
  Mutex mutex;
  WaitQueue queue;
  WaitQueue::Waiter* waiter = nullptr;
};

Task<bool> wait_cancellable(CancelCase* c) {
  MutexLock lock(c->mutex);
  const bool notified = co_await c->queue.wait(lock, &c->waiter);
  co_return notified;
}

TEST(WaitQueue, Cancel_EndsThatWaitOnlyWithFalse) {
  LoopThread loop;
  CancelCase c;
  auto first = start_on(*loop, wait_cancellable(&c));
  call_on(*loop, [] {});
  WaitQueue::Waiter* doomed = c.waiter;
  auto second = start_on(*loop, wait_cancellable(&c));
  call_on(*loop, [] {});
  {
    MutexLock lock(c.mutex);
    c.queue.cancel(doomed);
  }
  EXPECT_FALSE(first.get());
  {
    MutexLock lock(c.mutex);
    c.queue.notify_all();
  }
  EXPECT_TRUE(second.get());
}

Task<> lock_in_order(AsyncMutex* mutex, std::vector<int>* order, int id) {
  const AsyncMutex::Guard guard = co_await mutex->lock();
  order->push_back(id);
}

TEST(AsyncMutex, Waiters_GetItInTheOrderTheyAsked) {
  LoopThread loop;
  AsyncMutex mutex;
  std::vector<int> order;
  ASSERT_TRUE(mutex.try_lock());
  std::vector<std::future<void>> waiters;
  for (int i = 0; i < 10; ++i) waiters.push_back(start_on(*loop, lock_in_order(&mutex, &order, i)));
  call_on(*loop, [] {});
  EXPECT_FALSE(mutex.try_lock());
  { const AsyncMutex::Guard held(&mutex); }  // takes over the lock of try_lock(), and unlocks
  for (auto& w : waiters) w.get();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_FALSE(mutex.locked());
}

Task<> add_under_lock(AsyncMutex* mutex, int* counter, int n) {
  Loop* home = Loop::current();
  for (int i = 0; i < n; ++i) {
    const AsyncMutex::Guard guard = co_await mutex->lock();
    const int seen = *counter;
    if (i % 64 == 0) co_await home->sleep(Duration::zero());  // held across a suspension
    *counter = seen + 1;
  }
}

TEST(AsyncMutex, FourLoops_ExcludeEachOther) {
  LoopPool pool(kLoops);
  pool.start();
  AsyncMutex mutex;
  int counter = 0;
  constexpr int kEach = 4000;
  std::vector<std::future<void>> done;
  for (unsigned i = 0; i < kLoops; ++i)
    done.push_back(start_on(pool[i], add_under_lock(&mutex, &counter, kEach)));
  for (auto& d : done) d.get();
  EXPECT_EQ(counter, kEach * static_cast<int>(kLoops));
}

Task<std::pair<int, bool>> await_completion(Completion<int>* c) {
  Loop* home = Loop::current();
  const int value = co_await c->wait();
  co_return std::pair{value, home->on_loop()};
}

TEST(Completion, SetBeforeWait_WaitsNot) {
  LoopThread loop;
  Completion<int> c;
  c.set(7);
  EXPECT_EQ(run_on(*loop, await_completion(&c)).first, 7);
}

TEST(Completion, SetOnTheSameLoop_ResumesInsideSet) {
  LoopThread loop;
  Completion<int> c;
  auto waiting = start_on(*loop, await_completion(&c));
  call_on(*loop, [] {});
  const bool inside = call_on(*loop, [&] {
    c.set(8);
    return waiting.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  EXPECT_TRUE(inside);
  EXPECT_EQ(waiting.get().first, 8);
}

// set() may come before or after wait(): tries both orders, many times.
TEST(Completion, SetFromAnotherLoop_ResumesAtHome) {
  LoopPool pool(2);
  pool.start();
  for (int i = 0; i < 5000; ++i) {
    Completion<int> c;
    auto waiting = start_on(pool[0], await_completion(&c));
    pool[1].post([&c, i] { c.set(i); });
    const auto [value, home] = waiting.get();
    ASSERT_EQ(value, i);
    ASSERT_TRUE(home);
    call_on(pool[1], [] {});  // set() has returned by now
  }
}

}  // namespace
}  // namespace nfsrdma::test
