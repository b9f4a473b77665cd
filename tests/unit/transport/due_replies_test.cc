// SPDX-License-Identifier: Apache-2.0
// DueReplies: which replies a connection expects, and which of them it receives in place.
#include "transport/tcp/due_replies.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/transport/support/fake_security.h"
#include "tests/unit/transport/support/rpc_bytes.h"

namespace nfsrdma::test {
namespace {

using rpc::PendingCall;
using rpc::PendingCalls;
using tcp::DueReplies;
using tcp::Expected;

struct DueTable {
  struct Made {
    rpc::Call call;
    std::unique_ptr<PendingCall> pending;
  };
  static constexpr size_t kDirectMinBytes = 4096;
  PendingCalls calls;
  std::unique_ptr<DueReplies> due = std::make_unique<DueReplies>(calls, kDirectMinBytes);
  std::vector<std::unique_ptr<Made>> made;

  explicit DueTable(uint32_t first) : calls(first) {}
  ~DueTable() {
    while (calls.oldest() != nullptr) calls.remove(*calls.oldest());
  }
  PendingCall& add() {
    Made& m = *made.emplace_back(std::make_unique<Made>());
    m.call.head = call_head();
    m.pending = std::make_unique<PendingCall>(m.call);
    calls.add(*m.pending, TimePoint{});
    return *m.pending;
  }
  void lose_connection() {
    calls.connection_lost();
    due = std::make_unique<DueReplies>(calls, kDirectMinBytes);
  }
};

TEST(DueReplies, Expect_KnowsHowFarACallHasCome) {
  DueTable t(1);
  PendingCall& p = t.add();
  EXPECT_EQ(t.due->expect(p.xid).kind, Expected::Kind::kEarly) << "not given to the connection";
  t.calls.queued(p, TimePoint{});
  EXPECT_EQ(t.due->expect(p.xid).kind, Expected::Kind::kEarly) << "not sent completely";
  t.due->sent(p);
  const Expected e = t.due->expect(p.xid);
  EXPECT_EQ(e.kind, Expected::Kind::kAwaited);
  EXPECT_EQ(e.sink, &p.call->sink);
  EXPECT_EQ(t.due->expect(p.xid).kind, Expected::Kind::kEarly) << "its reply is being received already";
  t.lose_connection();
  EXPECT_EQ(t.due->expect(p.xid).kind, Expected::Kind::kEarly);
  EXPECT_EQ(t.due->expect(999).kind, Expected::Kind::kUnknown);
}

TEST(DueReplies, AbandonedXid_IsIgnoredOnceAndForgottenWithTheConnection) {
  DueTable t(1);
  t.due->abandon(50);
  t.due->abandon(51);
  EXPECT_EQ(t.due->expect(50).kind, Expected::Kind::kAbandoned);
  EXPECT_EQ(t.due->expect(50).kind, Expected::Kind::kUnknown);
  t.lose_connection();
  EXPECT_EQ(t.due->expect(51).kind, Expected::Kind::kUnknown);
}

TEST(DueReplies, PrefixHint_WhileLargeSinksAreDue) {
  BufferPool pool;
  DueTable t(1);
  const auto with_sink = [&](size_t size) -> PendingCall& {
    PendingCall& p = t.add();
    p.call->sink = {pool.slice(size), locate_read, 100};
    t.calls.queued(p, TimePoint{});
    return p;
  };
  PendingCall& small = with_sink(4095);
  t.due->sent(small);
  EXPECT_EQ(t.due->prefix_hint(), 0u);
  PendingCall& a = with_sink(4096);
  PendingCall& b = with_sink(65536);
  EXPECT_EQ(t.due->prefix_hint(), 0u) << "no reply before the call is sent";
  t.due->sent(a);
  t.due->sent(b);
  EXPECT_EQ(t.due->prefix_hint(), 100u);
  t.due->expect(a.xid);
  EXPECT_EQ(t.due->prefix_hint(), 100u);
  t.calls.remove(a);
  EXPECT_EQ(t.due->prefix_hint(), 100u) << "b is still due";
  t.due->forget(b);
  t.calls.remove(b);
  EXPECT_EQ(t.due->prefix_hint(), 0u);
  PendingCall& c = with_sink(65536);
  t.due->sent(c);
  t.lose_connection();
  EXPECT_EQ(t.due->prefix_hint(), 0u);
}

// Where the bulk item of a wrapped reply lies is known when it is verified: nothing is received in place.
TEST(DueReplies, WrappedReply_IsTakenWhole) {
  for (const Service service : {Service::kAuthentication, Service::kIntegrity, Service::kPrivacy}) {
    BufferPool pool;
    DueTable t(1);
    PendingCall& p = t.add();
    p.call->sink = {pool.slice(DueTable::kDirectMinBytes), locate_read, kReadDataOffset, nullptr};
    FakeSecurity security(service);
    p.call->head = call_head(security.header());
    ASSERT_TRUE(security.seal(*p.call));
    t.calls.queued(p, TimePoint{});
    t.due->sent(p);
    const bool clear = service == Service::kAuthentication;
    EXPECT_EQ(t.due->prefix_hint() != 0, clear);
    p.call->max_reply_bytes = 100;
    const Expected e = t.due->expect(p.xid);
    EXPECT_EQ(e.sink, clear ? &p.call->sink : nullptr);
    EXPECT_EQ(e.room, clear ? 0 : 100 + DueTable::kDirectMinBytes);
  }
}

}  // namespace
}  // namespace nfsrdma::test
