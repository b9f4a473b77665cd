// SPDX-License-Identifier: Apache-2.0
// A peer that makes requests and does not receive the replies: its credits limit what waits for it here;
// beyond that limit the connection ends.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/unit/rdma/support/rdma_rig.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::test {
namespace {

using namespace nfsrdma::rpcrdma;  // NOLINT: the tests use little else

// Upper bound of the bytes that two sockets hold between sender and receiver.
constexpr size_t kOnTheWay = 32u << 20;

class Bounds : public testing::TestWithParam<uint32_t> {
 protected:
  LoopThread loop;
  std::unique_ptr<fabric::Fabric> fabric;

  // Does not start the endpoint: until it is started, it receives and answers nothing.
  auto connect(const TestServer& server) {
    call_on(*loop, [&] {
      if (!fabric) fabric = fabric::iwarp::make_fabric(*loop);
    });
    fabric::ConnectOptions to;
    to.host = "127.0.0.1";
    to.port = server.port();
    to.endpoint = rdma::make_endpoint_options(16384, 64, {false, 4096, 4096});
    return run_on(*loop, fabric->connect(to));
  }

  static ByteVector message(uint32_t xid, ConstBytes body, const chunk_lists& chunks = {}) {
    header h;
    h.xid = xid;
    h.vers = GetParam();
    h.credit = 4;
    h.type = RDMA_MSG;
    h.chunks = chunks;
    ByteVector out;
    EXPECT_TRUE(encode(out, h));
    out.insert(out.end(), body.begin(), body.end());
    return out;
  }
  static ByteVector call(uint32_t xid) {
    ByteVector call = call_head();
    store_be32(call.data(), xid);
    return call;
  }
};

// RDMA Writes are not copied, but each one keeps its reply in memory.
TEST_P(Bounds, ClientThatTakesNoAnswers_CostsItsConnection) {
  constexpr size_t kData = 90'000;
  constexpr uint32_t kCalls = 3000;
  rdma::ResponderOptions options;
  options.credits = 4;
  options.max_call_bytes = 100'000;
  std::atomic<size_t> answered{0};
  std::atomic<size_t> most_unsent{0};
  const ByteVector data = pattern(kData, 1);
  TestServer server{*loop, options, [&](TestServer::Connection& c, ByteVector m) {
                      const rpc::BulkPlace place[] = {{kReadDataOffset, kData}};
                      c.responder->send(reply(xid_of(m), read_results(data)), place);
                      ++answered;
                      most_unsent = std::max<size_t>(most_unsent, c.responder->endpoint().unsent_bytes());
                    }};
  auto client = connect(server);
  ASSERT_TRUE(client);
  ByteVector memory(kData);
  call_on(*loop, [&] {  // never started: receives nothing
    const auto exposed = (*client)->expose(memory, fabric::Access::kRemoteWrite);
    ASSERT_TRUE(exposed);
    chunk_lists chunks;
    chunks.writes.add(*exposed);
    for (uint32_t i = 0; i < kCalls; ++i) {
      const ByteVector m = message(i, call(i), chunks);
      const ConstBytes parts[] = {m};
      (*client)->send(parts);
    }
  });
  EXPECT_TRUE(eventually([&] {
    return call_on(*loop, [&] { return !server.connections().empty() && server.connections()[0]->closed; });
  }));
  EXPECT_LT(answered * kData, kOnTheWay);
  EXPECT_LE(most_unsent, 5 * options.max_call_bytes + kData + 1000);
  call_on(*loop, [&] {
    EXPECT_NE(server.connections()[0]->reason.find("does not take the answers"), std::string::npos)
        << server.connections()[0]->reason;
    client->reset();
    fabric.reset();
  });
}

// An announcement costs nothing before the data comes: Read chunks of sixty megabytes, and not a single RDMA
// Read is answered.
TEST_P(Bounds, AnnouncedChunks_TakeMemoryAsTheyArrive) {
  constexpr size_t kData = 1u << 20;
  constexpr uint32_t kCalls = 60;
  TestServer server{*loop, {}, [](TestServer::Connection&, ByteVector) {}};
  auto client = connect(server);
  ASSERT_TRUE(client);
  ByteVector memory(kData);
  call_on(*loop, [&] {  // never started: answers nothing
    const auto exposed = (*client)->expose(memory, fabric::Access::kRemoteRead);
    ASSERT_TRUE(exposed);
    chunk_lists chunks;
    for (const segment& s : *exposed) chunks.reads.push_back({40, s});
    for (uint32_t i = 0; i < kCalls; ++i) {
      const ByteVector m = message(i, call(i), chunks);
      const ConstBytes parts[] = {m};
      (*client)->send(parts);
    }
  });
  const auto responder = [&]() -> rdma::Responder& { return *server.connections()[0]->responder; };
  ASSERT_TRUE(eventually([&] {
    return call_on(*loop,
                   [&] { return !server.connections().empty() && responder().counters().calls == kCalls; });
  }));
  call_on(*loop, [&] {
    EXPECT_EQ(responder().counters().read_chunks, kCalls);
    EXPECT_LE(responder().held_bytes(), rdma::Responder::kFirstWindow + 100) << "and what is before it";
    responder().look(Clock::now() + std::chrono::seconds(29));
    EXPECT_FALSE(server.connections()[0]->closed);
    responder().look(Clock::now() + std::chrono::seconds(31));
  });
  EXPECT_TRUE(eventually([&] { return call_on(*loop, [&] { return server.connections()[0]->closed; }); }));
  call_on(*loop, [&] {
    EXPECT_NE(server.connections()[0]->reason.find("does not answer RDMA Reads"), std::string::npos)
        << server.connections()[0]->reason;
    client->reset();
    fabric.reset();
  });
}

// A peer that answers is served, whatever it sends at once: at most max_fetch_bytes are being fetched.
TEST_P(Bounds, CallsBeingFetched_AreBoundedTogether) {
  constexpr size_t kData = 100'000;
  constexpr uint32_t kCalls = 40;
  rdma::ResponderOptions options;
  options.max_fetch_bytes = 250'000;
  std::atomic<size_t> answered{0};
  std::atomic<size_t> most{0};
  const ByteVector data = pattern(kData, 3);
  TestServer server{*loop, options, [&](TestServer::Connection& c, ByteVector m) {
                      most = std::max<size_t>(most, c.responder->held_bytes());
                      ASSERT_EQ(m.size(), call(0).size() + kData);
                      EXPECT_TRUE(std::equal(data.begin(), data.end(), m.end() - kData));
                      c.responder->send(reply(xid_of(m), {}));
                      ++answered;
                    }};
  auto client = connect(server);
  ASSERT_TRUE(client);
  Side side;
  ByteVector memory = data;
  call_on(*loop, [&] {
    side.endpoint = *std::move(client);
    side.endpoint->start(side);
    const auto exposed = side.endpoint->expose(memory, fabric::Access::kRemoteRead);
    ASSERT_TRUE(exposed);
    chunk_lists chunks;
    for (const segment& s : *exposed) chunks.reads.push_back({static_cast<uint32_t>(call(0).size()), s});
    for (uint32_t i = 0; i < kCalls; ++i) {
      const ByteVector m = message(i, call(i), chunks);
      const ConstBytes parts[] = {m};
      side.endpoint->send(parts);
    }
  });
  EXPECT_TRUE(eventually([&] { return answered == kCalls; }));
  EXPECT_LE(most, options.max_fetch_bytes);
  call_on(*loop, [&] {
    EXPECT_EQ(server.connections()[0]->responder->held_bytes(), 0u);
    side.endpoint.reset();
    fabric.reset();
  });
}

// Few credits before the peer is known as a client.
TEST_P(Bounds, FirstCredits_AreFew) {
  rdma::ResponderOptions options;
  options.credits = 8;
  options.first_credits = 2;
  TestServer server{*loop, options, [](TestServer::Connection& c, ByteVector m) {
                      if (xid_of(m) < 3) c.responder->send(reply(xid_of(m), {}));
                      if (xid_of(m) == 1) c.responder->full_credits();
                    }};
  const auto connect = [&](Side& side) {
    auto client = Bounds::connect(server);
    ASSERT_TRUE(client);
    call_on(*loop, [&] {
      side.endpoint = *std::move(client);
      side.endpoint->start(side);
    });
  };
  const auto send = [&](Side& side, uint32_t xid) {
    call_on(*loop, [&] {
      const ByteVector m = message(xid, call(xid));
      const ConstBytes parts[] = {m};
      side.endpoint->send(parts);
    });
  };
  const auto credit_of = [](const ByteVector& m) {
    header h;
    size_t length = 0;
    EXPECT_EQ(decode(m, h, &length), Defect::kNone);
    return h.credit;
  };
  Side known, stranger;
  connect(known);
  send(known, 1);
  ASSERT_TRUE(known.receives(1));
  EXPECT_EQ(credit_of(known.message(0)), 2u);
  send(known, 2);
  ASSERT_TRUE(known.receives(2));
  EXPECT_EQ(credit_of(known.message(1)), 8u);
  connect(stranger);
  for (uint32_t xid = 10; xid < 14; ++xid) send(stranger, xid);
  EXPECT_TRUE(stranger.disconnects()) << "more calls than credits";
  for (uint32_t xid = 10; xid < 18; ++xid) send(known, xid);
  send(known, 2);
  EXPECT_TRUE(known.receives(3)) << "as many as it was granted";
  call_on(*loop, [&] {
    known.endpoint.reset();
    stranger.endpoint.reset();
    fabric.reset();
  });
}

// The reverse direction: a server that sends calls and does not receive the replies.
TEST_P(Bounds, ServerThatTakesNoReplies_CostsItsConnection) {
  constexpr uint32_t kCalls = 20'000;
  LoopThread other;
  RawServer server{*other};
  std::barrier blocked(2);
  std::atomic<size_t> received{0};
  server.hook = [&](size_t connection, fabric::Received m) {
    if (received++ > 0) return;
    header h;
    size_t length = 0;
    (void)decode(m.message, h, &length);
    if (h.type == RDMA2_CONNPROP) {  // starts the call behind it
      received = 0;
      h.flags = RPCRDMA2_F_RESPONSE;
      ByteVector out;
      EXPECT_TRUE(encode(out, h));
      return server.send(connection, out);
    }
    for (uint32_t i = 0; i < kCalls; ++i) server.send(connection, message(i, call(i)));
    (*other).post([&] {  // everything that the socket accepts has been sent by now: from here on nothing is
                         // received
      (*other).post([&] {
        blocked.arrive_and_wait();
        blocked.arrive_and_wait();
      });
    });
  };
  std::atomic<size_t> answered{0};
  rpc::TransportHooks hooks;
  hooks.on_call = [&](rpc::RpcTransport&, ByteVector m) -> Task<ByteVector> {
    ++answered;
    co_return reply(xid_of(m), pattern(3900, 1));
  };
  Client client{*loop,
                quick_rdma(server.port(), GetParam() == 1 ? rdma::Versions::kOnly1 : rdma::Versions::kOnly2),
                std::move(hooks)};
  ASSERT_TRUE(client.start());
  auto outcome = client.call(plain_call());
  blocked.arrive_and_wait();
  EXPECT_TRUE(eventually([&] { return client.status().bad_messages > 0; }));
  blocked.arrive_and_wait();
  EXPECT_TRUE(server.side(0).disconnects());
  EXPECT_LT(answered * 3900, kOnTheWay);
  EXPECT_LT(answered, kCalls);
  client.close();
}

INSTANTIATE_TEST_SUITE_P(Versions, Bounds, testing::Values(1, 2),
                         [](const auto& v) { return v.param == 1 ? "One" : "Two"; });

}  // namespace
}  // namespace nfsrdma::test
