// SPDX-License-Identifier: Apache-2.0
// Parts of the verbs fabric that need no device.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <deque>

#include "transport/fabric/verbs/devices.h"
#include "transport/fabric/verbs/keep_alive.h"
#include "transport/fabric/verbs/send_ledger.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::test {
namespace {

using fabric::verbs::KeepAlive;
using fabric::verbs::SendLedger;

// However it was filled, a full queue contains a request that asks for a completion: otherwise it would never
// be emptied.
TEST(SendLedger, FullQueue_AlwaysHasOneThatAsks) {
  for (unsigned depth = 2; depth <= 40; ++depth) {
    SendLedger ledger(depth, depth / 2);
    std::deque<SendLedger::Entry> queue;
    for (int round = 0; round < 200; ++round) {
      while (ledger.room()) queue.push_back(ledger.add(round % 7 == 3));
      EXPECT_EQ(ledger.outstanding(), depth);
      while (!queue.empty() && !queue.front().signalled) queue.pop_front();
      ASSERT_FALSE(queue.empty()) << depth;
      EXPECT_GT(ledger.complete(queue.front().number), 0u);
      queue.pop_front();
      EXPECT_TRUE(ledger.room());
    }
  }
}

TEST(SendLedger, Completion_SpeaksForAllBefore_Once) {
  SendLedger ledger(16, 8);
  for (uint64_t i = 0; i < 7; ++i) EXPECT_FALSE(ledger.add(false).signalled) << i;
  EXPECT_TRUE(ledger.add(false).signalled) << "the eighth";
  EXPECT_TRUE(ledger.add(true).signalled);
  EXPECT_EQ(ledger.complete(7), 8u);
  EXPECT_EQ(ledger.complete(7), 0u);
  EXPECT_EQ(ledger.complete(9), 0u) << "never posted";
  EXPECT_EQ(ledger.complete(8), 1u);
  EXPECT_EQ(ledger.outstanding(), 0u);
}

TEST(KeepAlive, QuietConnection_IsAskedAfterAWholeInterval) {
  KeepAlive k(std::chrono::seconds(60), std::chrono::milliseconds(0));
  EXPECT_EQ(k.wait(), std::chrono::seconds(60));
  EXPECT_TRUE(k.due()) << "nothing at all was heard";
  k.heard();
  EXPECT_FALSE(k.due());
  EXPECT_TRUE(k.due());
}

TEST(KeepAlive, BeginningOfAnIwarpConnection_IsNudgedUntilSomethingIsHeard) {
  KeepAlive k(std::chrono::seconds(60), std::chrono::milliseconds(200));
  for (unsigned i = 0; i < KeepAlive::kNudges; ++i) {
    EXPECT_EQ(k.wait(), std::chrono::milliseconds(200 << i));
    EXPECT_TRUE(k.due());
  }
  EXPECT_EQ(k.wait(), std::chrono::seconds(60)) << "not for ever";
  KeepAlive heard(std::chrono::seconds(60), std::chrono::milliseconds(200));
  heard.heard();
  EXPECT_EQ(heard.wait(), std::chrono::seconds(60));
}

TEST(VerbsDevices, GidsThatAreAddresses_CanBeConnectedFrom) {
  const auto text = [](const char* gid, unsigned interface) {
    uint8_t raw[16];
    EXPECT_EQ(inet_pton(AF_INET6, gid, raw), 1);
    const auto address = fabric::verbs::address_of_gid(raw, interface);
    return address ? net::to_string(*address) : std::string("none");
  };
  EXPECT_EQ(text("::ffff:10.8.8.1", 3), "10.8.8.1:0");
  EXPECT_EQ(text("fd00:8::1", 3), "[fd00:8::1]:0");
  EXPECT_EQ(text("fe80::1", 1).rfind("[fe80::1%", 0), 0u) << "link-local, with its interface";
  EXPECT_EQ(text("::", 3), "none");
}

TEST(VerbsDevices, DeviceThatIsNotThere_IsNamed) {
  fabric::verbs::Options wanted;
  wanted.device = "mlx5_99";
  const std::string lacking = fabric::verbs::missing(wanted);
  EXPECT_EQ(lacking.rfind("this machine has no RDMA device", 0), 0u) << lacking;
  EXPECT_EQ(fabric::verbs::missing({}).empty(), !fabric::verbs::devices().empty());
}

}  // namespace
}  // namespace nfsrdma::test
