// SPDX-License-Identifier: Apache-2.0
// The client's RPCSEC_GSS against a server in the same process, with tickets of a real KDC: establishing,
// the three services, what a hostile server or network does, and the table of contexts.
#include "transport/security/gss_security.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "tests/unit/security/gss_server.h"
#include "tests/unit/security/realm.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/rpc/call_message.h"
#include "transport/security/contexts.h"
#include "transport/security/establish.h"

namespace nfsrdma::gss {
namespace {

using namespace security;  // NOLINT: used throughout this file
using namespace std::chrono_literals;
using test::GssServer;
using test::LoopThread;
using test::run_on;

constexpr Program kNfs{100003, 4};

// Makes tokens on the loop itself, with one user's tickets.
class LocalTokens final : public TokenSource {
 public:
  explicit LocalTokens(std::string ccache) : ccache_(std::move(ccache)) {}
  std::string ccache_;
  int begun = 0;

  Result<std::unique_ptr<Initiation>> begin(ContextRequest request) override {
    ++begun;
    auto credential = Credential::from_ccache(ccache_);
    if (!credential) return fail(std::move(credential.error()));
    auto name = Name::service("nfs", request.host);
    if (!name) return fail(std::move(name.error()));
    return std::make_unique<Local>(std::make_shared<const Credential>(*std::move(credential)),
                                   std::make_shared<const Name>(*std::move(name)));
  }

 private:
  struct Local final : Initiation {
    Local(std::shared_ptr<const Credential> c, std::shared_ptr<const Name> n)
        : initiator(std::move(c), std::move(n)) {}
    Task<Result<InitiationStep>> step(ByteVector token) override {
      co_await Loop::current()->sleep(1ms);  // as over a socket: others run meanwhile
      Step taken = initiator.step(token);
      if (taken.error) co_return fail(*std::move(taken.error));
      InitiationStep step{std::move(taken.token), std::nullopt};
      if (taken.done) {
        Result<Context> context = initiator.take();
        if (!context) co_return fail(std::move(context.error()));
        Result<ByteVector> exported = (*std::move(context)).exported();
        if (!exported) co_return fail(std::move(exported.error()));
        step.context = *std::move(exported);
      }
      co_return step;
    }
    Initiator initiator;
  };
};

// gtest runs it for each service.
class GssSecurityTest : public Realm, public testing::WithParamInterface<rpc::rpc_gss_service_t> {
 protected:
  void SetUp() override {
    Realm::SetUp();
    if (IsSkipped()) return;
    tokens_ = std::make_shared<LocalTokens>(alice());
    server_ = std::make_unique<GssServer>(*loop_, service());
    contexts_ = std::make_unique<Contexts>(
        *server_, tokens_, ContextsOptions{.host = "localhost", .service = GetParam(), .program = kNfs});
  }

  Result<std::shared_ptr<GssSecurity>> get(uint32_t user = 1000, bool handshake = false) {
    return run_on(*loop_, contexts_->get(user, handshake));
  }
  std::shared_ptr<GssSecurity> must_get() {
    auto made = get();
    EXPECT_TRUE(made) << describe(made.error());
    return made.value();
  }

  static rpc::Call call_of(const std::shared_ptr<GssSecurity>& security, size_t words) {
    rpc::Call call;
    call.op = "TEST";
    call.security = security;
    xdr::Encoder x(call.head, &call.bulks);
    EXPECT_TRUE(rpc::begin_call(x, kNfs.number, kNfs.version, 1, *security));
    for (uint32_t i = 0; i < words; ++i) x(0x1000 + i);
    return call;
  }
  rpc::Outcome send(rpc::Call& call) { return run_on(*loop_, server_->call(call)); }

  LoopThread loop_;
  std::shared_ptr<LocalTokens> tokens_;
  std::unique_ptr<GssServer> server_;
  std::unique_ptr<Contexts> contexts_;
};

INSTANTIATE_TEST_SUITE_P(Services, GssSecurityTest,
                         testing::Values(rpc::rpc_gss_svc_none, rpc::rpc_gss_svc_integrity,
                                         rpc::rpc_gss_svc_privacy));

TEST_P(GssSecurityTest, Call_ComesBackAsItWasSent) {
  const auto security = must_get();
  for (const size_t words : {0u, 1u, 2u, 3u, 17u, 1000u}) {
    rpc::Call call = call_of(security, words);
    const ByteVector arguments(call.head.begin() + 24 + static_cast<ptrdiff_t>(security->header().size()),
                               call.head.end());
    const rpc::Outcome outcome = send(call);
    ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
    EXPECT_EQ(server_->last_arguments, arguments);
    const ByteVector results(outcome.reply->head.begin() + static_cast<ptrdiff_t>(outcome.reply->body),
                             outcome.reply->head.end());
    EXPECT_EQ(results, arguments);
  }
}

TEST_P(GssSecurityTest, BulkItems_AreProtectedWithTheirPadding) {
  const auto security = must_get();
  ByteVector data(4097);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  rpc::Call call = call_of(security, 2);
  {
    xdr::Encoder more(call.head, &call.bulks);  // positions count from here; corrected below
    ASSERT_TRUE(more.bulk(data, data.size()) && more(0x77u));
  }
  call.bulks[0].position = call.head.size() - 4;
  call.bulks[0].inline_offset = call.head.size() - 4;
  const rpc::Outcome outcome = send(call);
  ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
  const ByteVector& arrived = server_->last_arguments;
  ASSERT_EQ(arrived.size(), 8 + 4 + 4100 + 4u);
  EXPECT_EQ(load_be32(arrived.data() + 8), 4097u);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), arrived.begin() + 12));
  EXPECT_EQ(load_be32(arrived.data() + arrived.size() - 4), 0x77u);
}

// RFC 2203 section 5.3.1: seq_num "must be incremented (by one or more) for successive requests".
TEST_P(GssSecurityTest, EachTransmission_HasANewSequenceNumber) {
  const auto security = must_get();
  rpc::Call call = call_of(security, 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(call).reply);
  EXPECT_EQ(server_->sequences, (std::vector<uint32_t>{1, 2, 3}));
}

TEST_P(GssSecurityTest, ReplyOverhead_IsEnoughAndNotTooMuch) {
  const auto security = must_get();
  for (const size_t words : {0u, 1u, 2u, 3u, 100u}) {
    rpc::Call call = call_of(security, words);
    size_t bytes = 0;
    server_->on_the_way_back = [&](ByteVector& reply) { bytes = reply.size(); };
    ASSERT_TRUE(send(call).reply);
    const size_t bare = 24 + 4 * words;
    EXPECT_LE(bytes, bare + security->reply_overhead());
    EXPECT_GE(bytes + 24, bare + security->reply_overhead());
    server_->on_the_way_back = nullptr;
  }
}

// Nothing of a reply is believed that was changed on its way, wherever that is. The XID and the words that
// say "accepted" are the transport's and not covered; what follows from changing them is checked elsewhere.
TEST_P(GssSecurityTest, ReplyChangedAtAnyByte_IsNotBelieved) {
  const auto security = must_get();
  const size_t verifier_at = 12;
  size_t length = 0;
  for (size_t at = verifier_at; length == 0 || at < length; ++at) {
    rpc::Call call = call_of(security, 3);
    server_->on_the_way_back = [&](ByteVector& reply) {
      length = reply.size();
      reply[at] ^= std::byte{0x40};
    };
    const rpc::Outcome outcome = send(call);
    // With authentication alone the results are in the clear.
    const size_t in_clear = verifier_at + 8 + security->verifier_bytes();
    if (GetParam() == rpc::rpc_gss_svc_none && at >= in_clear) break;
    if (at >= in_clear && at < in_clear + 4) continue;  // accept_stat is no result
    EXPECT_FALSE(outcome.reply) << at;
  }
}

TEST_P(GssSecurityTest, ReplyCutAtAnyByte_IsNotBelieved) {
  const auto security = must_get();
  size_t length = 1;
  for (size_t at = 0; at < length; at += at % 4 == 0 ? 1 : 3) {
    rpc::Call call = call_of(security, 3);
    server_->on_the_way_back = [&](ByteVector& reply) {
      length = GetParam() == rpc::rpc_gss_svc_none ? reply.size() - 12 : reply.size();
      reply.resize(at);
    };
    EXPECT_FALSE(send(call).reply) << at;
  }
}

// A verified reply to another call is not an answer to this one.
TEST_P(GssSecurityTest, ReplyOfAnotherCall_IsNotBelieved) {
  const auto security = must_get();
  ByteVector first_reply;
  rpc::Call first = call_of(security, 1), second = call_of(security, 1);
  server_->on_the_way_back = [&](ByteVector& reply) { first_reply = reply; };
  ASSERT_TRUE(send(first).reply);
  server_->on_the_way_back = [&](ByteVector& reply) { reply = first_reply; };
  EXPECT_FALSE(send(second).reply);
}

TEST_P(GssSecurityTest, CallChangedOnTheWay_IsRefusedByTheServer) {
  const auto security = must_get();
  rpc::Call call = call_of(security, 1);
  server_->on_the_way_there = [](ByteVector& message) { message[20] ^= std::byte{1}; };  // the procedure
  const rpc::Outcome outcome = send(call);
  ASSERT_FALSE(outcome.reply);
  EXPECT_EQ(outcome.reply.error().status,
            static_cast<uint32_t>(rpc::RpcStatus::kAuthStat) + rpc::RPCSEC_GSS_CREDPROBLEM);
}

// ---------------------------------------------------------------------------------------------------------
// The table.

TEST_P(GssSecurityTest, Context_IsMadeOnceForAUser) {
  const auto one = must_get();
  EXPECT_EQ(must_get(), one);
  EXPECT_EQ(contexts_->ready(1000), one);
  EXPECT_EQ(contexts_->ready(1001), nullptr);
  ASSERT_TRUE(get(1001));
  EXPECT_EQ(tokens_->begun, 2);
  const auto holders = contexts_->holders();
  ASSERT_EQ(holders.size(), 2u);
  EXPECT_EQ(holders[0].user, 1000u);
  EXPECT_GT(holders[0].expires - Clock::now(), 9h);
  EXPECT_EQ(holders[0].refusal, "");
}

Task<int> get_many(Contexts& contexts, int times) {
  int ended = 0;
  const auto one = [](Contexts& c, int& count) -> Task<> {
    EXPECT_TRUE(co_await c.get(1000, false));
    ++count;
  };
  for (int i = 0; i < times; ++i) Loop::current()->spawn(one(contexts, ended));
  while (ended < times) co_await Loop::current()->sleep(1ms);
  co_return ended;
}

TEST_P(GssSecurityTest, ManyAtOnce_ShareOneExchange) {
  EXPECT_EQ(run_on(*loop_, get_many(*contexts_, 20)), 20);
  EXPECT_EQ(tokens_->begun, 1);
  EXPECT_EQ(server_->contexts(), 1u);
}

// RFC 2203 section 5.3.3.3: "Upon receiving this error, the client must refresh the context - that is,
// reestablish it after destroying the old one - and try the request again."
TEST_P(GssSecurityTest, ServerThatForgot_GetsANewContext) {
  const auto old = must_get();
  server_->forget_contexts();
  rpc::Call call = call_of(old, 1);
  const rpc::Outcome refused = send(call);
  ASSERT_FALSE(refused.reply);
  contexts_->refused(1000, *old);
  EXPECT_TRUE(contexts_->holders().empty());
  const auto fresh = must_get();
  EXPECT_NE(fresh, old);
  contexts_->refused(1000, *old);  // a late answer to the old one does not cost the new one
  EXPECT_EQ(contexts_->ready(1000), fresh);
  EXPECT_EQ(contexts_->holders().size(), 1u);
  rpc::Call again = call_of(fresh, 1);
  EXPECT_TRUE(send(again).reply);
}

TEST_P(GssSecurityTest, Refusal_IsKeptForAShortTime) {
  tokens_->ccache_ = "FILE:/nonexistent/cache";
  for (int i = 0; i < 5; ++i) {
    const auto refused = get();
    ASSERT_FALSE(refused);
    EXPECT_EQ(failure_of(refused.error()), Failure::kNoTicket) << describe(refused.error());
    EXPECT_EQ(refused.error().errnum, EACCES);
  }
  EXPECT_EQ(tokens_->begun, 1);
  const auto holders = contexts_->holders();
  ASSERT_EQ(holders.size(), 1u);
  EXPECT_NE(holders[0].refusal.find("no Kerberos ticket"), std::string::npos) << holders[0].refusal;
}

TEST_P(GssSecurityTest, ServerWithoutAKeytab_IsToldInOneLine) {
  server_->refuses_init = true;
  const auto refused = get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errnum, EACCES);
  EXPECT_EQ(describe(refused.error()).find('\n'), std::string::npos);
  EXPECT_NE(describe(refused.error()).find("does not accept Kerberos"), std::string::npos);
}

// Section 5.2.3.1: a server that cannot sign seq_window does not have the session key.
TEST_P(GssSecurityTest, ServerThatDoesNotSignTheWindow_IsNotBelieved) {
  server_->signs_window = false;
  EXPECT_FALSE(get());
}

TEST_P(GssSecurityTest, InitReplyCutAtAnyByte_IsAnError) {
  size_t length = 1;
  for (size_t at = 0; at < length; at += 5) {
    server_->on_the_way_back = [&](ByteVector& reply) {
      length = reply.size();
      reply.resize(at);
    };
    EXPECT_FALSE(get(5000 + static_cast<uint32_t>(at))) << at;
  }
}

TEST_P(GssSecurityTest, End_DestroysWhatTheServerHas) {
  (void)must_get();
  ASSERT_TRUE(get(1001));
  EXPECT_EQ(server_->contexts(), 2u);
  run_on(*loop_, contexts_->destroy_all());
  EXPECT_EQ(server_->contexts(), 0u);
  EXPECT_TRUE(contexts_->holders().empty());
}

// RFC 2203 section 5.4: "The server sends a response as it would to a data request." Linux' server sends the
// header alone.
TEST_P(GssSecurityTest, ReplyToDestroy_NeedsItsVerifierOnly) {
  for (const bool wraps : {true, false}) {
    server_->wraps_destroy = wraps;
    const auto security = must_get();
    security->begin_destroying();
    rpc::Call forged = call_of(security, 0);
    server_->on_the_way_back = [](ByteVector& reply) { reply[20] ^= std::byte{1}; };
    EXPECT_FALSE(send(forged).reply);
    server_->on_the_way_back = nullptr;
    contexts_->refused(1000, *security);
    EXPECT_EQ(server_->contexts(), 0u);

    const auto next = must_get();
    next->begin_destroying();
    rpc::Call call = call_of(next, 0);
    const rpc::Outcome outcome = send(call);
    EXPECT_TRUE(outcome.reply) << describe(outcome.reply.error());
    EXPECT_EQ(server_->procedures.back(), rpc::RPCSEC_GSS_DESTROY);
    EXPECT_EQ(server_->contexts(), 0u);
    contexts_->refused(1000, *next);
  }
}

// RFC 2203 section 5.2.3.1: "This window specifies the maximum number of client requests that may be
// outstanding for this context."
TEST_P(GssSecurityTest, CallsUnderWay_AreNoMoreThanTheServerFollows) {
  for (const uint32_t window : {0u, 1u, 32u, 128u}) {
    server_->window = window;
    const auto made = get(2000 + window);
    ASSERT_TRUE(made) << describe(made.error());
    EXPECT_GE((*made)->window()->most(), 1u);
    EXPECT_LE((*made)->window()->most(), std::max(window, 1u));
  }
}

TEST_P(GssSecurityTest, ExpiredContext_IsNotUsedAndTheTicketsEndIsTold) {
  uint32_t user = 2000;  // one after the other: a refusal is kept for a while
  std::shared_ptr<GssSecurity> made;
  ASSERT_TRUE(with_a_short_ticket([&](const std::string& ccache) {
    tokens_->ccache_ = ccache;
    auto got = get(++user);
    if (got) made = *got;
    return got.has_value();
  }));
  // RFC 4120 lets both ends allow for clock skew; the client's own clock decides here.
  EXPECT_TRUE(test::eventually([&] { return !made->usable(Clock::now()); }));
  rpc::Call call = call_of(made, 1);
  const rpc::Outcome outcome = send(call);
  ASSERT_FALSE(outcome.reply);
  EXPECT_EQ(outcome.reply.error().errnum, EKEYEXPIRED);
  EXPECT_EQ(outcome.transmissions, 0u);
  const auto expired = get(user);
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().errnum, EKEYEXPIRED) << describe(expired.error());
}

}  // namespace
}  // namespace nfsrdma::gss
