// SPDX-License-Identifier: Apache-2.0
// Calls with a CallSecurity over TCP: sealed before each transmission, their replies verified before anyone
// reads them.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/transport/support/sealed_calls.h"
#include "xdr/rpc.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

class TcpSecurity : public Sealed {};
INSTANTIATE_TEST_SUITE_P(Services, TcpSecurity, every_service(), name_of_service);

TEST_P(TcpSecurity, Call_IsSealed_AndItsReplyIsOpened) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    echo_all(s);
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (uint32_t i = 1; i <= 3; ++i)
    EXPECT_EQ(results_of(rig.call(test_call(security, words({i, 7}))).get()), words({i, 7}));
  EXPECT_EQ(security->sealed, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(security->opened, 3u);
  EXPECT_EQ(rig.status().connects, 1u);
  rig.close();
}

// RFC 2203 section 5.3.3.1: "the sequence number algorithm requires that the client increment the sequence
// number even if it is retrying a request with the same RPC transaction identifier."
TEST_P(TcpSecurity, SentAgain_HasTheSameXidAndANewSequenceNumber) {
  std::vector<OpenedCall> got;
  Peer peer([&](Listener& l) {
    for (int i = 0; i < 3; ++i) {
      PeerSocket s = l.accept();
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      got.push_back(*call);
      if (i < 2) continue;
      s.write_record(seal_reply(*call, call->arguments));
      EXPECT_TRUE(s.closed_by_client());
    }
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Outcome o = rig.call(test_call(security, words({5}))).get();
  EXPECT_EQ(results_of(o), words({5}));
  EXPECT_EQ(o.transmissions, 3u);
  rig.close();
  peer.join();
  ASSERT_EQ(got.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i].xid, got[0].xid);
    EXPECT_EQ(got[i].sequence, i + 1);
    EXPECT_EQ(got[i].arguments, words({5}));
  }
}

// RFC 2203 section 5.3.3.2: "An MSG_ACCEPTED reply to a request in the data exchange phase will have the
// verifier's (the verf element in the response) flavor field set to RPCSEC_GSS, and the body field set to the
// checksum (the output of GSS_GetMIC()) of the sequence number (in network order) of the corresponding
// request."
TEST_P(TcpSecurity, ReplyThatDoesNotVerify_CostsTheConnection_AndTheCallIsSentAgain) {
  std::vector<Flaw> flaws{Flaw::kVerifier, Flaw::kNoVerifier, Flaw::kHeader};
  if (wraps()) flaws.insert(flaws.end(), {Flaw::kData, Flaw::kInnerNumber, Flaw::kShort});
  for (const Flaw flaw : flaws) {
    SCOPED_TRACE(static_cast<int>(flaw));
    Peer peer([&](Listener& l) {
      PeerSocket s = l.accept();
      auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, words({666, 666}), flaw));
      EXPECT_TRUE(s.closed_by_client());
      s = l.accept();
      call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, words({1, 2})));
      EXPECT_TRUE(s.closed_by_client());
    });
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    const Outcome o = rig.call(test_call(security, words({5}))).get();
    EXPECT_EQ(results_of(o), words({1, 2}));
    EXPECT_EQ(o.transmissions, 2u);
    EXPECT_EQ(rig.status().replies, 1u) << "the other was none";
    EXPECT_EQ(rig.status().bad_messages, 1u);
    EXPECT_NE(rig.status().last_error.find("does not verify"), std::string::npos) << rig.status().last_error;
  }
}

// The same for a reply that says why there are no results: RFC 2203 section 5.3.3.2, "If the status of the
// reply is not SUCCESS, the rest of the message is formatted as usual." The verifier is there.
TEST_P(TcpSecurity, AcceptedFailure_IsBelievedWithItsVerifierOnly) {
  for (const Flaw first : {Flaw::kNoVerifier, Flaw::kVerifier}) {
    Peer peer([first](Listener& l) {
      for (const Flaw flaw : {first, Flaw::kNone}) {
        PeerSocket s = l.accept();
        const auto call = next_call(s);
        ASSERT_TRUE(call);
        s.write_record(seal_failure(*call, rpc::GARBAGE_ARGS, flaw));
        EXPECT_TRUE(s.closed_by_client());
      }
    });
    Rig rig(quick_options(peer.port()));
    rig.must_start();
    const Outcome o = rig.call(test_call(security, words({5}))).get();
    EXPECT_EQ(o.transmissions, 2u);
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().layer, Layer::kRpc);
    EXPECT_EQ(o.reply.error().status, static_cast<uint32_t>(rpc::RpcStatus::kAcceptStat) + rpc::GARBAGE_ARGS);
  }
}

// The next connection brought the same: the context is at fault, and costs the others no further connection.
TEST_P(TcpSecurity, SecondReplyThatDoesNotVerify_EndsTheCall_AndTheOthersGoOn) {
  const auto other = std::make_shared<FakeSecurity>(GetParam());
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    auto call = next_call(s);
    ASSERT_TRUE(call);
    s.write_record(seal_reply(*call, words({666}), Flaw::kVerifier));
    EXPECT_TRUE(s.closed_by_client());
    s = l.accept();
    call = next_call(s);
    ASSERT_TRUE(call);
    s.write_record(seal_reply(*call, words({666}), Flaw::kNoVerifier));
    echo_all(s);
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Outcome o = rig.call(test_call(security, words({5}))).get();
  ASSERT_FALSE(o.reply);
  EXPECT_EQ(o.reply.error().layer, Layer::kSecurity);
  EXPECT_EQ(o.reply.error().recovery, Recovery::kPermanent);
  EXPECT_EQ(o.reply.error().errnum, EIO);
  EXPECT_STREQ(o.reply.error().op, "TEST");
  EXPECT_EQ(o.transmissions, 2u);
  EXPECT_EQ(rig.status().pending, 0u);
  EXPECT_EQ(results_of(rig.call(test_call(other, words({2}))).get()), words({2}));
  EXPECT_EQ(rig.status().connects, 2u);
  rig.close();
}

// RFC 2203 section 5.3.3.3: "An MSG_DENIED reply (to a data request) is formulated as usual. Two new values
// (RPCSEC_GSS_CREDPROBLEM and RPCSEC_GSS_CTXPROBLEM) have been defined for the auth_stat type."
TEST_P(TcpSecurity, DeniedReply_HasNoVerifier_AndIsTheCallsStatus) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const uint32_t why : {rpc::RPCSEC_GSS_CREDPROBLEM, rpc::RPCSEC_GSS_CTXPROBLEM, rpc::AUTH_TOOWEAK}) {
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(denial(call->xid, why));
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (const uint32_t why : {13u, 14u, 5u}) {
    const Outcome o = rig.call(test_call(security, {})).get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().layer, Layer::kRpc);
    EXPECT_EQ(o.reply.error().errnum, EACCES);
    EXPECT_EQ(o.reply.error().status, static_cast<uint32_t>(rpc::RpcStatus::kAuthStat) + why);
  }
  EXPECT_EQ(rig.status().connects, 1u);
  EXPECT_EQ(security->opened + security->refused, 0u);
}

// --- failures of seal()

TEST_P(TcpSecurity, CallThatCannotBeSealed_EndsWithTheError_AndIsNotSent) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    echo_all(s);
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  security->seals_left = 0;
  const Outcome failed = rig.call(test_call(security, words({1}))).get();
  ASSERT_FALSE(failed.reply);
  EXPECT_EQ(failed.reply.error().errnum, EKEYEXPIRED);
  EXPECT_STREQ(failed.reply.error().op, "TEST");
  EXPECT_EQ(failed.transmissions, 0u);
  EXPECT_EQ(rig.status().pending, 0u);
  const auto other = std::make_shared<FakeSecurity>(GetParam());
  EXPECT_EQ(results_of(rig.call(test_call(other, words({2}))).get()), words({2}));
  EXPECT_EQ(rig.status().connects, 1u);
}

// Each of several calls that wait for the next connection: the others are sent.
TEST_P(TcpSecurity, CallThatCannotBeSealedAgain_DoesNotKeepTheOthers) {
  constexpr size_t kCalls = 5;
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (size_t i = 0; i < kCalls; ++i) EXPECT_TRUE(next_call(s));
    s.close();
    s = l.accept();
    echo_all(s);
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  std::vector<std::shared_ptr<FakeSecurity>> each;
  std::vector<std::future<Outcome>> calls;
  for (uint32_t i = 0; i < kCalls; ++i) {
    each.push_back(std::make_shared<FakeSecurity>(GetParam()));
    each.back()->seals_left = i % 2 == 0 ? 1 : 2;
    calls.push_back(rig.call(test_call(each.back(), words({i}))));
  }
  for (uint32_t i = 0; i < kCalls; ++i) {
    const Outcome o = calls[i].get();
    EXPECT_EQ(o.reply.has_value(), i % 2 != 0) << i;
    if (o.reply) {
      EXPECT_EQ(results_of(o), words({i}));
    } else {
      EXPECT_EQ(o.reply.error().errnum, EKEYEXPIRED);
      EXPECT_EQ(o.transmissions, 1u);
    }
  }
  EXPECT_EQ(rig.status().pending, 0u);
}

// close() waits for the end of a call that could not be sealed.
TEST_P(TcpSecurity, CloseAtOnceAfterAFailedSeal_EndsTheCallOnce) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  security->seals_left = 0;
  auto failed = rig.call(test_call(security, words({1})));
  rig.close();
  EXPECT_FALSE(failed.get().reply);
}

// --- the handshake

struct SealedHandshake {
  std::shared_ptr<FakeSecurity> security;
  std::vector<Recovery> failures;
  std::vector<Layer> layers;
};

Task<Result<>> shake_sealed(SealedHandshake* h, rpc::RpcTransport* t) {
  rpc::Call c = test_call(h->security, words({1000}));
  c.handshake = true;
  Outcome o = co_await t->call(c);
  if (o.reply) co_return Result<>{};
  h->failures.push_back(o.reply.error().recovery);
  h->layers.push_back(o.reply.error().layer);
  co_return fail(o.reply.error());
}

// A handshake's call is not sent again: its connection is what it is about.
TEST_P(TcpSecurity, HandshakeWhoseReplyDoesNotVerify_IsMadeAgainOnTheNextConnection) {
  Peer peer([](Listener& l) {
    const auto shake = [&](PeerSocket& s, Flaw flaw) {
      s.close();
      s = l.accept();
      const auto call = next_call(s);
      ASSERT_TRUE(call);
      s.write_record(seal_reply(*call, {}, flaw));
    };
    PeerSocket s;
    shake(s, Flaw::kNone);
    EXPECT_TRUE(next_call(s));
    shake(s, Flaw::kVerifier);
    EXPECT_TRUE(s.closed_by_client());
    shake(s, Flaw::kNone);
    echo_all(s);
  });
  SealedHandshake h{security, {}, {}};
  rpc::TransportHooks hooks;
  hooks.on_connected = [&h](rpc::RpcTransport& t) { return shake_sealed(&h, &t); };
  Rig rig(quick_options(peer.port()), std::move(hooks));
  rig.must_start();
  const Outcome o = rig.call(test_call(security, words({4}))).get();
  EXPECT_EQ(results_of(o), words({4}));
  EXPECT_EQ(o.transmissions, 2u);
  rig.close();
  EXPECT_EQ(h.failures, std::vector<Recovery>{Recovery::kReconnect});
  EXPECT_EQ(h.layers, std::vector<Layer>{Layer::kSecurity}) << "its caller takes another context";
}

}  // namespace
}  // namespace nfsrdma::test
