// SPDX-License-Identifier: Apache-2.0
// The Connection Configuration Protocol (RFC 5666 section 6): client and server, each against bytes written
// by hand, and against each other.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/rdma_rig.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::test {
namespace {

using rdma::Versions;
using rpcrdma::header;

constexpr uint32_t kProgram = 100417;
constexpr uint32_t kProgUnavail = 1;

ByteVector message(uint32_t xid, ConstBytes rpc) {
  header h;
  h.xid = xid;
  h.vers = 1;
  h.credit = 32;
  ByteVector out;
  EXPECT_TRUE(encode(out, h));
  out.insert(out.end(), rpc.begin(), rpc.end());
  return out;
}

ByteVector conf_rdma_call(uint32_t xid, uint32_t version, uint32_t procedure, ConstBytes arguments) {
  return concat({words({xid, 0, 2, kProgram, version, procedure, 0, 0, 0, 0}), arguments});
}

// --- the client

// A server without private data that answers CONF_RDMA with `results` or with an accept_stat, and all other
// calls with success.
class ConfiguredClient : public testing::Test {
 protected:
  LoopThread loop;
  RawServer server{*loop, {false, 1024, 1024}};
  std::unique_ptr<Client> client;
  ByteVector results;
  uint32_t accept_stat = 0;
  ByteVector asked;  // the received call
  std::atomic<unsigned> calls{0};

  ConfiguredClient() {
    server.hook = [this](size_t connection, fabric::Received received) {
      header in;
      size_t length = 0;
      rpcrdma::decode(received.message, in, &length);
      const ConstBytes rpc = received.message.subspan(length);
      ++calls;
      if (word_at(rpc, 12) != kProgram) return server.send(connection, message(in.xid, reply(in.xid)));
      asked.assign(rpc.begin(), rpc.end());
      const ByteVector answer = concat({words({in.xid, 1, 0, 0, 0, accept_stat}), results});
      server.send(connection, message(in.xid, answer));
    };
  }
  ~ConfiguredClient() override { client.reset(); }

  Result<> start(Versions versions = Versions::kOnly1) {
    rdma::RdmaOptions options = quick_rdma(server.port(), versions);
    options.configuration_protocol = true;
    client = std::make_unique<Client>(*loop, options);
    return client->start();
  }
};

TEST_F(ConfiguredClient, Asks_WithItsOwnSizesAndReads) {
  results = words({4096, 4, 16});
  ASSERT_TRUE(start());
  EXPECT_EQ(asked, conf_rdma_call(xid_of(asked), 1, 1, words({4096, 4096, 64})));
}

// Section 6.2: "The server MAY return a maxcall_sendsize value that is smaller or larger than the client's
// request."
TEST_F(ConfiguredClient, Smaller_IsKeptTo) {
  results = words({2048, 4, 16});
  ASSERT_TRUE(start());
  EXPECT_EQ(client->status().rdma->inline_send, 2048U);
  EXPECT_EQ(client->status().rdma->inline_receive, 4096U);
}

TEST_F(ConfiguredClient, Larger_IsNotUsedBeyondWhatWasAsked) {
  results = words({65536, 4, 16});
  ASSERT_TRUE(start());
  EXPECT_EQ(client->status().rdma->inline_send, 4096U);
}

TEST_F(ConfiguredClient, ServerWithoutIt_IsTakenByItsPrivateData) {
  accept_stat = kProgUnavail;
  ASSERT_TRUE(start());
  EXPECT_EQ(client->status().rdma->inline_send, 1024U);
  EXPECT_TRUE(client->call(plain_call()).get().reply);
}

// Section 6.2: "If zero, the peer MUST NOT issue requests that require RDMA Read to satisfy, as no transfer
// will be possible."
TEST_F(ConfiguredClient, ServerThatCannotRead_IsNotUsed) {
  results = words({4096, 4, 0});
  const Result<> started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().recovery, Recovery::kPermanent);
}

TEST_F(ConfiguredClient, LessThanTheBasicLevel_IsNotUsed) {
  results = words({1023, 4, 16});
  EXPECT_FALSE(start());
}

TEST_F(ConfiguredClient, MalformedResults_AreNotUsed) {
  results = words({4096, 4});
  EXPECT_FALSE(start());
  results = words({4096, 4, 16, 0});
  EXPECT_FALSE(start());
}

TEST_F(ConfiguredClient, Default_DoesNotAsk) {
  client = std::make_unique<Client>(*loop, quick_rdma(server.port(), Versions::kOnly1));
  ASSERT_TRUE(client->start());
  EXPECT_TRUE(client->call(plain_call()).get().reply);
  EXPECT_EQ(calls, 1U);
}

// --- the server

class ConfiguredServer : public testing::Test {
 protected:
  LoopThread loop;
  std::unique_ptr<TestServer> server;
  std::unique_ptr<fabric::Fabric> fabric;
  Side side;

  void serve(bool configured) {
    rdma::ResponderOptions options;
    options.configuration_protocol = configured;
    options.receive_bytes = 8192;
    server = std::make_unique<TestServer>(*loop, options, [](TestServer::Connection& c, ByteVector m) {
      const uint32_t xid = xid_of(m);
      if (word_at(m, 12) == kProgram) return c.responder->send(words({xid, 1, 0, 0, 0, kProgUnavail}));
      c.responder->send(reply(xid, pattern(3000, 1)));
    });
    fabric = call_on(*loop, [this] { return fabric::iwarp::make_fabric(*loop); });
    fabric::ConnectOptions connect;
    connect.host = "127.0.0.1";
    connect.port = server->port();
    connect.endpoint.receive_bytes = 16384;  // no private data: the server may Send 1024 bytes
    auto endpoint = run_on(*loop, fabric->connect(connect));
    ASSERT_TRUE(endpoint);
    side.endpoint = *std::move(endpoint);
    call_on(*loop, [this] { side->start(side); });
  }
  ~ConfiguredServer() override {
    call_on(*loop, [this] {
      side.endpoint.reset();
      fabric.reset();
    });
  }
  // The reply to `rpc`; empty if the transport refuses the call.
  ByteVector ask(uint32_t xid, ConstBytes rpc) {
    const size_t before = side.received();
    const ByteVector call = message(xid, rpc);
    call_on(*loop, [&] {
      const ConstBytes parts[] = {call};
      side->send(parts);
    });
    EXPECT_TRUE(side.receives(before + 1));
    const ByteVector answer = side.message(before);
    header in;
    size_t length = 0;
    rpcrdma::decode(answer, in, &length);
    EXPECT_EQ(in.xid, xid);
    return {answer.begin() + static_cast<ptrdiff_t>(length), answer.end()};
  }
};

TEST_F(ConfiguredServer, Answers_WithWhatItTakes) {
  serve(true);
  const ByteVector answer = ask(7, conf_rdma_call(7, 1, 1, words({4096, 4096, 16})));
  EXPECT_EQ(answer, words({7, 1, 0, 0, 0, 0, 8192, 4, 64}));
}

// Section 6.2: "maxreply_sendsize is the maximum size of an inline RPC message that the client will accept".
TEST_F(ConfiguredServer, WhatTheClientTakes_CountsFromThenOn) {
  serve(true);
  const ByteVector call = concat({words({8}), ConstBytes(call_head()).subspan(4)});
  EXPECT_TRUE(ask(8, call).empty()) << "3000 bytes to a client that takes 1024";
  ask(9, conf_rdma_call(9, 1, 1, words({4096, 4096, 16})));
  EXPECT_EQ(ask(8, call), reply(8, pattern(3000, 1)));
}

TEST_F(ConfiguredServer, OtherCalls_AreRefusedByTheirFault) {
  serve(true);
  EXPECT_EQ(ask(1, conf_rdma_call(1, 2, 1, {})), words({1, 1, 0, 0, 0, 2, 1, 1}));    // PROG_MISMATCH
  EXPECT_EQ(ask(2, conf_rdma_call(2, 1, 2, {})), words({2, 1, 0, 0, 0, 3}));          // PROC_UNAVAIL
  EXPECT_EQ(ask(3, conf_rdma_call(3, 1, 1, words({1}))), words({3, 1, 0, 0, 0, 4}));  // GARBAGE_ARGS
  EXPECT_EQ(ask(4, conf_rdma_call(4, 1, 0, {})), words({4, 1, 0, 0, 0, 0}));          // NULL
}

TEST_F(ConfiguredServer, Default_LeavesItToTheUpperLayer) {
  serve(false);
  EXPECT_EQ(ask(5, conf_rdma_call(5, 1, 1, words({4096, 4096, 16}))), words({5, 1, 0, 0, 0, kProgUnavail}));
}

// --- both

TEST(Configuration, ClientAndServer_Agree) {
  LoopThread loop;
  rdma::ResponderOptions options;
  options.configuration_protocol = true;
  options.receive_bytes = 2048;
  TestServer server(*loop, options,
                    [](TestServer::Connection& c, ByteVector m) { c.responder->send(reply(xid_of(m))); });
  rdma::RdmaOptions ours = quick_rdma(server.port(), Versions::kOnly1);
  ours.configuration_protocol = true;
  Client client(*loop, ours);
  ASSERT_TRUE(client.start());
  EXPECT_TRUE(client.call(plain_call(pattern(3000, 2))).get().reply);
  EXPECT_EQ(client.status().rdma->inline_send, 2048U);
  EXPECT_EQ(client.status().rdma->long_calls, 1U);
}

}  // namespace
}  // namespace nfsrdma::test
