// SPDX-License-Identifier: Apache-2.0
// MPA start-up frames and the negotiation, without a socket.
#include "transport/fabric/iwarp/mpa.h"

#include <gtest/gtest.h>

#include "tests/golden/hex.h"
#include "tests/unit/fabric/support/captured.h"

namespace nfsrdma::fabric::iwarp {
namespace {

using Kind = StartupFrame::Kind;
using golden::from_hex;
namespace captured = test::captured;

StartupTerms terms(uint16_t ird, uint16_t ord, bool crc = false) {
  return {crc, ird, ord, from_hex("f6ab0e1801010303")};
}

TEST(MpaFrame, CapturedRequest_IsReadAndWritten) {
  const ByteVector bytes = from_hex(captured::kMpaRequest);
  const auto f = decode_startup(bytes, Kind::kRequest);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->revision, 2);
  EXPECT_FALSE(f->crc || f->markers || f->rejected);
  ASSERT_TRUE(f->enhanced);
  EXPECT_EQ(*f->enhanced, (iwarp::Enhanced{128, 0, false, false, false, false}));
  EXPECT_EQ(f->private_data, from_hex("f6ab0e1801010303"));
  EXPECT_EQ(encode(*f), bytes);
  EXPECT_EQ(encode(make_request(terms(128, 0))), bytes) << "ours is the same";
}

TEST(MpaFrame, CapturedReply_IsReadAndWritten) {
  const ByteVector bytes = from_hex(captured::kMpaReply);
  const auto f = decode_startup(bytes, Kind::kReply);
  ASSERT_TRUE(f);
  EXPECT_EQ(*f->enhanced, (iwarp::Enhanced{0, 128, false, false, false, false}));
  EXPECT_EQ(encode(*f), bytes);
  const auto agreed = judge_reply(terms(128, 0), *f);
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->ord, 0);
  EXPECT_EQ(agreed->ird, 128);
  EXPECT_FALSE(agreed->crc);
}

TEST(MpaFrame, CutAtEveryByte_IsNoFrame) {
  const ByteVector bytes = from_hex(captured::kMpaRequest);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode_startup(ConstBytes(bytes).first(n), Kind::kRequest)) << n;
  }
}

// "MPA implementations MUST use the difference between the MPA Request Frame and the MPA Reply Frame to check
// for incorrect 'Initiator/Initiator' startups" (RFC 5044 section 7.1.2 rule 8).
TEST(MpaFrame, RequestIsNoReply) {
  EXPECT_FALSE(decode_startup(from_hex(captured::kMpaRequest), Kind::kReply));
  EXPECT_FALSE(decode_startup(from_hex(captured::kMpaReply), Kind::kRequest));
}

// "if the length of the Private Data field exceeds 512 octets, the receiver MUST close the connection".
TEST(MpaFrame, PrivateDataUpTo512Bytes) {
  StartupFrame f;
  f.private_data.resize(kMaxPrivateData);
  EXPECT_TRUE(decode_startup(encode(f), Kind::kRequest));
  f.private_data.resize(kMaxPrivateData + 1);
  EXPECT_FALSE(decode_startup(encode(f), Kind::kRequest));
}

TEST(MpaFrame, EnhancedWithoutRoomForIt_IsRefused) {
  EXPECT_FALSE(
      decode_startup(from_hex("4d504120494420526571204672616d65 10 02 0003 010203"), Kind::kRequest));
}

// Res "MUST be set to zero when sending, and not checked on reception"; in revision 1 the S bit is part of
// it.
TEST(MpaFrame, ReservedBitsOfRevision1_MeanNothing) {
  const auto f = decode_startup(from_hex("4d504120494420526571204672616d65 1f 01 0002 abcd"), Kind::kRequest);
  ASSERT_TRUE(f);
  EXPECT_FALSE(f->enhanced);
  EXPECT_EQ(f->private_data, from_hex("abcd"));
}

TEST(MpaFrame, EveryFlag_ComesBack) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    StartupFrame f;
    f.kind = Kind::kReply;
    f.markers = bits & 1;
    f.crc = bits & 2;
    f.rejected = bits & 4;
    if (bits & 8) {
      auto& e = f.enhanced.emplace();
      e.ird = 0x3fff;
      e.ord = 0x1234;
      e.peer_to_peer = bits & 16;
      e.rtr_send = e.peer_to_peer && (bits & 32);
      e.rtr_write = e.peer_to_peer && (bits & 64);
      e.rtr_read = e.peer_to_peer && (bits & 128);
    }
    const auto back = decode_startup(encode(f), Kind::kReply);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, f);
  }
}

StartupFrame reply_with(uint16_t ird, uint16_t ord) {
  StartupFrame f;
  f.kind = Kind::kReply;
  f.enhanced.emplace();
  f.enhanced->ird = ird;
  f.enhanced->ord = ord;
  return f;
}

// "the initiator MUST set its IRD at least to the responder ORD and its ORD at most to the responder IRD"
// (RFC 6581 section 9.1).
TEST(MpaActive, Ord_IsAtMostTheirIrd) {
  EXPECT_EQ(judge_reply(terms(8, 8), reply_with(3, 8))->ord, 3);
  EXPECT_EQ(judge_reply(terms(8, 8), reply_with(30, 8))->ord, 8);
  EXPECT_EQ(judge_reply(terms(8, 8), reply_with(kDepthNotNegotiated, 8))->ord, 8);
  EXPECT_TRUE(judge_reply(terms(8, 8), reply_with(8, kDepthNotNegotiated)));
}

// "If the initiator does not have sufficient resources for the required IRD, it MUST send a TERM message."
TEST(MpaActive, TheirOrdAboveOurIrd_IsTerminated) {
  const auto r = judge_reply(terms(8, 8), reply_with(8, 9));
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().terminate, term::kInsufficientIrd);
}

TEST(MpaActive, WhatWeDoNot_IsRefused) {
  StartupFrame markers = reply_with(8, 8);
  markers.markers = true;
  EXPECT_FALSE(judge_reply(terms(8, 8), markers));
  StartupFrame rejected = reply_with(8, 8);
  rejected.rejected = true;
  EXPECT_EQ(judge_reply(terms(8, 8), rejected).error().error.errnum, ECONNREFUSED);
  StartupFrame future = reply_with(8, 8);
  future.revision = 3;
  EXPECT_FALSE(judge_reply(terms(8, 8), future));
  StartupFrame rtr = reply_with(8, 8);
  rtr.enhanced->peer_to_peer = rtr.enhanced->rtr_read = true;
  EXPECT_EQ(judge_reply(terms(8, 8), rtr).error().terminate, term::kNoMatchingRtr);
}

TEST(MpaActive, Revision1_IsAcceptedWithOneRead) {
  StartupFrame old;
  old.kind = Kind::kReply;
  old.revision = 1;
  const auto agreed = judge_reply(terms(8, 8), old);
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->ord, 1);
  EXPECT_EQ(agreed->ird, 8);
}

// "When this bit is '1' in either the MPA Request Frame or MPA Reply Frame, CRCs MUST be generated and
// checked by both endpoints."
TEST(Mpa, Crc_IfEitherSideAsks) {
  for (const bool mine : {false, true}) {
    for (const bool theirs : {false, true}) {
      StartupFrame reply = reply_with(8, 8);
      reply.crc = theirs;
      EXPECT_EQ(judge_reply(terms(8, 8, mine), reply)->crc, mine || theirs);
      const auto answer = make_answer(terms(8, 8, mine), make_request(terms(8, 8, theirs)));
      EXPECT_EQ(answer->agreed.crc, mine || theirs);
      EXPECT_EQ(answer->reply.crc, mine || theirs);
    }
  }
}

TEST(MpaPassive, CapturedRequest_IsAnsweredWithinItsDepths) {
  const auto request = decode_startup(from_hex(captured::kMpaRequest), Kind::kRequest);
  const auto a = make_answer(terms(64, 64), *request);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->agreed.ord, 64);
  EXPECT_EQ(a->agreed.ird, 0) << "it asks for no Reads";
  EXPECT_EQ(a->reply.enhanced->ord, 64);
  EXPECT_EQ(a->reply.enhanced->ird, 0);
  EXPECT_FALSE(a->reply.enhanced->peer_to_peer);
}

// "The responder MUST respond to an initiator ORD value of 0x3FFF by leaving its local endpoint IRD value
// unchanged and setting the IRD to 0x3FFF in its reply message."
TEST(MpaPassive, AllOnes_AreAnsweredInKind) {
  const auto a = make_answer(terms(5, 6), make_request(terms(kDepthNotNegotiated, kDepthNotNegotiated)));
  ASSERT_TRUE(a);
  EXPECT_EQ(a->agreed.ird, 5);
  EXPECT_EQ(a->agreed.ord, 6);
  EXPECT_EQ(a->reply.enhanced->ird, kDepthNotNegotiated);
  EXPECT_EQ(a->reply.enhanced->ord, kDepthNotNegotiated);
}

// "If Control Flag A is 1 in the MPA Request message, then the responder MUST set Control Flag A to 1 in the
// MPA reply message."
TEST(MpaPassive, PeerToPeer_IsAnswered) {
  StartupFrame request = make_request(terms(4, 0));
  request.enhanced->peer_to_peer = request.enhanced->rtr_read = true;
  const auto a = make_answer(terms(4, 4), request);
  ASSERT_TRUE(a);
  EXPECT_TRUE(a->reply.enhanced->peer_to_peer && a->reply.enhanced->rtr_read);
  EXPECT_EQ(a->agreed.ird, 1) << "room for the zero-length Read";
}

// "A host accepting MPA connections MUST continue to accept MPA Requests with version one."
TEST(MpaPassive, Revision1_IsAnsweredInRevision1) {
  StartupFrame request;
  request.revision = 1;
  const auto a = make_answer(terms(4, 4), request);
  ASSERT_TRUE(a);
  EXPECT_EQ(a->reply.revision, 1);
  EXPECT_FALSE(a->reply.enhanced);
  EXPECT_EQ(a->agreed.ord, 1);
}

TEST(MpaPassive, MarkersAndUnknownRevisions_AreRefused) {
  StartupFrame markers = make_request(terms(4, 4));
  markers.markers = true;
  EXPECT_FALSE(make_answer(terms(4, 4), markers));
  EXPECT_TRUE(make_rejection(markers).rejected);
  for (const uint8_t revision : {uint8_t{0}, uint8_t{3}, uint8_t{255}}) {
    StartupFrame f;
    f.revision = revision;
    EXPECT_FALSE(make_answer(terms(4, 4), f));
  }
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp
