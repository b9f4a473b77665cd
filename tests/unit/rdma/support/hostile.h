// SPDX-License-Identifier: Apache-2.0
// The client's transport against a server that may send anything.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>

#include "tests/unit/rdma/support/rdma_rig.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::test {

using namespace nfsrdma::rpcrdma;  // NOLINT: the tests use little else
using rdma::Versions;

inline ByteVector encoded(const header& h, ConstBytes body = {}) {
  ByteVector out;
  EXPECT_TRUE(encode(out, h));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

inline header answer_to(const header& call) {
  header h;
  h.xid = call.xid;
  h.vers = call.vers;
  h.credit = 32;
  h.flags = call.vers == 2 ? RPCRDMA2_F_RESPONSE : 0;
  return h;
}

inline header error_to(const header& call, rpcrdma::error e) {
  header h = answer_to(call);
  h.type = RDMA_ERROR;
  h.error = e;
  return h;
}

// A server whose answer to each message is given by a test.
class Hostile : public testing::Test {
 protected:
  using Script = std::function<void(size_t connection, const header& in, size_t nth)>;

  LoopThread loop;
  RawServer server{*loop};
  std::shared_ptr<HandleAccount> account = std::make_shared<HandleAccount>();
  std::unique_ptr<Client> client;
  rpc::TransportHooks hooks;
  std::chrono::milliseconds negotiation_timeout = rdma::RdmaOptions{}.negotiation_timeout;
  std::atomic<size_t> messages{0};
  Script script;
  ConstBytes in_body;  // of the message for which the script is called

  Hostile() {
    server.hook = [this](size_t connection, fabric::Received received) {
      header in;
      size_t length = 0;
      decode(received.message, in, &length);
      in_body = received.message.subspan(length);
      script(connection, in, messages++);
    };
  }
  // Ignores later messages: members of the test are destroyed before the server.
  void TearDown() override {
    call_on(*loop, [this] { script = [](size_t, const header&, size_t) {}; });
  }
  ~Hostile() override {
    client.reset();
    // Whatever the server did: each handle was opened once, and closed once, by one side.
    EXPECT_EQ(account->offences(), std::vector<std::string>());
    EXPECT_EQ(account->open(), 0U);
  }

  void start(Versions versions, bool expect = true) {
    rdma::RdmaOptions options = quick_rdma(server.port(), versions);
    options.negotiation_timeout = negotiation_timeout;
    client = std::make_unique<Client>(*loop, options, hooks, account);
    const Result<> started = client->start();
    EXPECT_EQ(started.has_value(), expect) << (started ? "started" : describe(started.error()));
  }
  // Answers version 2's first message correctly.
  bool properties(size_t connection, const header& in) {
    if (in.type != RDMA2_CONNPROP) return false;
    header h = answer_to(in);
    h.type = RDMA2_CONNPROP;
    server.send(connection, encoded(h));
    return true;
  }
  // An inline reply that uses none of the offered chunks.
  void ok(size_t connection, const header& in, ConstBytes results = {}) {
    header h = answer_to(in);
    h.chunks = in.chunks;
    h.chunks.reads.clear();
    for (segment& s : h.chunks.reply) s.length = 0;
    for (size_t i = 0; i < h.chunks.writes.size(); ++i) {
      for (segment& s : h.chunks.writes[i]) s.length = 0;
    }
    server.send(connection, encoded(h, reply(in.xid, results)));
  }
  rpc::Call read_call(size_t size) {
    rpc::Call c = plain_call({}, 8);
    c.sink = {client->pool().slice(size), locate_read, kReadDataOffset, nullptr};
    return c;
  }
  rpc::Call write_call(size_t size) {
    rpc::Call c = plain_call(words({1}), 64);
    const Slice data = client->pool().slice(size);
    c.bulks = {{c.head.size(), data.bytes, c.head.size()}};
    c.keep = {data};
    return c;
  }
  int errno_of(rpc::Call call) {
    const rpc::Outcome outcome = client->call(std::move(call)).get();
    return outcome.reply ? 0 : outcome.reply.error().errnum;
  }
};

}  // namespace nfsrdma::test
