// SPDX-License-Identifier: Apache-2.0
// Calls and replies between the client's transport and a Responder, in each version: data arrives as it was
// sent, by each path.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/unit/rdma/support/rdma_rig.h"
#include "transport/net/server_address.h"

namespace nfsrdma::test {
namespace {

using rdma::Versions;

// Replies to each call with its arguments or, with `read_bytes`, with the results of a READ of that length.
struct Echo {
  std::atomic<size_t> read_bytes{SIZE_MAX};
  void operator()(TestServer::Connection& c, ByteVector message) const {
    const uint32_t xid = xid_of(message);
    const ConstBytes arguments = ConstBytes(message).subspan(kCallHeaderBytes);
    if (read_bytes == SIZE_MAX) return c.responder->send(reply(xid, arguments));
    const ByteVector data = pattern(read_bytes, xid);
    const rpc::BulkPlace place[] = {{kReadDataOffset, data.size()}};
    c.responder->send(reply(xid, read_results(data)), place);
  }
};

class Exchange : public testing::TestWithParam<Versions> {
 protected:
  Echo echo;
  LoopThread loop;
  TestServer server{*loop, {}, [this](auto& c, ByteVector m) { echo(c, std::move(m)); }};
  Client client{*loop, quick_rdma(server.port(), GetParam())};

  ByteVector results(const rpc::Outcome& outcome) {
    EXPECT_TRUE(outcome.reply) << describe(outcome.reply.error());
    if (!outcome.reply) return {};
    const ConstBytes head = outcome.reply->head;
    return {head.begin() + static_cast<ptrdiff_t>(outcome.reply->body), head.end()};
  }
  rdma::ResponderCounters counters() {
    return call_on(*loop, [this] { return server.connections().back()->responder->counters(); });
  }
  rpc::Outcome read(Slice destination) {
    rpc::Call c = plain_call({}, 8);
    c.sink = {std::move(destination), locate_read, kReadDataOffset, nullptr};
    return client.call(std::move(c)).get();
  }
};

TEST_P(Exchange, Version_IsTheOneAskedFor) {
  ASSERT_TRUE(client.start());
  client.call(plain_call()).get();
  call_on(*loop, [&] {
    EXPECT_EQ(server.connections().back()->responder->version(), GetParam() == Versions::kOnly1 ? 1U : 2U);
  });
}

TEST_P(Exchange, SmallMessages_GoInline) {
  ASSERT_TRUE(client.start());
  const ByteVector arguments = pattern(400, 1);
  EXPECT_EQ(results(client.call(plain_call(arguments, 400)).get()), arguments);
  EXPECT_EQ(counters().inline_calls, 1U);
  EXPECT_EQ(counters().inline_replies, 1U);
}

TEST_P(Exchange, LongCall_IsFetchedAsAWhole) {
  ASSERT_TRUE(client.start());
  const ByteVector arguments = pattern(50'000, 2);
  EXPECT_EQ(results(client.call(plain_call(arguments, 50'000)).get()), arguments);
  EXPECT_EQ(counters().long_calls, 1U);
  EXPECT_EQ(counters().reply_chunks, 1U);
}

TEST_P(Exchange, WriteData_IsFetchedFromWhereItLies) {
  ASSERT_TRUE(client.start());
  for (const size_t size : {4096U, 4097U, 4099U, 1'000'000U}) {
    SCOPED_TRACE(size);
    Slice data = client.pool().slice(size);
    const ByteVector bytes = pattern(size, 3);
    std::copy(bytes.begin(), bytes.end(), data.bytes.begin());
    ByteVector before = pattern(40, 4);
    ByteVector after = pattern(8, 5);
    rpc::Call c = plain_call(concat({before, after}), size + 64);
    c.bulks = {{c.head.size() - after.size(), data.bytes, c.head.size() - after.size()}};
    c.keep = {data};
    const ByteVector whole = concat({before, bytes, ByteVector(xdr_padding(size)), after});
    EXPECT_EQ(results(client.call(std::move(c)).get()), whole);
  }
  EXPECT_EQ(counters().read_chunks, 4U);
}

TEST_P(Exchange, ReadData_IsPlacedInTheSink) {
  ASSERT_TRUE(client.start());
  for (const size_t size : {1U, 4095U, 65536U, 1'000'000U}) {
    SCOPED_TRACE(size);
    echo.read_bytes = size;
    const Slice sink = client.pool().slice(1 << 20);
    const rpc::Outcome outcome = read(sink);
    ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
    EXPECT_TRUE(outcome.reply->placed);
    EXPECT_EQ(outcome.reply->bulk_length, size);
    const ByteVector expected = pattern(size, xid_of(outcome.reply->head));
    EXPECT_TRUE(std::ranges::equal(sink.bytes.first(size), expected));
  }
  EXPECT_EQ(counters().write_chunks, 4U);
  EXPECT_EQ(client.status().bytes_placed, 1U + 4095 + 65536 + 1'000'000);
}

// RFC 8166 section 4.3.2: an item of zero length uses no chunk.
TEST_P(Exchange, ReadAtTheEnd_BringsNothing) {
  ASSERT_TRUE(client.start());
  echo.read_bytes = 0;
  const rpc::Outcome outcome = read(client.pool().slice(65536));
  ASSERT_TRUE(outcome.reply);
  EXPECT_FALSE(outcome.reply->placed);
  EXPECT_EQ(word_at(outcome.reply->head, kReplyHeaderBytes + 4), 0U);
}

TEST_P(Exchange, SmallRead_ComesInline) {
  ASSERT_TRUE(client.start());
  echo.read_bytes = 100;
  const rpc::Outcome outcome = read(client.pool().slice(512));
  ASSERT_TRUE(outcome.reply);
  EXPECT_FALSE(outcome.reply->placed);
  EXPECT_EQ(counters().write_chunks, 0U);
}

TEST_P(Exchange, ManyAtOnce_AllComeBack) {
  ASSERT_TRUE(client.start());
  std::vector<std::future<rpc::Outcome>> calls;
  for (uint32_t i = 0; i < 500; ++i)
    calls.push_back(client.call(plain_call(pattern(100 + 40 * (i % 7), i), 400)));
  for (uint32_t i = 0; i < 500; ++i) EXPECT_EQ(results(calls[i].get()), pattern(100 + 40 * (i % 7), i));
}

TEST_P(Exchange, RemoteInvalidation_Happens) {
  ASSERT_TRUE(client.start());
  echo.read_bytes = 65536;
  ASSERT_TRUE(read(client.pool().slice(65536)).reply);
  EXPECT_EQ(counters().invalidated, 1U);
}

TEST_P(Exchange, ConnectionLost_PendingCallsAreSentAgain) {
  ASSERT_TRUE(client.start());
  std::atomic<bool> lost = false;
  LoopThread other;
  TestServer forgetful{*other, {}, [&](auto& c, ByteVector m) {
                         if (!lost.exchange(true)) return c.responder->close({});
                         echo(c, std::move(m));
                       }};
  Client stubborn{*loop, quick_rdma(forgetful.port(), GetParam())};
  ASSERT_TRUE(stubborn.start());
  const rpc::Outcome outcome = stubborn.call(plain_call(pattern(100, 9), 100)).get();
  EXPECT_EQ(results(outcome), pattern(100, 9));
  EXPECT_EQ(outcome.transmissions, 2U);
}

// The back channel (RFC 8167): calls of the server, whose XIDs may be equal to those of our own calls.
TEST_P(Exchange, ServersCall_IsAnsweredOnTheSameConnection) {
  std::atomic<size_t> answered = 0;
  LoopThread other;
  TestServer calling{*other, {}, [&](TestServer::Connection& c, ByteVector m) {
                       if (word_at(m, 4) == 1) {
                         ++answered;
                         return;
                       }
                       ByteVector call = call_head(pattern(16, 1));
                       store_be32(call.data(), xid_of(m));  // the same XID, in the other direction
                       c.responder->send(std::move(call));
                       c.responder->send(reply(xid_of(m), pattern(8, 2)));
                     }};
  rpc::TransportHooks hooks;
  hooks.on_call = [](rpc::RpcTransport&, ByteVector call) -> Task<ByteVector> {
    co_return reply(xid_of(call));
  };
  Client called{*loop, quick_rdma(calling.port(), GetParam()), std::move(hooks)};
  ASSERT_TRUE(called.start());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(results(called.call(plain_call()).get()), pattern(8, 2));
  EXPECT_TRUE(eventually([&] { return answered == 20; }));
}

std::string name_of_versions(const testing::TestParamInfo<Versions>& version) {
  return version.param == Versions::kOnly1 ? "One" : "Two";
}

INSTANTIATE_TEST_SUITE_P(Versions, Exchange, testing::Values(Versions::kOnly1, Versions::kOnly2),
                         name_of_versions);

// --- the connections of a mount, and the status of one

// The first connection looks up the name and stores the address; the others connect to that address.
TEST(Following, Connection_GoesWhereTheFirstWent) {
  LoopThread loop;
  TestServer server{*loop, {}, [](auto&, ByteVector) {}};
  const auto address = std::make_shared<net::ServerAddress>();
  rdma::RdmaOptions options = quick_rdma(server.port());
  options.address = address;
  rdma::RdmaOptions following = options;
  following.host = "nobody.invalid";
  following.follows = true;
  Client second{*loop, following};
  EXPECT_EQ(second.start().error().errnum, EHOSTUNREACH) << "the first connection is not made yet";
  Client first{*loop, options};
  ASSERT_TRUE(first.start());
  ASSERT_TRUE(address->get());
  EXPECT_EQ(net::to_string(*address->get()), first.status().peer);
  ASSERT_TRUE(second.start());
  EXPECT_EQ(second.status().peer, first.status().peer);
}

// If another transport can be tried, the first connection has a short timeout; later ones have not.
TEST(Following, SilentPort_IsLeftAfterTheFirstTimeout) {
  LoopThread loop;
  const net::Socket listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(::listen(listening.get(), 4), 0);
  rdma::RdmaOptions options = quick_rdma(net::local_endpoint(listening.get())->port());
  options.connect_timeout = std::chrono::minutes(1);
  options.first_connect_timeout = std::chrono::milliseconds(100);
  Client client{*loop, options};
  const TimePoint before = Clock::now();
  const Result<> started = client.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().errnum, ETIMEDOUT) << describe(started.error());
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(30));
}

TEST_P(Exchange, Status_NamesTheTermsOfTheConnection) {
  EXPECT_EQ(client.status().rdma->version, 0U);
  ASSERT_TRUE(client.start());
  client.call(plain_call()).get();
  const rdma::RdmaStatus s = *client.status().rdma;
  EXPECT_EQ(s.fabric, "software RDMA");
  EXPECT_EQ(s.version, GetParam() == Versions::kOnly1 ? 1U : 2U);
  EXPECT_EQ(s.version_reason, "");
  EXPECT_EQ(s.credits_asked, rdma::RdmaOptions{}.credits);
  EXPECT_EQ(s.credits_granted, rdma::ResponderOptions{}.credits);
  EXPECT_EQ(s.credits_in_use, 0U);
  EXPECT_EQ(s.inline_send, 4096U);
  EXPECT_EQ(s.inline_receive, 4096U);
  EXPECT_EQ(s.exposure, "fenced");
  EXPECT_TRUE(s.remote_invalidation);
  client.close();
  EXPECT_EQ(client.status().rdma->version, 0U);
  EXPECT_EQ(client.status().rdma->credits_granted, 0U);
}

// A READ's data is placed, or the status says why not.
TEST_P(Exchange, Status_SaysWhyAReadWasNotPlaced) {
  ASSERT_TRUE(client.start());
  echo.read_bytes = 100;
  read(client.pool().slice(100));
  EXPECT_EQ(client.status().rdma->reads_inline, 1U);
  echo.read_bytes = 50'000;
  read(client.pool().slice(50'000));
  EXPECT_EQ(client.status().rdma->write_chunks, 1U);
  EXPECT_EQ(client.status().rdma->bytes_placed, 50'000U);
  echo.read_bytes = 0;
  read(client.pool().slice(50'000));
  const rdma::RdmaStatus s = *client.status().rdma;
  EXPECT_EQ(s.reads_inline + s.reads_long + s.reads_chunk_unused, 1U) << "there was no data to be placed";
}

}  // namespace
}  // namespace nfsrdma::test
