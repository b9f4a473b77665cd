// SPDX-License-Identifier: Apache-2.0
// Both ends over a fabric in which the test plays the adapter: it closes memory some time after the request,
// may have no window for it, and writes every byte of the peer.
#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_endpoint.h"
#include "tests/unit/transport/support/rpc_bytes.h"
#include "transport/rdma/connection.h"
#include "transport/rdma/responder.h"

namespace nfsrdma::test {
namespace {

using namespace nfsrdma::rpcrdma;  // NOLINT: the tests use little else
using rpc::PendingCall;

class OverAnAdapter : public testing::Test, public rpc::ConnectionOwner {
 protected:
  Loop loop;
  BufferPool pool;
  std::shared_ptr<fuzz::Wire> wire = std::make_shared<fuzz::Wire>(loop);
  rdma::RdmaOptions options;
  rpc::Counters counters;
  rdma::RdmaCounters rdma_counters;
  rpc::PendingCalls calls{1};
  std::shared_ptr<rdma::RdmaConnection> connection;
  std::vector<ByteVector> sent;
  std::vector<uint32_t> answered;  // XIDs
  std::vector<uint32_t> refused;
  bool dropped = false;

  OverAnAdapter() {
    wire->closes_later = true;
    wire->on_send = [this](ConstBytes message, uint32_t) {
      sent.emplace_back(message.begin(), message.end());
    };
    connection = std::make_shared<rdma::RdmaConnection>(loop, std::make_unique<fuzz::FuzzEndpoint>(wire),
                                                        *this, calls, counters, options, rdma_counters, pool);
    loop.spawn(agree(connection.get()));
    fuzz::settle(loop);
  }
  ~OverAnAdapter() override {
    if (!connection) return;
    connection->drop(fuzz::lost_error());
    fuzz::settle(loop);
    EXPECT_TRUE(dropped);
    connection.reset();
  }
  static Task<> agree(rdma::RdmaConnection* connection) { (void)co_await connection->agree(false); }

  rpc::Call write_call() {
    rpc::Call call;
    call.head = call_head(words({1}));
    call.max_reply_bytes = kReplyHeaderBytes + 64;
    const Slice data = pool.slice(8192);
    call.bulks = {{call.head.size(), data.bytes, call.head.size()}};
    call.keep = {data};
    return call;
  }
  void start(PendingCall& p) {
    calls.add(p, Clock::now());
    connection->send(p);
  }
  // Answers the last call that was sent.
  void answer(const rpcrdma::error* error, ConstBytes body = {}) {
    header h;
    size_t length = 0;
    ASSERT_EQ(decode(sent.back(), h, &length), Defect::kNone);
    h.chunks.clear();
    h.credit = 8;
    if (error != nullptr) h.type = RDMA_ERROR, h.error = *error;
    ByteVector message;
    ASSERT_TRUE(encode(message, h));
    message.insert(message.end(), body.begin(), body.end());
    wire->deliver(message);
  }

  void on_reply(rpc::Connection&, rpc::ReceivedReply reply) override {
    answered.push_back(reply.xid);
    if (PendingCall* p = calls.find(reply.xid)) calls.remove(*p);
  }
  void on_refused(rpc::Connection&, PendingCall& p, Error) override {
    refused.push_back(p.xid);
    calls.remove(p);
  }
  void on_call(rpc::Connection&, uint32_t, ByteVector) override {}
  void on_bad_message(rpc::Connection&, const BadMessage&) override {}
  void on_bytes_received() override {}
  void on_dropped(rpc::Connection&, Error) override { dropped = true; }
};

// RFC 8166 section 8.1.1: memory is inaccessible before its owner uses it again. This also holds for a call
// that is to be sent again when part of its memory could be opened and the rest could not.
TEST_F(OverAnAdapter, CallThatCannotBeSentAgain_EndsWhenItsMemoryIsClosed_AndOnce) {
  rpc::Call call = write_call();
  PendingCall p(call);
  start(p);
  ASSERT_EQ(wire->open.size(), 1U);
  wire->refuse_after = 1;  // the Read chunk is opened again, the longer Reply chunk is not
  wire->refuse_exposures = 1;
  const rpcrdma::error too_short{ERR_CHUNK, 0, 0};
  answer(&too_short);
  wire->complete_invalidation();
  EXPECT_EQ(sent.size(), 1U);
  ASSERT_TRUE(wire->invalidating());
  EXPECT_TRUE(refused.empty()) << "the peer can still reach its memory";
  wire->complete_invalidation();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_TRUE(wire->open.empty());
  EXPECT_EQ(rdma_counters.segments_open, 0U);
  EXPECT_EQ(rdma_counters.credits_in_use, 0U);

  // Two later calls do not disturb each other.
  rpc::Call a = write_call(), b = write_call();
  PendingCall pa(a), pb(b);
  for (PendingCall* next : {&pa, &pb}) {
    start(*next);
    answer(nullptr, reply(next->xid));
    wire->complete_invalidation();
  }
  EXPECT_EQ(answered, (std::vector<uint32_t>{pa.xid, pb.xid}));
  EXPECT_EQ(refused.size(), 1U);
}

// RFC 8166 section 3.3.2: no message is longer than the inline threshold. This also holds for the second
// message, which has a Reply chunk that the first did not have.
TEST_F(OverAnAdapter, CallThatJustFits_IsALongOneWhenAReplyChunkIsAskedFor) {
  rpc::Call call;
  const size_t most = rdma_counters.inline_send;
  call.head = call_head(pattern(most - kCallHeaderBytes - 28, 1));
  call.max_reply_bytes = kReplyHeaderBytes + 64;
  PendingCall p(call);
  start(p);
  ASSERT_EQ(sent.back().size(), most);
  const rpcrdma::error too_short{ERR_CHUNK, 0, 0};
  answer(&too_short);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_LE(sent.back().size(), most);
  EXPECT_EQ(word_at(sent.back(), 12), RDMA_NOMSG);
  connection->forget(p);
  calls.remove(p);
}

// A mount's loops share the limit of locked memory: calls of another loop may have all of it open.
TEST_F(OverAnAdapter, CallForWhichNoMemoryCanBeOpened_WaitsUntilOthersHaveClosedTheirs) {
  wire->refuse_exposures = 3;
  rpc::Call call = write_call();
  PendingCall p(call);
  start(p);
  EXPECT_TRUE(sent.empty());
  const TimePoint end = Clock::now() + std::chrono::seconds(30);
  while (sent.empty() && Clock::now() < end) fuzz::settle(loop);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_FALSE(dropped);
  answer(nullptr, reply(p.xid));
  wire->complete_invalidation();
  EXPECT_EQ(answered, std::vector<uint32_t>{p.xid});
}

TEST_F(OverAnAdapter, CallForWhichNoMemoryCanEverBeOpened_CostsTheConnection) {
  options.memory_patience = std::chrono::milliseconds(30);
  wire->refuse_exposures = UINT_MAX;
  rpc::Call call = write_call();
  PendingCall p(call);
  start(p);
  const TimePoint end = Clock::now() + std::chrono::seconds(30);
  while (!dropped && Clock::now() < end) fuzz::settle(loop);
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(sent.empty());
  calls.remove(p);
}

// A call with a chunk in both directions, of which only one can be opened. Opening and closing that one as
// fast as the device can would not help.
TEST_F(OverAnAdapter, CallOfWhichOnlyAPartCanEverBeOpened_CostsTheConnection_AndLittleElse) {
  options.memory_patience = std::chrono::milliseconds(100);
  wire->most_open = 1;
  rpc::Call call = write_call();
  call.max_reply_bytes = 20'000;
  PendingCall p(call);
  start(p);
  size_t tried = 0;
  const TimePoint end = Clock::now() + std::chrono::seconds(3);
  while (!dropped && Clock::now() < end) {
    tried += wire->invalidating() ? 1 : 0;
    wire->complete_invalidation();
    fuzz::settle(loop);
  }
  EXPECT_TRUE(dropped);
  EXPECT_GE(tried, 2U);
  EXPECT_LE(tried, 11U) << "one each 10 ms";
  EXPECT_TRUE(sent.empty());
  calls.remove(p);
}

TEST_F(OverAnAdapter, CallOfWhichAPartCanBeOpened_IsSentWhenAnotherCallHasEnded) {
  rpc::Call before = write_call(), other = write_call(), call = write_call();
  PendingCall granted(before), first(other), second(call);
  start(granted);
  answer(nullptr, reply(granted.xid));  // more than one credit, from now on
  wire->complete_invalidation();
  sent.clear();
  answered.clear();
  wire->most_open = 2;
  call.max_reply_bytes = 20'000;
  start(first);
  ASSERT_EQ(sent.size(), 1U);
  start(second);
  EXPECT_TRUE(wire->invalidating());
  wire->complete_invalidation();
  EXPECT_FALSE(wire->invalidating()) << "it was tried again, and nothing had changed";
  EXPECT_EQ(sent.size(), 1U);
  answer(nullptr, reply(first.xid));
  wire->complete_invalidation();
  EXPECT_EQ(answered, std::vector<uint32_t>{first.xid});
  ASSERT_EQ(sent.size(), 2U);
  answer(nullptr, reply(second.xid));
  wire->complete_invalidation();
  EXPECT_EQ(answered, (std::vector<uint32_t>{first.xid, second.xid}));
}

// The next user of the buffer must have it alone.
TEST_F(OverAnAdapter, ConnectionThatGoesWithACallUnderWay_KeepsItsMemoryUntilTheEndpointIsGone) {
  rpc::Call call;
  call.head = call_head(words({1}));
  call.max_reply_bytes = 20'000;
  PendingCall p(call);
  start(p);
  ASSERT_EQ(wire->open.size(), 1U);
  size_t held = 0;
  wire->on_gone = [&] { held = pool.outstanding_bytes(); };
  connection.reset();
  ASSERT_TRUE(wire->gone);
  EXPECT_GT(held, 0U) << "it went back to the pool while it was open";
  EXPECT_EQ(pool.outstanding_bytes(), 0U);
  calls.remove(p);
}

class AnsweringOverAnAdapter : public testing::TestWithParam<uint32_t>, public rdma::ResponderEvents {
 protected:
  Loop loop;
  std::shared_ptr<fuzz::Wire> wire = std::make_shared<fuzz::Wire>(loop);
  rdma::Responder responder{std::make_unique<fuzz::FuzzEndpoint>(wire), {}, *this};
  std::vector<ByteVector> sent;
  size_t messages = 0;

  AnsweringOverAnAdapter() {
    wire->on_send = [this](ConstBytes message, uint32_t) {
      sent.emplace_back(message.begin(), message.end());
    };
    wire->on_write = [](const segment&, ConstBytes) {};
    responder.start();
  }
  // In version 1 the client sent no private data, which means 1024 bytes.
  void take_1024_bytes() {
    if (GetParam() == kVersion1) return;
    header h;
    h.vers = kVersion2;
    h.type = RDMA2_CONNPROP;
    h.properties.receive_buffer_bytes = 1024;
    deliver(h, {});
    sent.clear();
  }
  void call(size_t segments) {
    header h;
    h.xid = 7;
    h.vers = GetParam();
    h.chunks.has_reply = true;
    h.chunks.reply.assign(segments, {1, 100, 0});
    ByteVector body = call_head();
    store_be32(body.data(), h.xid);
    deliver(h, body);
  }
  void deliver(const header& h, ConstBytes body) {
    ByteVector message;
    ASSERT_TRUE(encode(message, h));
    message.insert(message.end(), body.begin(), body.end());
    wire->deliver(message);
  }
  header last_sent() {
    header h;
    size_t length = 0;
    EXPECT_EQ(decode(sent.back(), h, &length), Defect::kNone);
    return h;
  }

  void on_message(ByteVector) override { ++messages; }
  void on_closed(const Error&) override {}
};
INSTANTIATE_TEST_SUITE_P(Versions, AnsweringOverAnAdapter, testing::Values(kVersion1, kVersion2));

// The reply returns the Write list and the Reply chunk (RFC 8166 section 4.3). A call is not executed if the
// header of its reply would be too long for the client.
TEST_P(AnsweringOverAnAdapter, ChunksThatNoReplyCouldGiveBack_AreRefused) {
  take_1024_bytes();
  call(64);
  EXPECT_EQ(messages, 0U);
  ASSERT_EQ(sent.size(), 1U);
  const rpcrdma::error refusal = last_sent().error;
  if (GetParam() == kVersion1) {
    EXPECT_EQ(refusal, (rpcrdma::error{ERR_CHUNK, 0, 0}));
    return;
  }
  // Draft section 5.3.3: the error contains the maximum.
  EXPECT_EQ(refusal.code, RDMA2_ERR_SEGMENTS);
  call(refusal.first);
  EXPECT_EQ(messages, 1U);
  responder.send(reply(7, pattern(2000, 1)));
  EXPECT_EQ(last_sent().type, RDMA_NOMSG);
  EXPECT_LE(sent.back().size(), 1024U);
}

// Draft section 5.3.4 lets a client announce its receive size while a call is being executed.
class PropertiesOverAnAdapter : public AnsweringOverAnAdapter {};
INSTANTIATE_TEST_SUITE_P(Version2, PropertiesOverAnAdapter, testing::Values(kVersion2));

TEST_P(PropertiesOverAnAdapter, ClientThatTakesLessThanWhenItCalled_IsNotSentMore) {
  call(64);
  ASSERT_EQ(messages, 1U);
  take_1024_bytes();
  responder.send(reply(7, pattern(40, 1)));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(last_sent().type, RDMA_ERROR);
}

}  // namespace
}  // namespace nfsrdma::test
