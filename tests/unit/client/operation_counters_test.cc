// SPDX-License-Identifier: Apache-2.0
#include "client/core/operation_counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "xdr/nfs4/op.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::OperationCounters;
using client::OperationStatistics;

const OperationStatistics& find(const std::vector<OperationStatistics>& all, std::string_view name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; });
  EXPECT_NE(it, all.end()) << name;
  return *it;
}

TEST(OperationCounters, NothingCounted_IsEmpty) {
  const OperationCounters counters;
  EXPECT_TRUE(counters.snapshot().empty());
}

TEST(OperationCounters, Samples_AddUpUnderTheirOperation) {
  OperationCounters counters;
  counters.add(nfs4::OP_READ, {.sent = 100, .received = 1000, .queue = 5us, .response = 70us});
  counters.add(
      nfs4::OP_READ,
      {.error = true, .transmissions = 3, .sent = 10, .received = 20, .queue = 1us, .response = 2us});
  counters.add(nfs4::OP_WRITE, {});
  const auto all = counters.snapshot();
  ASSERT_EQ(all.size(), 2u);
  const OperationStatistics& read = find(all, "READ");
  EXPECT_EQ(read.requests, 2u);
  EXPECT_EQ(read.errors, 1u);
  EXPECT_EQ(read.retransmissions, 2u);
  EXPECT_EQ(read.bytes_sent, 110u);
  EXPECT_EQ(read.bytes_received, 1020u);
  EXPECT_EQ(read.queue_us, 6u);
  EXPECT_EQ(read.response_us, 72u);
  EXPECT_EQ(read.max_us, 70u);
  EXPECT_EQ(read.latency[latency::bucket_of(2)], 1u);
  EXPECT_EQ(read.latency[latency::bucket_of(70)], 1u);
  EXPECT_EQ(read.total_us, 78u);
  EXPECT_EQ(find(all, "WRITE").requests, 1u);
}

TEST(OperationCounters, NeverSent_IsNoRetransmission) {
  OperationCounters counters;
  counters.add(nfs4::OP_READ, {.transmissions = 0});
  EXPECT_EQ(counters.snapshot().at(0).retransmissions, 0u);
}

TEST(OperationCounters, EveryOperationOfTheProtocol_HasAName) {
  OperationCounters counters;
  for (uint32_t op = nfs4::OP_ACCESS; op < OperationCounters::kOperations; ++op) {
    counters.add(static_cast<nfs4::nfs_opnum4>(op), {});
  }
  const auto all = counters.snapshot();
  EXPECT_EQ(all.size(), OperationCounters::kOperations - nfs4::OP_ACCESS);
  for (const OperationStatistics& s : all) EXPECT_FALSE(s.name.empty());
}

TEST(OperationCounters, NumberOutOfRange_IsIgnored) {
  OperationCounters counters;
  counters.add(static_cast<nfs4::nfs_opnum4>(OperationCounters::kOperations), {});
  counters.add(nfs4::OP_ILLEGAL, {});
  EXPECT_TRUE(counters.snapshot().empty());
}

TEST(OperationCounters, FromFourThreads_LosesNothing) {
  constexpr unsigned kEach = 5000;
  OperationCounters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (unsigned n = 0; n < kEach; ++n) counters.add(nfs4::OP_GETATTR, {.sent = 3});
    });
  }
  for (int n = 0; n < 100; ++n) (void)counters.snapshot();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counters.snapshot().at(0).requests, 4u * kEach);
  EXPECT_EQ(counters.snapshot().at(0).bytes_sent, 12u * kEach);
}

}  // namespace
}  // namespace nfsrdma::test
