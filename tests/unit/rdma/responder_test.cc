// SPDX-License-Identifier: Apache-2.0
// The Responder and a client that may send anything: the test writes every byte of these messages. A defect
// affects its own message or the connection, and nothing else.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/raw_client.h"

namespace nfsrdma::test {
namespace {

class ResponderV1 : public RawClient {};
class ResponderV2 : public RawClient {};
class ResponderBoth : public RawClientOfBoth {};
INSTANTIATE_TEST_SUITE_P(Versions, ResponderBoth, testing::Values(kVersion1, kVersion2));

// --- versions ---

// RFC 8166 section 4.5: low and high have the same place in every version, and the failing version is
// returned.
TEST_P(ResponderBoth, UnknownVersion_IsToldWhatThereIs) {
  ByteVector message;
  encode(message, header_of(kVersion1));
  store_be32(message.data() + 4, 9);
  send(message);
  ASSERT_TRUE(client.receives(1));
  EXPECT_EQ(client.message(0), words({kXid, 9, kCreditsGranted, RDMA_ERROR, ERR_VERS, 1, 2}));
  expect_service(1, vers());
}

// Version 2 section 7.3: the version of a connection does not change.
TEST_P(ResponderBoth, OtherVersionLater_IsErrVers) {
  expect_service(0, vers());
  const uint32_t other = 3 - vers();
  send(header_of(other), rpc_call(kXid));
  ASSERT_TRUE(client.receives(2));
  EXPECT_EQ(client.message(1), words({kXid, other, kCreditsGranted, RDMA_ERROR, ERR_VERS, 1, 2}));
  expect_service(2, vers());
}

// --- headers ---

TEST_P(ResponderBoth, XidOfTheMessageIsAnotherOne_IsRefused) {
  send(header_of(vers()), rpc_call(kXid + 1));
  expect_error(0, vers(), refusal(RDMA2_ERR_BAD_XDR));
  send(header_of(vers()), words({kXid}));
  expect_error(1, vers(), refusal(RDMA2_ERR_BAD_XDR));
  EXPECT_EQ(calls, 0u);
  expect_service(2, vers());
}

// RFC 8166: "A Responder MUST silently discard RDMA_ERROR procedures". A malformed one is not answered
// either: otherwise two ends would never stop.
TEST_P(ResponderBoth, Errors_AreNotAnswered) {
  expect_service(0, vers());
  header h = header_of(vers(), kXid, RDMA_ERROR);
  h.flags = vers() == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
  h.error = {RDMA2_ERR_SYSTEM, 0, 0};
  if (vers() == kVersion1) h.error = {ERR_CHUNK, 0, 0};
  ByteVector message;
  encode(message, h);
  send(message);
  message.resize(message.size() - 4);
  send(message);
  store_be32(message.data() + 16, 0);  // without F_RESPONSE, in the version that has flags
  send(message);
  for (const uint32_t other : {3 - vers(), 9u}) {  // also not in a version that this Responder does not
                                                   // support
    store_be32(message.data() + 4, other);
    send(message);
  }
  expect_service(1, vers());
}

// An error does not decide the version of the connection.
TEST_P(ResponderBoth, ErrorBeforeAnythingElse_IsNotAMessageOfItsVersion) {
  header h = header_of(3 - vers(), kXid, RDMA_ERROR);
  h.error = {ERR_CHUNK, 0, 0};
  send(h);
  expect_service(0, vers());
}

TEST_P(ResponderBoth, HeaderCutAnywhere_DoesNoHarm) {
  header h = header_of(vers());
  ByteVector memory = pattern(64, 1);
  for (const segment& s : expose(memory, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({40, s});
  h.chunks.has_reply = true;
  h.chunks.reply = {{1, 2, 3}};
  ByteVector whole;
  encode(whole, h);
  for (size_t size = kPrefixBytes; size < whole.size(); ++size) {
    send(ConstBytes(whole).first(size));
    // If the end of the header is unknown, there is no message.
    expect_error(size - kPrefixBytes, vers(), refusal(RDMA2_ERR_BAD_XDR));
  }
  EXPECT_EQ(calls, 0u);
  expect_service(whole.size() - kPrefixBytes, vers());
}

TEST_P(ResponderBoth, MessageWithoutAPrefix_CostsTheConnection) {
  send(words({kXid, vers(), 1}));
  EXPECT_TRUE(client.disconnects());
}

// RFC 8166 section 4.6: RDMA_DONE is discarded silently, RDMA_MSGP is answered with ERR_CHUNK.
TEST_F(ResponderV1, ObsoleteTypes_AreDiscardedOrRefused) {
  expect_service(0, kVersion1);
  send(words({kXid, 1, 8, RDMA_DONE}));
  send(words({kXid, 1, 8, RDMA_MSGP, 64, 1024, 0, 0, 0}));
  expect_error(1, kVersion1, {ERR_CHUNK, 0, 0});
  expect_service(2, kVersion1);
}

TEST_F(ResponderV2, UnknownTypes_AreInvalHtype) {
  expect_service(0, kVersion2);
  for (const uint32_t type : {2u, 3u, 6u, 13u, 0xffffffffu})
    send(words({kXid + type, 2, 8, type, 0, 0, 0, 0, 0}));
  size_t i = 1;
  for (const uint32_t type : {2u, 3u, 6u, 13u, 0xffffffffu})
    expect_error(i++, kVersion2, {RDMA2_ERR_INVAL_HTYPE, 0, 0}, kXid + type);
  expect_service(i, kVersion2);
}

// --- properties (version 2 section 4, 5.3.4) ---

TEST_F(ResponderV2, Properties_AreAnsweredOnce) {
  header h = header_of(kVersion2, kXid, RDMA2_CONNPROP);
  h.properties.receive_buffer_bytes = 2048;
  send(h);
  const header answered = received(0);
  EXPECT_EQ(answered.type, RDMA2_CONNPROP);
  EXPECT_EQ(answered.xid, kXid);
  EXPECT_EQ(answered.flags, RPCRDMA2_F_RESPONSE);
  EXPECT_EQ(answered.credit, kCreditsGranted);
  EXPECT_EQ(answered.properties.receive_buffer_bytes, 8192u);
  send(h);  // "are not allowed to change subsequently"
  expect_service(1, kVersion2);
}

// Section 4.1: the receiver must answer a malformed known property with BAD_XDR.
TEST_F(ResponderV2, MalformedProperties_AreBadXdr) {
  send(words({kXid, 2, 8, RDMA2_CONNPROP, 0, 1, RDMA2_PROPID_RBSIZ, 2, 0}));  // two bytes of a uint32
  expect_error(0, kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0});
  send(words({kXid, 2, 8, RDMA2_CONNPROP, 0, 1, RDMA2_PROPID_BRS, 4, 3}));  // no such level
  expect_error(1, kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0});
  send(words({kXid, 2, 8, RDMA2_CONNPROP, 0, 2, RDMA2_PROPID_RBSIZ, 4, 4096}));  // one property instead of
                                                                                 // the announced two
  expect_error(2, kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0});
  send(words({kXid, 2, 8, RDMA2_CONNPROP, 0, 1, RDMA2_PROPID_RBSIZ, 0x7fffffff, 0}));
  expect_error(3, kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0});
  expect_service(4, kVersion2);
}

// A response is never answered.
TEST_F(ResponderV2, ResponsesThatAreMalformed_AreNotAnswered) {
  expect_service(0, kVersion2);
  send(words({kXid, 2, 8, RDMA_MSG, RPCRDMA2_F_RESPONSE, 0, 7}));
  send(words({kXid, 2, 8, 2, RPCRDMA2_F_RESPONSE, 0, 0}));
  send(words({kXid, 2, 8, RDMA2_CONNPROP, RPCRDMA2_F_RESPONSE, 1, RDMA2_PROPID_RBSIZ, 2, 0}));
  expect_service(1, kVersion2);
}

// Section 3.2: "When the rdma_start.rdma_htype field has the value RDMA2_MSG or RDMA2_NOMSG, the value of the
// RPCRDMA2_F_RESPONSE flag MUST be the same as the value of the associated RPC message's msg_type field." A
// message with the flag is not answered and not executed, whatever else it contains.
TEST_F(ResponderV2, CallsThatSayTheyAreResponses_AreNotExecutedAndNotAnswered) {
  expect_service(0, kVersion2);
  calls = 0;
  header h = header_of(kVersion2);
  h.flags = RPCRDMA2_F_RESPONSE;
  send(h, rpc_call(kXid));
  send(h, rpc_call(kXid + 1));  // also with another XID
  send(h, words({kXid}));
  ByteVector memory = rpc_call(kXid);
  h.type = RDMA_NOMSG;
  for (const segment& s : expose(memory, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({0, s});
  send(h);
  expect_service(1, kVersion2);
  EXPECT_EQ(calls, 1U) << "that one";
}

TEST_F(ResponderV2, RepliesThatSayTheyAreNone_AreBadXdr) {
  expect_service(0, kVersion2);
  calls = 0;
  send(header_of(kVersion2), reply(kXid));
  expect_error(1, kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0});
  EXPECT_EQ(calls, 0U);
  expect_service(2, kVersion2);
}

// Version 1 has no flag: the RPC message itself determines the direction.
TEST_F(ResponderV1, ReplyOfAnotherXid_IsNotAnswered) {
  expect_service(0, kVersion1);
  calls = 0;
  send(header_of(kVersion1), reply(kXid + 1));
  expect_service(1, kVersion1);
  EXPECT_EQ(calls, 1U) << "that one";
}

// --- chunks ---

TEST_P(ResponderBoth, PositionZeroInline_IsRefused) {
  ByteVector memory = rpc_call(kXid);
  header h = header_of(vers());
  for (const segment& s : expose(memory, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({0, s});
  send(h, rpc_call(kXid));
  expect_error(0, vers(), refusal(RDMA2_ERR_BAD_XDR));
  // A long call without a Position-Zero Read chunk is refused, too.
  send(header_of(vers(), kXid, RDMA_NOMSG));
  expect_error(1, vers(), refusal(RDMA2_ERR_BAD_XDR));
  EXPECT_EQ(calls, 0u);
  expect_service(2, vers());
}

// RFC 8166 section 4.3.1: "position" is the place of a chunk's bytes in the message, also in addition to a
// chunk of position zero.
TEST_P(ResponderBoth, LongCallWithAnotherChunk_IsPutTogether) {
  const ByteVector before = pattern(40, 1), data = pattern(3001, 2), after = pattern(12, 3);
  ByteVector rest = rpc_call(kXid, concat({before, after}));
  ByteVector item = data;
  header h = header_of(vers(), kXid, RDMA_NOMSG);
  for (const segment& s : expose(rest, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({0, s});
  const auto position = static_cast<uint32_t>(kCallHeaderBytes + before.size());
  for (const segment& s : expose(item, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({position, s});
  ByteVector room(8192);
  h.chunks.has_reply = true;
  h.chunks.reply = expose(room, fabric::Access::kRemoteWrite);
  send(h);
  ByteVector inline_reply;
  const header answered = received(0, &inline_reply);
  const ByteVector expected =
      reply(kXid, concat({before, data, ByteVector(xdr_padding(data.size())), after}));
  // 3 KiB fit inline, so the Reply chunk may stay empty.
  EXPECT_EQ(answered.type, RDMA_MSG);
  EXPECT_EQ(inline_reply, expected);
}

// A long call is completely in its chunk (section 3.5.3 of RFC 8166): additional inline bytes have no place
// in it.
TEST_P(ResponderBoth, LongCallWithBytesBehindItsHeader_IsRefused) {
  for (const bool another : {false, true}) {
    ByteVector rest = rpc_call(kXid, pattern(40, 1));
    ByteVector item = pattern(3000, 2);
    header h = header_of(vers(), kXid, RDMA_NOMSG);
    for (const segment& s : expose(rest, fabric::Access::kRemoteRead)) h.chunks.reads.push_back({0, s});
    // Behind the data of the chunk of position zero: where the additional bytes would be.
    const auto position = static_cast<uint32_t>(rest.size() + 400);
    if (another) {
      for (const segment& s : expose(item, fabric::Access::kRemoteRead))
        h.chunks.reads.push_back({position, s});
    }
    send(h, pattern(2000, 3));
    expect_error(another ? 1 : 0, vers(), refusal(RDMA2_ERR_BAD_XDR));
  }
  EXPECT_EQ(calls, 0u);
  expect_service(2, vers());
}

TEST_P(ResponderBoth, MoreChunksThanItTakes_AreRefusedWithTheLimit) {
  const segment s{0x1000, 4, 0};
  header h = header_of(vers());
  for (const uint32_t position : {40u, 44u, 48u}) h.chunks.reads.push_back({position, s});
  send(h, rpc_call(kXid));
  expect_error(0, vers(), refusal(RDMA2_ERR_READ_CHUNKS, 2));
  h = header_of(vers());
  for (int i = 0; i < 4; ++i) h.chunks.reads.push_back({40, s});
  send(h, rpc_call(kXid));
  expect_error(1, vers(), refusal(RDMA2_ERR_SEGMENTS, 3));
  h = header_of(vers());
  for (int i = 0; i < 2; ++i) h.chunks.writes.add(std::span(&s, 1));
  send(h, rpc_call(kXid));
  expect_error(2, vers(), refusal(RDMA2_ERR_WRITE_CHUNKS, 1));
  h = header_of(vers());
  h.chunks.has_reply = true;
  h.chunks.reply.assign(4, s);
  send(h, rpc_call(kXid));
  expect_error(3, vers(), refusal(RDMA2_ERR_SEGMENTS, 3));
  EXPECT_EQ(calls, 0u);
  expect_service(4, vers());
}

// Lengths are checked before anything is read: a length that is only claimed must not cost memory.
TEST_P(ResponderBoth, ChunksLongerThanAnyCall_AreRefusedUnread) {
  header h = header_of(vers());
  for (int i = 0; i < 3; ++i) h.chunks.reads.push_back({40, {0x1000, 0xffffffff, 0}});
  send(h, rpc_call(kXid));
  expect_error(0, vers(), refusal(RDMA2_ERR_BAD_XDR));
  h = header_of(vers(), kXid, RDMA_NOMSG);
  h.chunks.reads = {{0, {0x1000, 100'001, 0}}};
  send(h);
  expect_error(1, vers(), refusal(RDMA2_ERR_BAD_XDR));
  h.chunks.reads = {{0, {0x1000, 4, 0}}};  // shorter than an XID and a message type
  send(h);
  expect_error(2, vers(), refusal(RDMA2_ERR_BAD_XDR));
  h = header_of(vers());
  h.chunks.reads = {{4000, {0x1000, 4, 0}}};  // behind the end of the message
  send(h, rpc_call(kXid));
  expect_error(3, vers(), refusal(RDMA2_ERR_BAD_XDR));
  h.chunks.reads = {{41, {0x1000, 4, 0}}};  // not a multiple of four
  send(h, rpc_call(kXid));
  expect_error(4, vers(), refusal(RDMA2_ERR_BAD_XDR));
  EXPECT_EQ(calls, 0u);
  expect_service(5, vers());
}

TEST_P(ResponderBoth, ReadChunkThatIsNotThere_CostsTheConnection) {
  header h = header_of(vers());
  h.chunks.reads = {{40, {0xdead, 64, 0}}};
  send(h, rpc_call(kXid));
  EXPECT_TRUE(client.disconnects());
  EXPECT_EQ(calls, 0u);
}

// RFC 8166 section 3.4.6.2: the returned length is that of the item, without padding. RFC 8267 section 6.4.2:
// a chunk that is too small is an error.
TEST_P(ResponderBoth, WriteChunk_IsFilledOrSaidToBeTooSmall) {
  read_bytes = 1001;
  ByteVector room(1004, std::byte{0xee});
  header h = header_of(vers());
  const std::vector<segment> exposed = expose(room, fabric::Access::kRemoteWrite);
  h.chunks.writes.add(exposed);
  send(h, rpc_call(kXid));
  ByteVector rest;
  const header answered = received(0, &rest);
  ASSERT_EQ(answered.chunks.writes.size(), 1u);
  EXPECT_EQ(answered.chunks.writes[0][0].length, 1001u);
  EXPECT_EQ(rest, reply(kXid, words({0, 1001}))) << "the length stays, data and padding do not";
  EXPECT_TRUE(std::ranges::equal(std::span(room).first(1001), pattern(1001, kXid)));
  EXPECT_EQ(room[1001], std::byte{0xee}) << "no padding is written";

  h.xid = kXid + 1;
  segment small = exposed[0];
  small.length = 1000;
  h.chunks.writes.clear();
  h.chunks.writes.add(std::span(&small, 1));
  send(h, rpc_call(kXid + 1));
  const rpcrdma::error too_small = vers() == kVersion1 ? rpcrdma::error{ERR_CHUNK, 0, 0}
                                                       : rpcrdma::error{RDMA2_ERR_WRITE_RESOURCE, 1, 1001};
  expect_error(1, vers(), too_small, kXid + 1);
  read_bytes = SIZE_MAX;
  expect_service(2, vers());
}

TEST_P(ResponderBoth, LongReply_GoesToTheReplyChunkOrSaysWhatItNeeds) {
  read_bytes = 20'000;
  ByteVector room(30'000);
  header h = header_of(vers());
  h.chunks.has_reply = true;
  h.chunks.reply = expose(room, fabric::Access::kRemoteWrite);
  send(h, rpc_call(kXid));
  const header answered = received(0);
  const ByteVector expected = reply(kXid, read_results(pattern(20'000, kXid)));
  EXPECT_EQ(answered.type, RDMA_NOMSG);
  ASSERT_TRUE(answered.chunks.has_reply);
  EXPECT_EQ(chunk_bytes(answered.chunks.reply), expected.size());
  EXPECT_TRUE(std::ranges::equal(std::span(room).first(expected.size()), expected));

  h.xid = kXid + 1;
  h.chunks.reply[0].length = 20'000;
  send(h, rpc_call(kXid + 1));
  expect_error(1, vers(), refusal(RDMA2_ERR_REPLY_RESOURCE, static_cast<uint32_t>(expected.size())),
               kXid + 1);
  // A call without a Reply chunk gets the same error.
  send(header_of(vers(), kXid + 2), rpc_call(kXid + 2));
  expect_error(2, vers(), refusal(RDMA2_ERR_REPLY_RESOURCE, static_cast<uint32_t>(expected.size())),
               kXid + 2);
}

// --- credits ---

// RFC 8166 section 3.3.1: "A Requester MUST NOT send unacknowledged requests in excess of the Responder's
// granted credit limit." One more is allowed, for the first message of version 2.
TEST_P(ResponderBoth, MoreCallsThanCredits_CostTheConnection) {
  silent = true;
  for (uint32_t i = 0; i <= kCreditsGranted; ++i) send(header_of(vers(), kXid + i), rpc_call(kXid + i));
  EXPECT_TRUE(eventually([&] { return calls == kCreditsGranted + 1; }));
  EXPECT_TRUE(client.disconnected().empty());
  send(header_of(vers(), kXid + 100), rpc_call(kXid + 100));
  EXPECT_TRUE(client.disconnects());
  EXPECT_EQ(calls, kCreditsGranted + 1);
}

// A repeated XID does not avoid the count: a long call takes memory before anything is known of it.
TEST_P(ResponderBoth, ACallWithTheXidOfAnOutstandingOne_CostsTheConnection) {
  silent = true;
  send(header_of(vers()), rpc_call(kXid));
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  send(header_of(vers()), rpc_call(kXid));
  EXPECT_TRUE(client.disconnects());
  EXPECT_EQ(calls, 1u);
}

}  // namespace
}  // namespace nfsrdma::test
