// SPDX-License-Identifier: Apache-2.0
// The limit for log lines that a peer can provoke.
#include "transport/runtime/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace nfsrdma::test {
namespace {

TEST(LogThrottle, Flood_IsLoggedAtPowersOfTwo) {
  log::Throttle throttle;
  std::vector<uint64_t> logged;
  for (int i = 0; i < 1000; ++i) {
    if (const uint64_t n = throttle.hit()) logged.push_back(n);
  }
  EXPECT_EQ(logged, (std::vector<uint64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}));
}

TEST(LogThrottle, FloodOnSeveralThreads_IsLoggedNoMoreOften) {
  log::Throttle throttle;
  std::atomic<int> logged{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 256; ++n) logged += throttle.hit() != 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(logged, 11);  // 1, 2, 4 ... 1024
}

}  // namespace
}  // namespace nfsrdma::test
