// SPDX-License-Identifier: Apache-2.0
// The credits of the reverse direction (RFC 8167 section 4.1): the Responder's calls respect the client's
// grant, the client grants as many as it has Receives for, and neither direction uses the values of the
// other.
#include <gtest/gtest.h>

#include <list>

#include "tests/unit/rdma/support/hostile.h"
#include "tests/unit/rdma/support/raw_client.h"
#include "transport/rpc/client_transport.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::test {
namespace {

constexpr uint32_t kAskedFor = 6;  // requested by the Responder for its calls
constexpr uint32_t kFirstXid = 0x5000;

// --- the Responder's calls

class ServersCalls : public RawClientOfBoth {
 protected:
  size_t forward_ = 0;   // calls of ours
  size_t replies_ = 0;   // ours, to calls of the server
  uint32_t posted_ = 0;  // calls of the server

  rdma::ResponderOptions options() const override {
    rdma::ResponderOptions o = RawClient::options();
    o.callback_credits = kAskedFor;
    return o;
  }
  void answer(TestServer::Connection& c, const ByteVector& message) override {
    if (word_at(message, 4) == 0) RawClient::answer(c, message);
  }
  void SetUp() override {
    RawClient::SetUp();
    settle(8);  // the version is known after this
  }
  // Gives the server that many more calls to make.
  void post(uint32_t n) {
    call_on(*loop, [&] {
      for (uint32_t i = 0; i < n; ++i) {
        ByteVector call = call_head(pattern(16, i));
        store_be32(call.data(), kFirstXid + posted_++);
        server->connections().back()->responder->send(std::move(call));
      }
    });
  }
  // Makes a call and receives its reply: everything that the server sent before has arrived then.
  void settle(uint32_t credit) {
    const size_t before = of_type(1).size();
    header h = header_of(vers(), static_cast<uint32_t>(++forward_));
    h.credit = credit;
    send(h, rpc_call(h.xid));
    ASSERT_TRUE(eventually([&] { return of_type(1).size() > before; }));
    EXPECT_EQ(of_type(1).back().credit, kCreditsGranted) << "whatever is asked for";
  }
  // Received messages by the type of the RPC message: 0 calls, 1 replies.
  std::vector<header> of_type(uint32_t direction) {
    std::vector<header> found;
    for (size_t i = 0; i < client.received(); ++i) {
      const ByteVector message = client.message(i);
      header h;
      size_t length = 0;
      EXPECT_EQ(decode(message, h, &length), Defect::kNone);
      if (h.type == RDMA_MSG && word_at(message, length + 4) == direction) found.push_back(h);
    }
    return found;
  }
  // How many calls of the server have arrived and have no reply yet.
  size_t outstanding() {
    settle(8);
    return of_type(0).size() - replies_;
  }
  // Replies to the oldest of them.
  void grant(uint32_t credit) {
    header h = header_of(vers(), kFirstXid + static_cast<uint32_t>(replies_++));
    h.credit = credit;
    h.flags = vers() == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
    send(h, reply(h.xid));
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, ServersCalls, testing::Values(kVersion1, kVersion2));

// RFC 8167 section 5.1: "The number of requested reverse-direction credits is placed in the rdma_credit
// field".
TEST_P(ServersCalls, SayWhatIsAskedFor) {
  post(1);
  EXPECT_EQ(outstanding(), 1U);
  EXPECT_EQ(of_type(0).front().credit, kAskedFor);
}

// "RPC-over-RDMA credits work the same way in the reverse direction as they do in the forward direction."
TEST_P(ServersCalls, BeforeTheFirstGrant_OneIsOut) {
  post(10);
  EXPECT_EQ(outstanding(), 1U);
}

TEST_P(ServersCalls, AreNeverMoreThanWasGranted) {
  post(30);
  EXPECT_EQ(outstanding(), 1U);
  for (const uint32_t credit : {3U, 3U, 5U, 5U, 5U, 2U, 2U, 2U, 2U, 4U, 1U, 1U}) {
    const size_t before = outstanding();
    grant(credit);
    // Calls already sent are not taken back.
    EXPECT_EQ(outstanding(), std::max<size_t>(before - 1, credit)) << credit;
  }
}

// "The granted value MUST NOT be zero, since such a value would result in deadlock" (RFC 8166 section 3.3.1),
// and "the lower of the current requested and granted credit values" counts.
TEST_P(ServersCalls, GrantsOfZeroAndOfFourBillion_AreTakenForWhatMakesSense) {
  post(30);
  grant(0);
  EXPECT_EQ(outstanding(), 1U);
  grant(UINT32_MAX);
  EXPECT_EQ(outstanding(), kAskedFor);
  for (size_t left = kAskedFor; left > 1; --left) {
    grant(0);
    EXPECT_EQ(outstanding(), left - 1);
  }
  grant(0);
  EXPECT_EQ(outstanding(), 1U);
}

// "forward-direction credits and reverse-direction credits on the same connection are accounted separately"
TEST_P(ServersCalls, AreNotGrantedByCallsOfTheClient) {
  post(10);
  for (const uint32_t credit : {0U, 1U, 9U, UINT32_MAX}) {
    settle(credit);
    EXPECT_EQ(outstanding(), 1U) << credit;
  }
}

// A refused call is over, like one with a reply; an error of version 2 grants nothing.
TEST_P(ServersCalls, AnError_GivesTheCreditBack) {
  post(10);
  grant(2);
  EXPECT_EQ(outstanding(), 2U);
  header h = header_of(vers(), kFirstXid + static_cast<uint32_t>(replies_++), RDMA_ERROR);
  h.credit = 9;
  h.flags = vers() == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
  h.error = {ERR_CHUNK, 0, 0};
  send(h);
  EXPECT_EQ(outstanding(), 2U);
}

// Replies to no call do not add credits.
TEST_P(ServersCalls, RepliesToNothing_AreNotCounted) {
  for (uint32_t i = 0; i < 5; ++i) grant(3);
  settle(8);
  replies_ = 0;
  post(10);
  EXPECT_EQ(outstanding(), 3U);
}

// --- the client's grants

class ClientsGrants : public Hostile, public testing::WithParamInterface<uint32_t> {
 protected:
  const uint32_t granted_ = rdma::RdmaOptions{}.callback_credits;
  static constexpr uint32_t kForward = 7;  // granted to our calls

  bool hold_ = false;                    // callbacks get no reply yet
  std::list<Completion<bool>> waiting_;  // those callbacks
  std::atomic<size_t> held_{0};          // their number
  std::vector<header> answers_;          // to calls of the server
  std::atomic<size_t> answered_{0};
  std::optional<std::vector<header>> unanswered_;  // calls of ours that have to wait

  ~ClientsGrants() override { release(); }
  void release() {
    call_on(*loop, [this] {
      hold_ = false;
      for (Completion<bool>& c : waiting_) c.set(true);
    });
    EXPECT_TRUE(eventually([this] { return held_ == 0; }));
    call_on(*loop, [this] { waiting_.clear(); });
  }
  Task<ByteVector> called(ByteVector call) {
    if (hold_) {
      ++held_;
      co_await waiting_.emplace_back().wait();
      --held_;
    }
    co_return reply(xid_of(call));
  }
  void serve() {
    hooks.on_call = [this](rpc::RpcTransport&, ByteVector call) { return called(std::move(call)); };
    script = [this](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      if (word_at(in_body, 4) == 1) {
        answers_.push_back(in);
        return void(++answered_);
      }
      if (unanswered_) return unanswered_->push_back(in);
      answer(connection, in);
    };
    start(GetParam() == kVersion1 ? Versions::kOnly1 : Versions::kOnly2);
    EXPECT_EQ(errno_of(plain_call()), 0);
  }
  void answer(size_t connection, const header& in) {
    header h = answer_to(in);
    h.credit = kForward;
    server.send(connection, encoded(h, reply(in.xid)));
  }
  void call_back(size_t connection, uint32_t xid, uint32_t credit) {
    header h;
    h.xid = xid;
    h.vers = GetParam();
    h.credit = credit;
    ByteVector call = call_head();
    store_be32(call.data(), xid);
    server.send(connection, encoded(h, call));
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, ClientsGrants, testing::Values(kVersion1, kVersion2));

// RFC 8167 section 5.2: "The number of granted reverse-direction credits is placed in the rdma_credit field".
TEST_P(ClientsGrants, AreItsOwn_WhateverIsAskedFor) {
  const uint32_t kAsked[] = {0, 1, granted_, 1000, UINT32_MAX};
  serve();
  call_on(*loop, [&] {
    for (const uint32_t credit : kAsked) call_back(0, credit, credit);
  });
  ASSERT_TRUE(eventually([&] { return answered_ == std::size(kAsked); }));
  call_on(*loop, [&] {
    for (const header& h : answers_) EXPECT_EQ(h.credit, granted_) << h.xid;
  });
}

// RFC 8167 section 4.3.1: "posts enough additional Receive buffers to match its advertised reverse-direction
// credit value". Version 2's properties take no credit, and one Receive.
TEST_P(ClientsGrants, Receives_AreThereForRepliesCallbacksAndProperties) {
  serve();
  EXPECT_EQ(account->receives, client->status().rdma->credits_asked + granted_ + 1);
}

// The credits that a call of the server requests are not a grant: RFC 8167 section 4.1, "each receiver has to
// decide whether an incoming message contains a credit request (the receiver is acting as a Responder) or a
// credit grant".
TEST_P(ClientsGrants, CallsOfTheServer_GrantNothing) {
  serve();
  EXPECT_EQ(client->status().rdma->credits_granted, kForward);
  for (const uint32_t credit : {0U, 1U, 60U, UINT32_MAX}) {
    const size_t before = answered_;
    call_on(*loop, [&] { call_back(0, 9, credit); });
    ASSERT_TRUE(eventually([&] { return answered_ == before + 1; }));
    // The next call uses the grant of this moment, until its reply brings another.
    call_on(*loop, [&] { unanswered_.emplace(); });
    auto outcome = client->call(plain_call());
    ASSERT_TRUE(eventually([&] { return call_on(*loop, [&] { return !unanswered_->empty(); }); }));
    EXPECT_EQ(client->status().rdma->credits_granted, kForward) << credit;
    EXPECT_EQ(client->status().rdma->credits_in_use, 1U);
    call_on(*loop, [&] {
      const std::vector<header> waiting = *std::exchange(unanswered_, std::nullopt);
      for (const header& in : waiting) answer(0, in);
    });
    EXPECT_TRUE(outcome.get().reply);
  }
}

// The forward direction, in both versions: there are never more outstanding calls than the last grant allows,
// and with more than one credit, the last one is reserved for calls that renew the lease.
TEST_P(ClientsGrants, ForwardCalls_AreNeverMoreThanWasGranted) {
  serve();
  call_on(*loop, [&] { unanswered_.emplace(); });
  std::vector<std::future<rpc::Outcome>> calls;
  for (int i = 0; i < 30; ++i) calls.push_back(client->call(plain_call()));
  size_t out = 0;
  const auto waiting = [&] { return call_on(*loop, [&] { return unanswered_->size(); }); };
  for (size_t answered = 0; answered < calls.size(); ++answered) {
    out = std::min<size_t>(kForward - 1, calls.size() - answered);
    EXPECT_TRUE(eventually([&] { return waiting() == out; })) << answered;
    EXPECT_LT(client->status().rdma->credits_in_use, kForward);
    call_on(*loop, [&] {
      const header first = unanswered_->front();
      unanswered_->erase(unanswered_->begin());
      answer(0, first);
    });
  }
  for (auto& call : calls) EXPECT_TRUE(call.get().reply);
}

// Callbacks in progress take none of our credits, and their credits do not delay our calls.
TEST_P(ClientsGrants, CallbacksInProgress_TakeNoCreditOfTheForwardDirection) {
  hold_ = true;
  serve();
  call_on(*loop, [&] {
    for (uint32_t i = 0; i < granted_; ++i) call_back(0, i, 1);
  });
  ASSERT_TRUE(eventually([&] { return held_ == granted_; }));
  std::vector<std::future<rpc::Outcome>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(client->call(plain_call()));
  for (auto& call : calls) EXPECT_TRUE(call.get().reply);
  EXPECT_EQ(client->status().rdma->credits_granted, kForward);
  EXPECT_EQ(answered_, 0U);
}

// More calls than granted, up to a limit: each gets its reply, and the connection stays.
TEST_P(ClientsGrants, Exceeded_EveryCallIsAnswered) {
  hold_ = true;
  serve();
  constexpr size_t kMost = rpc::ClientTransport::kMaxCallbacks;
  ASSERT_GT(kMost, granted_);
  call_on(*loop, [&] {
    for (uint32_t i = 0; i < kMost; ++i) call_back(0, i, 1);
  });
  ASSERT_TRUE(eventually([&] { return held_ == kMost; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  release();
  EXPECT_TRUE(eventually([&] { return answered_ == kMost; }));
  EXPECT_EQ(client->status().connects, 1U);
}

// A flood ends the connection. The next one works, and the callbacks in progress get no reply.
TEST_P(ClientsGrants, Flood_CostsTheConnectionOnly) {
  hold_ = true;
  serve();
  constexpr size_t kMost = rpc::ClientTransport::kMaxCallbacks;
  call_on(*loop, [&] {
    for (uint32_t i = 0; i < kMost + 1; ++i) call_back(0, i, 1);
  });
  EXPECT_TRUE(eventually([&] { return client->status().connects == 2; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(held_, kMost);
  release();
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(answered_, 0U);
}

}  // namespace
}  // namespace nfsrdma::test
