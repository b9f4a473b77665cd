// SPDX-License-Identifier: Apache-2.0
#include "fuse/operation_tracer.h"

#include <gtest/gtest.h>

namespace nfsrdma::fuse::test {
namespace {

using namespace std::chrono_literals;

TracedOperation done(Operation operation, std::chrono::nanoseconds took = 1us) {
  TracedOperation one;
  one.operation = operation;
  one.took = took;
  return one;
}

OperationTracer::Filter only(Operation operation) {
  OperationTracer::Filter filter;
  filter.operations = uint64_t{1} << static_cast<unsigned>(operation);
  return filter;
}

TEST(OperationTracer, IsOnWhileSomebodyWatches) {
  OperationTracer tracer;
  EXPECT_FALSE(tracer.on());
  auto watch = tracer.watch({});
  EXPECT_TRUE(tracer.on());
  watch.reset();
  tracer.answered(done(Operation::kRead));  // notices that the watch is gone
  EXPECT_FALSE(tracer.on());
}

TEST(OperationTracer, EachWatchGetsWhatItWants) {
  OperationTracer tracer;
  const auto reads = tracer.watch(only(Operation::kRead));
  OperationTracer::Filter slow;
  slow.at_least = 1ms;
  const auto slow_ones = tracer.watch(slow);
  tracer.answered(done(Operation::kRead));
  tracer.answered(done(Operation::kWrite, 1ms));
  tracer.answered(done(Operation::kRead, 2ms));
  const auto first = reads->take(100);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].took, 2ms);
  const auto second = slow_ones->take(1);
  ASSERT_EQ(second.size(), 1u) << "no more than asked for";
  EXPECT_EQ(second[0].operation, Operation::kWrite);
  EXPECT_EQ(slow_ones->take(100).size(), 1u);
  EXPECT_TRUE(reads->take(100).empty()) << "each is taken once";
}

TEST(OperationTracer, WhoDoesNotTake_LosesTheOldestAndIsTold) {
  OperationTracer tracer;
  const auto watch = tracer.watch({});
  for (size_t i = 0; i < OperationTracer::Watch::kMostKept + 3; ++i) {
    tracer.answered(done(Operation::kRead, std::chrono::nanoseconds(i)));
  }
  EXPECT_EQ(watch->take_lost(), 3u);
  EXPECT_EQ(watch->take_lost(), 0u);
  const auto kept = watch->take(SIZE_MAX);
  EXPECT_EQ(kept.size(), OperationTracer::Watch::kMostKept);
  EXPECT_EQ(kept.front().took, 3ns);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
