// SPDX-License-Identifier: Apache-2.0
// SendQueue and PendingCalls: the bytes sent are the bytes queued, however the kernel takes them.
#include "transport/tcp/send_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>

#include "tests/unit/transport/support/rpc_bytes.h"

namespace nfsrdma::test {
namespace {

using rpc::PendingCall;
using rpc::PendingCalls;
using tcp::SendQueue;

// A pending call and its parts.
struct Made {
  rpc::Call call;
  ByteVector bulk_bytes;
  std::unique_ptr<PendingCall> pending;

  Made(ByteVector head, const std::vector<std::pair<size_t, size_t>>& bulks, uint32_t seed) {
    call.head = std::move(head);
    size_t total = 0;
    for (const auto& [offset, size] : bulks) total += size;
    bulk_bytes = pattern(total, seed);
    size_t at = 0;
    for (const auto& [offset, size] : bulks) {
      call.bulks.push_back({0, ConstBytes(bulk_bytes).subspan(at, size), offset});
      at += size;
    }
    pending = std::make_unique<PendingCall>(call);
  }

  ByteVector message() const {
    ByteVector out;
    size_t at = 0;
    for (const xdr::Bulk& b : call.bulks) {
      out = concat({out, ConstBytes(call.head).subspan(at, b.inline_offset - at), b.data,
                    ByteVector(xdr_padding(b.data.size()))});
      at = b.inline_offset;
    }
    return concat({out, ConstBytes(call.head).subspan(at)});
  }
};

struct Observed final : SendQueue::Observer {
  std::vector<PendingCall*> first;
  std::vector<PendingCall*> last;
  void first_byte_sent(PendingCall& p) override { first.push_back(&p); }
  void last_byte_sent(PendingCall& p) override { last.push_back(&p); }
};

// Takes up to n bytes of what the queue offers in at most `pieces` pieces.
size_t take(SendQueue& q, Observed& o, size_t n, size_t pieces, ByteVector& out) {
  size_t taken = 0;
  for (const iovec& v : q.front(pieces)) {
    const size_t some = std::min(n - taken, v.iov_len);
    const auto* from = static_cast<const std::byte*>(v.iov_base);
    out.insert(out.end(), from, from + some);
    taken += some;
    if (taken == n) break;
  }
  q.advance(taken, o);
  return taken;
}

RC_GTEST_PROP(SendQueueProperty, AnyPartialWrites_RecordsInOrderWithEveryByte, ()) {
  const size_t fragment = *rc::gen::element<size_t>(0, 1, 5, 64, 1000);
  const size_t most = *rc::gen::element<size_t>(1, 3, 50, 5000);
  SendQueue q(fragment);
  Observed o;
  std::vector<std::unique_ptr<Made>> calls;
  std::vector<PendingCall*> order;
  ByteVector want;
  ByteVector got;
  const int steps = *rc::gen::inRange(1, 40);
  size_t replies = 0;
  for (int i = 0; i < steps; ++i) {
    switch (*rc::gen::inRange(0, 3)) {
      case 0: {
        const size_t head = *rc::gen::inRange<size_t>(2, 40) * 4;
        std::vector<std::pair<size_t, size_t>> bulks;
        size_t offset = 0;
        for (int b = *rc::gen::inRange(0, 3); b > 0; --b) {
          offset += *rc::gen::inRange<size_t>(0, (head - offset) / 4 + 1) * 4;
          bulks.emplace_back(offset, *rc::gen::inRange<size_t>(1, 300));
        }
        calls.push_back(std::make_unique<Made>(pattern(head, static_cast<uint32_t>(i)), bulks, 77));
        q.push(*calls.back()->pending);
        order.push_back(calls.back()->pending.get());
        want = concat({want, record(calls.back()->message(), fragment)});
        break;
      }
      case 1: {
        const ByteVector message = pattern(*rc::gen::inRange<size_t>(8, 200), 5);
        want = concat({want, record(message, fragment)});
        q.push(message);
        ++replies;
        break;
      }
      default: take(q, o, *rc::gen::inRange<size_t>(1, most + 1), *rc::gen::inRange<size_t>(1, 10), got);
    }
    RC_ASSERT(q.replies() <= replies);
  }
  while (!q.empty()) take(q, o, most, 7, got);
  RC_ASSERT(got == want);
  RC_ASSERT(o.first == order);
  RC_ASSERT(o.last == order);
  RC_ASSERT(q.replies() == 0u);
}

TEST(SendQueue, ForgottenBeforeItsFirstByte_NothingOfItLeaves) {
  SendQueue q(10);
  Observed o;
  Made a(pattern(40, 1), {{8, 5}}, 1);
  Made b(pattern(44, 2), {{0, 9}}, 2);
  Made c(pattern(48, 3), {}, 3);
  for (Made* m : {&a, &b, &c}) q.push(*m->pending);
  EXPECT_FALSE(q.forget(*b.pending));
  b.call.head.assign(b.call.head.size(), std::byte{0xdd});
  ByteVector got;
  while (!q.empty()) take(q, o, 7, 3, got);
  EXPECT_EQ(got, concat({record(a.message(), 10), record(c.message(), 10)}));
  EXPECT_EQ(o.last, (std::vector<PendingCall*>{a.pending.get(), c.pending.get()}));
}

TEST(SendQueue, ForgottenAtTheFront_NextRecordFollows) {
  SendQueue q(10);
  Observed o;
  Made a(pattern(40, 1), {{8, 5}}, 1);
  Made b(pattern(44, 2), {}, 2);
  q.push(*a.pending);
  q.push(*b.pending);
  q.forget(*a.pending);
  ByteVector got;
  while (!q.empty()) take(q, o, 9, 3, got);
  EXPECT_EQ(got, record(b.message(), 10));
  q.forget(*a.pending);  // not in the queue: nothing happens
  EXPECT_TRUE(q.empty());
}

// For every byte of the record: the rest is still sent, from memory that the queue has taken over.
TEST(SendQueue, ForgottenAfterAnyByte_RecordIsCompleted) {
  const size_t length = record(Made(pattern(40, 1), {{8, 5}}, 1).message(), 16).size();
  for (size_t sent = 1; sent < length; ++sent) {
    BufferPool pool;
    SendQueue q(16);
    Observed o;
    ByteVector got;
    ByteVector want;
    {
      Made a(pattern(40, 1), {}, 1);
      Slice item = pool.slice(5);
      std::fill(item.bytes.begin(), item.bytes.end(), std::byte{0x11});
      a.call.bulks.push_back({8, item.bytes, 8});
      a.call.keep.push_back(item);
      q.push(*a.pending);
      want = record(a.message(), 16);
      take(q, o, sent, 1, got);
      while (got.size() < sent) take(q, o, sent - got.size(), 1, got);
      EXPECT_TRUE(q.forget(*a.pending));
    }  // the call, its bytes and its reference are destroyed
    EXPECT_GT(pool.outstanding_bytes(), 0u) << "the queue keeps the item";
    Made b(pattern(20, 2), {}, 2);
    q.push(*b.pending);
    while (!q.empty()) take(q, o, 3, 2, got);
    EXPECT_EQ(got, concat({want, record(b.message(), 16)})) << sent;
    EXPECT_EQ(o.last, std::vector<PendingCall*>{b.pending.get()});
    EXPECT_EQ(pool.outstanding_bytes(), 0u);
  }
}

// The same for a sealed call: what leaves is the sealed message, and its bulk item may be the call's own.
TEST(SendQueue, SealedCallForgottenAfterAnyByte_RecordIsCompleted) {
  const ByteVector sealed_head = pattern(60, 6);
  const size_t length = 4 + 60 + 8;
  for (size_t sent = 1; sent < length; ++sent) {
    BufferPool pool;
    SendQueue q(0);
    Observed o;
    ByteVector got;
    {
      Made a(pattern(40, 1), {}, 1);
      const Slice item = pool.slice(8);
      std::fill(item.bytes.begin(), item.bytes.end(), std::byte{0x11});
      a.call.bulks.push_back({8, item.bytes, 8});
      a.call.keep.push_back(item);
      a.call.sealed = std::make_unique<rpc::MessageParts>();
      a.call.sealed->head = sealed_head;
      a.call.sealed->bulks.push_back({16, item.bytes, 16});
      q.push(*a.pending);
      while (got.size() < sent) take(q, o, sent - got.size(), 1, got);
      EXPECT_TRUE(q.forget(*a.pending));
      EXPECT_EQ(a.call.sealed, nullptr);
    }
    while (!q.empty()) take(q, o, 3, 2, got);
    const ConstBytes head = sealed_head;
    EXPECT_EQ(got, record(concat({head.first(16), ByteVector(8, std::byte{0x11}), head.subspan(16)})))
        << sent;
    EXPECT_EQ(pool.outstanding_bytes(), 0u);
  }
}

// ---------------------------------------------------------------------------------------------------------

struct PendingTable {
  PendingCalls calls;
  std::vector<std::unique_ptr<Made>> made;

  explicit PendingTable(uint32_t first) : calls(first) {}
  ~PendingTable() {
    while (calls.oldest() != nullptr) calls.remove(*calls.oldest());
  }
  PendingCall& add() {
    made.push_back(std::make_unique<Made>(call_head(), std::vector<std::pair<size_t, size_t>>{}, 0));
    calls.add(*made.back()->pending, TimePoint{});
    return *made.back()->pending;
  }
};

TEST(PendingCalls, Xid_IsInTheFirstFourBytesAndFindsTheCall) {
  PendingTable t(0xfffffffe);
  for (const uint32_t expected : {0xfffffffeu, 0xffffffffu, 0u, 1u}) {
    PendingCall& p = t.add();
    EXPECT_EQ(p.xid, expected);
    EXPECT_EQ(word_at(p.call->head, 0), expected);
    EXPECT_EQ(t.calls.find(expected), &p);
  }
  EXPECT_EQ(t.calls.find(2), nullptr);
  EXPECT_EQ(t.calls.find(0xfffffffe + 256), nullptr) << "same place in the table, another XID";
}

TEST(PendingCalls, OldCallInTheWay_ItsPlaceIsSkipped) {
  PendingTable t(0);
  PendingCall& old = t.add();
  for (int i = 0; i < 10'000; ++i) {
    PendingCall& p = t.add();
    ASSERT_NE(p.xid, old.xid);
    ASSERT_EQ(t.calls.find(p.xid), &p);
    t.calls.remove(p);
    ASSERT_EQ(t.calls.find(p.xid), nullptr);
  }
  EXPECT_EQ(t.calls.find(old.xid), &old);
  EXPECT_EQ(t.calls.size(), 1u);
}

TEST(PendingCalls, Thousands_AllFoundAndInOrderOfAge) {
  PendingTable t(123);
  for (int i = 0; i < 5000; ++i) t.add();
  EXPECT_EQ(t.calls.size(), 5000u);
  size_t i = 0;
  for (PendingCall* p = t.calls.oldest(); p != nullptr; p = p->newer, ++i) {
    ASSERT_EQ(p, t.made[i]->pending.get());
    ASSERT_EQ(t.calls.find(p->xid), p);
  }
  EXPECT_EQ(i, 5000u);
}

TEST(PendingCalls, ConnectionLost_EveryCallWaitsAgain) {
  PendingTable t(1);
  PendingCall& p = t.add();
  t.calls.queued(p, TimePoint{});
  p.mark = 7;
  t.calls.connection_lost();
  EXPECT_EQ(p.stage, PendingCall::Stage::kWaiting);
  EXPECT_EQ(p.mark, 0u);
}

}  // namespace
}  // namespace nfsrdma::test
