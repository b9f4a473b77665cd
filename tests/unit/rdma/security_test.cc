// SPDX-License-Identifier: Apache-2.0
// Calls with a CallSecurity over RPC-over-RDMA: no chunk carries a part of a wrapped message, and a call that
// is sent again after an RDMA_ERROR is sealed again.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <tuple>

#include "tests/unit/rdma/support/hostile.h"
#include "tests/unit/transport/support/fake_security.h"

namespace nfsrdma::test {
namespace {

constexpr const char* kServiceNames[] = {"", "Authentication", "Integrity", "Privacy"};

ByteVector results_behind(const rpc::Outcome& o) {
  EXPECT_TRUE(o.reply) << (o.reply ? "" : describe(o.reply.error()));
  if (!o.reply) return {};
  const ConstBytes head = o.reply->head;
  return {head.begin() + static_cast<ptrdiff_t>(o.reply->body), head.end()};
}

// Replies to sealed calls with their arguments or, with `read_bytes`, with the results of a READ. The first
// replies have the flaws of `flaws`.
struct SealedEcho {
  std::atomic<size_t> read_bytes{SIZE_MAX};
  std::vector<Flaw> flaws;  // on the loop
  std::vector<OpenedCall> calls;

  void operator()(TestServer::Connection& c, ByteVector message) {
    const auto call = open_call(message);
    ASSERT_TRUE(call) << "not a sealed call";
    calls.push_back(*call);
    Flaw flaw = Flaw::kNone;
    if (!flaws.empty()) {
      flaw = flaws.front();
      flaws.erase(flaws.begin());
    }
    if (read_bytes == SIZE_MAX) return c.responder->send(seal_reply(*call, call->arguments, flaw));
    const ByteVector data = pattern(read_bytes, flaw == Flaw::kNone ? 9 : 10);
    const size_t header = flaw == Flaw::kNoVerifier ? kReplyHeaderBytes : kSealedReplyHeaderBytes;
    const rpc::BulkPlace place[] = {{header + 8, data.size()}};
    const bool clear = call->service == Service::kAuthentication;
    c.responder->send(seal_reply(*call, read_results(data), flaw),
                      clear ? std::span<const rpc::BulkPlace>(place) : std::span<const rpc::BulkPlace>());
  }
};

class RdmaSecurity : public testing::TestWithParam<std::tuple<Versions, Service>> {
 protected:
  const Service service = std::get<1>(GetParam());
  const bool wraps = service != Service::kAuthentication;
  std::shared_ptr<FakeSecurity> security = std::make_shared<FakeSecurity>(service);
  SealedEcho echo;
  LoopThread loop;
  TestServer server{*loop, {}, [this](auto& c, ByteVector m) { echo(c, std::move(m)); }};
  Client client{*loop, quick_rdma(server.port(), std::get<0>(GetParam()))};

  rdma::ResponderCounters counters() {
    return call_on(*loop, [this] { return server.connections().back()->responder->counters(); });
  }
  rpc::Outcome call(rpc::Call c) { return client.call(FakeSecurity::protect(security, std::move(c))).get(); }
  rpc::Outcome read(Slice sink) {
    rpc::Call c = plain_call({}, 8);
    c.sink = {std::move(sink), locate_read, kReadDataOffset, nullptr};
    return call(std::move(c));
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, RdmaSecurity,
                         testing::Combine(testing::Values(Versions::kOnly1, Versions::kOnly2),
                                          testing::Values(Service::kAuthentication, Service::kIntegrity,
                                                          Service::kPrivacy)),
                         [](const auto& of) {
                           return std::string(std::get<0>(of.param) == Versions::kOnly1 ? "V1" : "V2") +
                                  kServiceNames[static_cast<size_t>(std::get<1>(of.param))];
                         });

TEST_P(RdmaSecurity, SmallMessages_GoInline) {
  ASSERT_TRUE(client.start());
  EXPECT_EQ(results_behind(call(plain_call(words({1, 2})))), words({1, 2}));
  EXPECT_EQ(counters().inline_calls, 1U);
  EXPECT_EQ(counters().inline_replies, 1U);
  EXPECT_EQ(security->opened, 1U);
}

// RFC 8166 section 8.2.2.3: "a sender MUST NOT reduce a Payload stream when RPCSEC_GSS integrity or
// encryption services are in use. Effectively, no data item is DDP-eligible in this situation, and Chunked
// Messages cannot be used."
TEST_P(RdmaSecurity, WriteData_IsAReadChunk_OrPartOfALongCall) {
  ASSERT_TRUE(client.start());
  for (const size_t size : {4096U, 4097U, 1'000'000U}) {
    SCOPED_TRACE(size);
    const Slice data = client.pool().slice(size);
    std::ranges::copy(pattern(size, 3), data.bytes.begin());
    rpc::Call c = plain_call(words({1, 2, 3}), size + 64);
    c.bulks = {{c.head.size() - 4, data.bytes, c.head.size() - 4}};
    c.keep = {data};
    const ByteVector arguments =
        concat({words({1, 2}), data.bytes, ByteVector(xdr_padding(size)), words({3})});
    EXPECT_TRUE(results_behind(call(std::move(c))) == arguments);
  }
  EXPECT_EQ(counters().read_chunks, wraps ? 0U : 3U);
  EXPECT_EQ(counters().long_calls, wraps ? 3U : 0U);
}

TEST_P(RdmaSecurity, ReadData_IsPlaced_OrCopiedFromALongReply) {
  ASSERT_TRUE(client.start());
  for (const size_t size : {4095U, 65536U, 1'000'000U}) {
    SCOPED_TRACE(size);
    echo.read_bytes = size;
    const Slice sink = client.pool().slice(1 << 20);
    const rpc::Outcome o = read(sink);
    EXPECT_EQ(results_behind(o), words({0, static_cast<uint32_t>(size)}));
    EXPECT_TRUE(o.reply->placed);
    EXPECT_EQ(o.reply->bulk_length, size);
    EXPECT_TRUE(std::ranges::equal(sink.bytes.first(size), pattern(size, 9)));
  }
  const uint64_t sum = 4095U + 65536 + 1'000'000;
  EXPECT_EQ(counters().write_chunks, wraps ? 0U : 3U);
  EXPECT_EQ(client.status().bytes_placed, wraps ? 0U : sum);
  EXPECT_EQ(client.status().bytes_copied, wraps ? sum : 0U);
}

// RFC 8166 section 8.2.2.3: "In this mode, an RPC-over-RDMA transport operates in the same manner as a
// transport that does not support DDP."
TEST_P(RdmaSecurity, SmallRead_ComesInline) {
  ASSERT_TRUE(client.start());
  echo.read_bytes = 100;
  const Slice sink = client.pool().slice(128);
  const rpc::Outcome o = read(sink);
  ASSERT_TRUE(o.reply) << describe(o.reply.error());
  EXPECT_EQ(counters().inline_replies, 1U);
  EXPECT_EQ(o.reply->placed, wraps) << "in the clear, the caller copies it";
  if (wraps) {
    EXPECT_TRUE(std::ranges::equal(sink.bytes.first(100), pattern(100, 9)));
  }
}

TEST_P(RdmaSecurity, ReplyThatDoesNotVerify_CostsTheConnection_AndItsDataIsOverwritten) {
  ASSERT_TRUE(client.start());
  std::vector<Flaw> flaws{Flaw::kVerifier, Flaw::kNoVerifier};
  if (wraps) flaws.push_back(Flaw::kData);
  for (const Flaw flaw : flaws) {
    SCOPED_TRACE(static_cast<int>(flaw));
    for (const size_t size : {100U, 60'000U}) {
      echo.read_bytes = size;
      call_on(*loop, [&] {
        echo.flaws = {flaw};
        echo.calls.clear();
      });
      const Slice sink = client.pool().slice(size);
      const rpc::Outcome o = read(sink);
      ASSERT_TRUE(o.reply) << describe(o.reply.error());
      EXPECT_EQ(o.transmissions, 2U);
      call_on(*loop, [&] {
        ASSERT_EQ(echo.calls.size(), 2U);
        EXPECT_EQ(echo.calls[0].xid, echo.calls[1].xid);
        EXPECT_LT(echo.calls[0].sequence, echo.calls[1].sequence);
      });
      if (o.reply->placed) {
        EXPECT_TRUE(std::ranges::equal(sink.bytes, pattern(size, 9)));
      }
    }
  }
}

// --- sent again on the same connection

class SealedAgain : public Hostile, public testing::WithParamInterface<Service> {
 protected:
  std::shared_ptr<FakeSecurity> security = std::make_shared<FakeSecurity>(GetParam());
  std::vector<OpenedCall> calls;

  // Answers the first call with `e`, and later calls with success. All of them are inline.
  void answer_first(rpcrdma::error e, Versions versions) {
    script = [this, e](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      const auto call = open_call(in_body);
      ASSERT_TRUE(call) << "not a sealed call";
      calls.push_back(*call);
      if (calls.size() == 1) return server.send(connection, encoded(error_to(in, e)));
      header h = answer_to(in);
      h.chunks = in.chunks;
      for (segment& s : h.chunks.reply) s.length = 0;
      server.send(connection, encoded(h, seal_reply(*call, words({8}))));
    };
    start(versions);
  }
  rpc::Outcome call() { return client->call(FakeSecurity::protect(security, plain_call(words({1})))).get(); }
};
INSTANTIATE_TEST_SUITE_P(Services, SealedAgain,
                         testing::Values(Service::kAuthentication, Service::kIntegrity, Service::kPrivacy),
                         [](const auto& of) { return kServiceNames[static_cast<size_t>(of.param)]; });

// RFC 2203 section 5.3.3.1: "each request and reply will have a unique sequence number." With version 1 the
// call also has a new XID (RFC 8267 section 3.1), which its verifier covers.
TEST_P(SealedAgain, AfterErrChunk_HasANewXidAndSequenceNumber) {
  answer_first({ERR_CHUNK, 0, 0}, Versions::kOnly1);
  const rpc::Outcome o = call();
  EXPECT_EQ(results_behind(o), words({8}));
  EXPECT_EQ(o.transmissions, 2U) << "the server may have executed each";
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_NE(calls[0].xid, calls[1].xid);
  EXPECT_EQ(calls[0].sequence, 1U);
  EXPECT_EQ(calls[1].sequence, 2U);
  EXPECT_EQ(calls[1].arguments, words({1}));
}

TEST_P(SealedAgain, AfterReplyResource_HasANewSequenceNumber) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 5000, 0}, Versions::kOnly2);
  EXPECT_EQ(results_behind(call()), words({8}));
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].xid, calls[1].xid);
  EXPECT_EQ(calls[0].sequence, 1U);
  EXPECT_EQ(calls[1].sequence, 2U);
}

TEST_P(SealedAgain, CallThatCannotBeSealedAgain_EndsAndGivesItsCreditBack) {
  security->seals_left = 1;
  answer_first({ERR_CHUNK, 0, 0}, Versions::kOnly1);
  const rpc::Outcome o = call();
  ASSERT_FALSE(o.reply);
  EXPECT_EQ(o.reply.error().errnum, EKEYEXPIRED);
  EXPECT_EQ(o.transmissions, 1U);
  EXPECT_EQ(calls.size(), 1U);
  security = std::make_shared<FakeSecurity>(GetParam());
  EXPECT_EQ(results_behind(call()), words({8}));
  EXPECT_EQ(client->status().rdma->credits_in_use, 0U);
  EXPECT_EQ(client->status().connects, 1U);
}

}  // namespace
}  // namespace nfsrdma::test
