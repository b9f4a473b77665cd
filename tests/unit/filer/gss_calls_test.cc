// SPDX-License-Identifier: Apache-2.0
// Data calls of RPCSEC_GSS at the server: headers, sequence numbers, arguments and replies (RFC 2203 section
// 5.3).
#include "tests/unit/filer/gss_fixture.h"

namespace nfsrdma::filer::test {
namespace {

using security::Verdict;

ByteVector some_words(size_t count) {
  ByteVector bytes(count * 4);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

class GssCallsTest : public GssTest {
 protected:
  GssPeer established(rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none) {
    GssPeer peer = peer_of(alice(), service);
    EXPECT_TRUE(peer.establish(by_judge()));
    return peer;
  }
  rpc::auth_stat why(ByteVector message) { return judge(std::move(message)).why; }
  Verdict::Kind kind(ByteVector message) { return judge(std::move(message)).kind; }
};

TEST_F(GssCallsTest, Arguments_AreWhatTheClientHasProtected) {
  for (const auto service : kServices) {
    GssPeer peer = established(service);
    for (const size_t words : {0, 1, 2, 3, 4, 5, 63, 300'000}) {
      const ByteVector arguments = some_words(words);
      EXPECT_EQ(arguments_of(peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, arguments))), arguments)
          << service << ", " << words;
    }
  }
}

TEST_F(GssCallsTest, Replies_AreWhatTheServerHasProtected) {
  for (const auto service : kServices) {
    GssPeer peer = established(service);
    for (const size_t words : {0, 1, 2, 5, 300'000}) {
      const GssCall call = peer.data();
      const Verdict verdict = judge(peer.encode(call));
      ASSERT_EQ(verdict.kind, Verdict::Kind::kExecute);
      const ByteVector results = some_words(words);
      ByteVector reply(verdict.call->front());
      reply.insert(reply.end(), results.begin(), results.end());
      const size_t most = reply.size() + verdict.call->behind();
      ASSERT_TRUE(verdict.call->seal({.xid = rpc::Xid{call.xid}}, reply));
      EXPECT_LE(reply.size(), most) << "sessions count with it";
      EXPECT_GE(reply.size() + 32, most);
      const auto plain = peer.open(call, reply);
      ASSERT_TRUE(plain) << service << ", " << words;
      EXPECT_EQ(ByteVector(plain->begin() + 24, plain->end()), results);
      // A reply fits its own call only.
      EXPECT_FALSE(peer.open(peer.data(), reply));
    }
  }
}

// "If the status of the reply is not SUCCESS, the rest of the message is formatted as usual."
TEST_F(GssCallsTest, RepliesOtherThanSuccess_AreSignedAndNotWrapped) {
  for (const auto service : kServices) {
    GssPeer peer = established(service);
    const GssCall call = peer.data();
    const Verdict verdict = judge(peer.encode(call));
    ASSERT_EQ(verdict.kind, Verdict::Kind::kExecute);
    rpc::reply_header header{.xid = rpc::Xid{call.xid}, .accepted = rpc::PROG_MISMATCH, .mismatch = {4, 4}};
    ByteVector reply;
    ASSERT_TRUE(verdict.call->seal(header, reply));
    EXPECT_EQ(accepted_as(reply), rpc::PROG_MISMATCH);
    EXPECT_TRUE(peer.open(call, reply));
    header = {.xid = rpc::Xid{call.xid}, .stat = rpc::MSG_DENIED, .denied = rpc::AUTH_ERROR};
    header.why = rpc::AUTH_TOOWEAK;
    ASSERT_TRUE(verdict.call->seal(header, reply));
    EXPECT_EQ(denied_by(reply), rpc::AUTH_TOOWEAK);
  }
}

// "If the GSS_VerifyMIC() call on the header checksum ... fails to return GSS_S_COMPLETE, the server rejects
// the request and returns an auth_stat of RPCSEC_GSS_CREDPROBLEM."
TEST_F(GssCallsTest, AnyChangedByteOfTheHeader_IsFound) {
  GssPeer peer = established(rpc::rpc_gss_svc_integrity);
  GssCall call = peer.data(nfs4::NFSPROC4_COMPOUND, some_words(4));
  const ByteVector good = peer.encode(call);
  xdr::Decoder in(good);
  rpc::call_header header;
  ASSERT_TRUE(in(header));
  const size_t end = in.position();
  for (size_t at = 0; at < end; ++at) {
    if (at >= 4 && at < 12) continue;  // message type and RPC version: no call of RPCSEC_GSS then
    ByteVector other = good;
    other[at] ^= std::byte{1};
    xdr::Decoder again(other);
    rpc::call_header changed;
    if (!again(changed) || changed.cred.flavor != rpc::RPCSEC_GSS) continue;
    EXPECT_NE(kind(other), Verdict::Kind::kExecute) << "byte " << at;
  }
  EXPECT_EQ(kind(good), Verdict::Kind::kExecute) << "what was refused has not used up its sequence number";
}

// The procedure is part of what is signed: a NULL call cannot be made a COMPOUND, nor one call another.
TEST_F(GssCallsTest, CallWhoseProcedureChanges_IsACredentialProblem) {
  GssPeer peer = established();
  ByteVector message = peer.encode(peer.data(nfs4::NFSPROC4_NULL));
  store_be32(message.data() + 20, nfs4::NFSPROC4_COMPOUND);
  EXPECT_EQ(why(message), rpc::RPCSEC_GSS_CREDPROBLEM);
  message = peer.encode(peer.data(nfs4::NFSPROC4_NULL));
  store_be32(message.data(), 4711);  // xid
  EXPECT_EQ(why(message), rpc::RPCSEC_GSS_CREDPROBLEM);
}

TEST_F(GssCallsTest, Verifiers_MustBeThere) {
  GssPeer peer = established();
  ByteVector message = peer.encode(peer.data());
  xdr::Decoder in(message);
  rpc::call_header header;
  ASSERT_TRUE(in(header));
  const auto verifier = static_cast<size_t>(header.verf.body.data() - message.data()) - 8;
  ByteVector none(message.begin(), message.begin() + static_cast<ptrdiff_t>(verifier));
  xdr::Encoder x(none);
  ASSERT_TRUE(x(rpc::opaque_auth{}));
  EXPECT_EQ(why(none), rpc::AUTH_BADVERF);
  none.resize(verifier);
  xdr::Encoder y(none);
  ASSERT_TRUE(y(rpc::opaque_auth{rpc::RPCSEC_GSS, {}}));
  EXPECT_EQ(why(none), rpc::RPCSEC_GSS_CREDPROBLEM);
}

// --- credentials

TEST_F(GssCallsTest, CredentialsThatAreNone_AreBad) {
  GssPeer peer = established();
  GssCall call = peer.data();
  call.cred.version = 2;
  EXPECT_EQ(why(peer.encode(call)), rpc::AUTH_REJECTEDCRED);
  call = peer.data();
  call.cred.v1.gss_proc = static_cast<rpc::rpc_gss_proc_t>(4);
  EXPECT_EQ(why(peer.encode(call)), rpc::AUTH_BADCRED);
  for (const uint32_t service : {0, 4, 77}) {
    call = peer.data();
    call.cred.v1.service = static_cast<rpc::rpc_gss_service_t>(service);
    EXPECT_EQ(why(peer.encode(call)), rpc::AUTH_BADCRED) << service;
  }
  const ByteVector unknown(16), shorter(15), none;
  for (const ByteVector& handle : {unknown, shorter, none}) {
    call = peer.data();
    call.cred.v1.handle = handle;
    EXPECT_EQ(why(peer.encode(call)), rpc::RPCSEC_GSS_CREDPROBLEM) << handle.size();
  }
}

TEST_F(GssCallsTest, AnothersHandle_IsOfNoUse) {
  const GssPeer victim = established();
  GssPeer thief = peer_of(bob());
  ASSERT_TRUE(thief.establish(by_judge()));
  thief.handle = victim.handle;
  EXPECT_EQ(why(thief.encode(thief.data())), rpc::RPCSEC_GSS_CREDPROBLEM);
}

// --- sequence numbers (section 5.3.3.1)

TEST_F(GssCallsTest, Replays_AreSilentlyDiscarded) {
  for (const auto service : kServices) {
    GssPeer peer = established(service);
    const ByteVector message = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
    EXPECT_EQ(kind(message), Verdict::Kind::kExecute);
    EXPECT_EQ(kind(message), Verdict::Kind::kDrop);
    EXPECT_EQ(kind(peer.encode(peer.data())), Verdict::Kind::kExecute);
    EXPECT_EQ(kind(message), Verdict::Kind::kDrop);
  }
}

TEST_F(GssCallsTest, NumbersOutsideOfTheWindow_AreDiscarded) {
  GssPeer peer = established();
  const auto with_number = [&](uint32_t number) {
    GssCall call = peer.data();
    call.cred.v1.seq_num = call.body_sequence = number;
    return kind(peer.encode(call));
  };
  const uint32_t window = peer.seq_window;
  EXPECT_EQ(with_number(10 * window), Verdict::Kind::kExecute);
  EXPECT_EQ(with_number(9 * window), Verdict::Kind::kDrop);
  EXPECT_EQ(with_number(9 * window + 1), Verdict::Kind::kExecute);
  EXPECT_EQ(with_number(9 * window + 1), Verdict::Kind::kDrop);
  EXPECT_EQ(with_number(1), Verdict::Kind::kDrop);
  EXPECT_EQ(with_number(0), Verdict::Kind::kDrop);
  EXPECT_EQ(with_number(10 * window + 1), Verdict::Kind::kExecute);
}

// "When the client's sequence number exceeds the maximum the server will allow, the server will reject the
// request with the reason RPCSEC_GSS_CTXPROBLEM."
TEST_F(GssCallsTest, NumbersAboveTheMaximum_AreAContextProblem) {
  GssPeer peer = established();
  peer.sequence = rpc::MAXSEQ;
  EXPECT_EQ(why(peer.encode(peer.data())), rpc::RPCSEC_GSS_CTXPROBLEM);
  peer.sequence = UINT32_MAX - 1;
  EXPECT_EQ(why(peer.encode(peer.data())), rpc::RPCSEC_GSS_CTXPROBLEM);
  peer.sequence = rpc::MAXSEQ - 1;
  EXPECT_EQ(kind(peer.encode(peer.data())), Verdict::Kind::kExecute);
}

// "(AND if GSS_VerifyMIC() on the header checksum from the verifier returns GSS_S_COMPLETE), the window is
// moved forward": a forged call with a high number must not shut the client out (section 7.2.1).
TEST_F(GssCallsTest, ForgedHighNumber_DoesNotMoveTheWindow) {
  GssPeer peer = established();
  GssPeer thief = peer_of(bob());
  ASSERT_TRUE(thief.establish(by_judge()));
  thief.handle = peer.handle;
  thief.sequence = rpc::MAXSEQ - 1;
  EXPECT_EQ(why(thief.encode(thief.data())), rpc::RPCSEC_GSS_CREDPROBLEM);
  EXPECT_EQ(kind(peer.encode(peer.data())), Verdict::Kind::kExecute);
}

// --- arguments

// "the server will reject the message (with a reply status of MSG_ACCEPTED, and an acceptance status of
// GARBAGE_ARGS) if the sequence number embedded in the request body is different".
TEST_F(GssCallsTest, OtherNumberInTheBody_IsGarbage) {
  for (const auto service : {rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_privacy}) {
    GssPeer peer = established(service);
    GssCall call = peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3));
    ++call.body_sequence;
    const ByteVector reply = answered(peer.encode(call));
    EXPECT_EQ(accepted_as(reply), rpc::GARBAGE_ARGS);
    EXPECT_TRUE(peer.open(call, reply)) << "its verifier is good";
    EXPECT_EQ(kind(peer.encode(call)), Verdict::Kind::kDrop) << "the header was good, so its number is used";
  }
}

// The body of one call in another, under a good header.
TEST_F(GssCallsTest, BodyOfAnotherCall_IsGarbage) {
  for (const auto service : {rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_privacy}) {
    GssPeer peer = established(service);
    const ByteVector first = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
    const ByteVector second = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
    xdr::Decoder in(first);
    rpc::call_header header;
    ASSERT_TRUE(in(header));
    ByteVector mixed(second.begin(), second.begin() + static_cast<ptrdiff_t>(in.position()));
    mixed.insert(mixed.end(), first.begin() + static_cast<ptrdiff_t>(in.position()), first.end());
    EXPECT_EQ(accepted_as(answered(mixed)), rpc::GARBAGE_ARGS);
  }
}

TEST_F(GssCallsTest, ArgumentsCutOrChangedAnywhere_AreGarbage) {
  for (const auto service : {rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_privacy}) {
    GssPeer peer = established(service);
    const size_t body = [&] {
      const ByteVector message = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
      xdr::Decoder in(message);
      rpc::call_header header;
      EXPECT_TRUE(in(header));
      return message.size() - in.position();
    }();
    for (size_t at = 0; at < body; ++at) {
      ByteVector cut = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
      ByteVector changed = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
      const size_t offset = cut.size() - body + at;
      cut.resize(offset);
      changed[offset] ^= std::byte{0x81};
      EXPECT_EQ(accepted_as(answered(cut)), rpc::GARBAGE_ARGS) << service << ", byte " << at;
      EXPECT_EQ(accepted_as(answered(changed)), rpc::GARBAGE_ARGS) << service << ", byte " << at;
    }
    ByteVector longer = peer.encode(peer.data(nfs4::NFSPROC4_COMPOUND, some_words(3)));
    longer.resize(longer.size() + 4);
    EXPECT_EQ(accepted_as(answered(longer)), rpc::GARBAGE_ARGS);
  }
}

// A call that claims privacy and has a body that is only signed; and one that claims integrity and has the
// body in the clear.
TEST_F(GssCallsTest, BodyOfAWeakerService_IsGarbage) {
  GssPeer peer = established();
  const auto with_body_of = [&](rpc::rpc_gss_service_t claimed, rpc::rpc_gss_service_t real) {
    GssCall call = peer.data(nfs4::NFSPROC4_COMPOUND, some_words(8));
    call.cred.v1.service = claimed;
    ByteVector message = peer.encode(call);
    call.cred.v1.service = real;
    const ByteVector other = peer.encode(call);
    const auto arguments_at = [](const ByteVector& bytes) {
      xdr::Decoder in(bytes);
      rpc::call_header header;
      EXPECT_TRUE(in(header));
      return static_cast<ptrdiff_t>(in.position());
    };
    message.resize(static_cast<size_t>(arguments_at(message)));
    message.insert(message.end(), other.begin() + arguments_at(other), other.end());
    return accepted_as(answered(message));
  };
  EXPECT_EQ(with_body_of(rpc::rpc_gss_svc_privacy, rpc::rpc_gss_svc_integrity), rpc::GARBAGE_ARGS);
  EXPECT_EQ(with_body_of(rpc::rpc_gss_svc_privacy, rpc::rpc_gss_svc_none), rpc::GARBAGE_ARGS);
  EXPECT_EQ(with_body_of(rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_none), rpc::GARBAGE_ARGS);
  EXPECT_EQ(with_body_of(rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_privacy), rpc::GARBAGE_ARGS);
}

}  // namespace
}  // namespace nfsrdma::filer::test
