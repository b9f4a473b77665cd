// SPDX-License-Identifier: Apache-2.0
// RequestSender with contexts that the server refuses, that run out, or whose replies never verify: how many
// transmissions the server may have executed decides what becomes of the slot.
#include "client/nfs4/session/request_sender.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <future>
#include <memory>

#include "tests/unit/transport/support/rig.h"
#include "tests/unit/transport/support/sealed_calls.h"

namespace nfsrdma::client::nfs4 {
namespace {

using test::denial;
using test::FakeSecurity;
using test::Flaw;
using test::Listener;
using test::next_call;
using test::OpenedCall;
using test::Peer;
using test::PeerSocket;
using test::seal_reply;
using test::words;

// The contexts that one user gets, in order; then his ticket has run out.
class Contexts final : public CallSecurities {
 public:
  std::deque<std::shared_ptr<FakeSecurity>> all;
  unsigned forgotten = 0;

  Task<Result<std::shared_ptr<rpc::CallSecurity>>> get(unsigned, rpc::CredentialPtr, bool) override {
    if (!all.empty()) co_return all.front();
    co_return fail(Error{.layer = Layer::kSecurity, .errnum = EKEYEXPIRED, .cause = "no ticket"});
  }
  void forget(unsigned, const rpc::Credential&, const rpc::CallSecurity& security) override {
    ++forgotten;
    if (!all.empty() && all.front().get() == &security) all.pop_front();
  }
  std::vector<ContextStatistics> statistics() const override { return {}; }
  Task<> destroy() override { co_return; }
};

ClientOptions options_for(uint16_t port) {
  ClientOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  return options;
}

// COMPOUND's success with SEQUENCE alone.
ByteVector sequence_done() {
  return words({0, 0, 1, nfs4::OP_SEQUENCE, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
}

class Sending {
 public:
  explicit Sending(uint16_t port) : options_(options_for(port)) {
    loops_.start();
    const auto started = test::run_on(loops_[0], connections_.start());
    EXPECT_TRUE(started) << describe(started.error());
  }
  ~Sending() { test::run_on(loops_[0], connections_.close()); }

  std::shared_ptr<FakeSecurity> add(size_t seals = SIZE_MAX) {
    auto one = std::make_shared<FakeSecurity>(test::Service::kAuthentication);
    one->seals_left = seals;
    contexts_->all.push_back(one);
    return one;
  }
  std::future<Result<CompoundReply>> start(CallSize& measured, Precedence precedence = Precedence::kNone) {
    return test::start_on(loops_[0], sender_.attempt(0, request_, ticket_, precedence, measured));
  }
  Result<CompoundReply> attempt() { return start(size).get(); }
  unsigned forgotten() const { return contexts_->forgotten; }
  Loop& loop() { return loops_[0]; }

  CallSize size;

 private:
  LoopPool loops_{1};
  BufferPool buffers_;
  const ClientOptions options_;
  Connections connections_{loops_, buffers_, options_,
                           [](unsigned) -> Task<Result<>> { co_return Result<>{}; },
                           [](ByteVector) -> Task<ByteVector> { co_return ByteVector{}; }};
  Lease lease_;
  StopFlag stopping_;
  Contexts* contexts_ = new Contexts;  // the sender's
  const rpc::CredentialPtr who_ =
      std::make_shared<const rpc::Credential>("test", 1000, 1000, std::vector<uint32_t>{});
  RequestSender sender_{connections_, std::unique_ptr<CallSecurities>(contexts_), lease_, who_, stopping_};
  void (*nothing_)(CompoundBuilder&) = [](CompoundBuilder&) {};
  const Request request_{.op = nfs4::OP_SEQUENCE, .credential = who_, .build = nothing_};
  const SlotTicket ticket_{.generation = 1, .sequence = 1};
};

// The server has the request, and nobody knows whether it has executed it.
TEST(RequestSender, ContextRunsOutAfterATransmission_SlotIsUncertain) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(next_call(s));
    s.close();
    s = l.accept();
    EXPECT_TRUE(s.closed_by_client());
  });
  Sending sending(peer.port());
  sending.add(1);
  const auto reply = sending.attempt();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().errnum, EKEYEXPIRED);
  EXPECT_EQ(sending.size.transmissions, 1u);
  EXPECT_EQ(sending.forgotten(), 1u);
}

TEST(RequestSender, ContextRunsOutAfterATransmission_IsSentAgainInTheNext) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(next_call(s));
    s.close();
    s = l.accept();
    const auto call = next_call(s);
    ASSERT_TRUE(call);
    s.write_record(seal_reply(*call, sequence_done()));
    EXPECT_TRUE(s.closed_by_client());
  });
  Sending sending(peer.port());
  sending.add(1);
  sending.add();
  const auto reply = sending.attempt();
  ASSERT_TRUE(reply) << describe(reply.error());
  EXPECT_EQ(sending.size.transmissions, 2u);
}

// RFC 2203 section 5.3.3.3: a server that answers RPCSEC_GSS_CREDPROBLEM or RPCSEC_GSS_CTXPROBLEM has not
// executed that transmission. It says nothing of an earlier one.
TEST(RequestSender, RefusedTransmission_IsNoneOfThoseThatMayBeExecuted) {
  for (const unsigned unanswered : {0u, 1u}) {
    for (const uint32_t why : {rpc::RPCSEC_GSS_CREDPROBLEM, rpc::RPCSEC_GSS_CTXPROBLEM}) {
      Peer peer([&](Listener& l) {
        PeerSocket s = l.accept();
        for (unsigned i = 0; i < unanswered; ++i) {
          EXPECT_TRUE(next_call(s));
          s.close();
          s = l.accept();
        }
        const auto call = next_call(s);
        ASSERT_TRUE(call);
        s.write_record(denial(call->xid, why));
        EXPECT_TRUE(s.closed_by_client());
      });
      Sending sending(peer.port());
      sending.add();
      EXPECT_FALSE(sending.attempt());
      EXPECT_EQ(sending.size.transmissions, unanswered);
      EXPECT_EQ(sending.forgotten(), 1u);
    }
  }
}

TEST(RequestSender, ReplyThatVerifiesInNoContext_EndsWithEio) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (int context = 0; context < 4; ++context) {
      for (int connection = 0; connection < 2; ++connection) {
        const auto call = next_call(s);
        ASSERT_TRUE(call) << context;
        s.write_record(seal_reply(*call, sequence_done(), Flaw::kVerifier));
        if (connection == 1) continue;
        EXPECT_TRUE(s.closed_by_client());
        s = l.accept();
      }
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Sending sending(peer.port());
  for (int i = 0; i < 5; ++i) sending.add();
  const auto reply = sending.attempt();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().errnum, EIO);
  EXPECT_EQ(sending.size.transmissions, 8u);
  EXPECT_EQ(sending.forgotten(), 4u);
}

// RFC 2203 section 5.2.3.1: seq_window is "the maximum number of client requests that may be outstanding for
// this context."
TEST(RequestSender, CallsBeyondTheWindow_Wait_ButNotTheRenewal) {
  constexpr size_t kCalls = 7;
  std::promise<void> all_started;
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    std::deque<OpenedCall> calls;
    for (int i = 0; i < 3; ++i) {  // two, and the renewal
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      calls.push_back(*call);
    }
    all_started.get_future().wait();
    for (size_t answered = 0; answered < kCalls + 1; ++answered) {
      ASSERT_FALSE(calls.empty());
      s.write_record(seal_reply(calls.front(), sequence_done()));
      calls.pop_front();
      if (answered == 0 || answered + 2 > kCalls) continue;  // three are under way, then two
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      calls.push_back(*call);
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Sending sending(peer.port());
  const auto security = sending.add();
  security->limit.emplace(rpc::CallWindow::kReserve + 2);
  std::deque<CallSize> sizes(kCalls + 1);
  std::deque<std::future<Result<CompoundReply>>> replies;
  for (size_t i = 0; i < kCalls; ++i) replies.push_back(sending.start(sizes[i]));
  replies.push_back(sending.start(sizes[kCalls], Precedence::kRenewal));
  test::call_on(sending.loop(), [&] { EXPECT_EQ(security->limit->waiting(), kCalls - 2); });
  EXPECT_TRUE(test::eventually(
      [&] { return test::call_on(sending.loop(), [&] { return security->sealed.size() == 3; }); }));
  all_started.set_value();
  for (auto& reply : replies) EXPECT_TRUE(reply.get());
  for (const CallSize& size : sizes) EXPECT_EQ(size.transmissions, 1u);
}

}  // namespace
}  // namespace nfsrdma::client::nfs4
