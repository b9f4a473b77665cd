// SPDX-License-Identifier: Apache-2.0
// The client's reaction to each error of version 2. A call is sent again if offering more of something may
// help, once for each improvement; otherwise it ends. The connection stays.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/rdma/support/hostile.h"

namespace nfsrdma::test {
namespace {

class Version2Errors : public Hostile {
 protected:
  std::vector<header> calls;
  // Answers the first call with `e`, and later calls with success.
  void answer_first(rpcrdma::error e) {
    script = [this, e](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      calls.push_back(in);
      if (calls.size() == 1) return server.send(connection, encoded(error_to(in, e)));
      ok(connection, in, words({0, 0}));
    };
    start(Versions::kOnly2);
  }
};

TEST_F(Version2Errors, ReadChunks_IsSentAgainAsALongCall) {
  answer_first({RDMA2_ERR_READ_CHUNKS, 1, 0});
  EXPECT_EQ(errno_of(write_call(65536)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].type, RDMA_MSG);
  EXPECT_NE(calls[0].chunks.reads.at(0).position, 0U);
  EXPECT_EQ(calls[1].type, RDMA_NOMSG);
  EXPECT_EQ(calls[1].chunks.reads.at(0).position, 0U);
  EXPECT_EQ(calls[0].xid, calls[1].xid) << "the same XID";
}

TEST_F(Version2Errors, ReadChunksToALongCall_IsEio) {
  answer_first({RDMA2_ERR_READ_CHUNKS, 1, 0});
  EXPECT_EQ(errno_of(plain_call(pattern(20000, 1))), EIO);
  EXPECT_EQ(calls.size(), 1U);
}

TEST_F(Version2Errors, WriteChunks_IsSentAgainWithAReplyChunk) {
  answer_first({RDMA2_ERR_WRITE_CHUNKS, 0, 0});
  EXPECT_EQ(errno_of(read_call(65536)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].chunks.writes.size(), 1U);
  EXPECT_TRUE(calls[1].chunks.writes.empty());
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 65536U);
}

// --- SEGMENTS

constexpr size_t kPiece = 8192;  // length of each segment while memory is opened in several

class TooManySegments : public Version2Errors {
 protected:
  // Memory is opened in pieces, until the server has reported that it accepts at most `most` of them.
  void answer_first_with(uint32_t most) {
    account->segment_bytes = kPiece;
    answer_first({RDMA2_ERR_SEGMENTS, most, 0});
    script = [this, script = script](size_t connection, const header& in, size_t nth) {
      if (in.type != RDMA2_CONNPROP) account->segment_bytes = SIZE_MAX;
      script(connection, in, nth);
    };
  }
};

TEST_F(TooManySegments, OfAReadChunk_TheCallIsOneBuffer) {
  answer_first_with(4);
  EXPECT_EQ(errno_of(write_call(8 * kPiece)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].chunks.reads.size(), 8U);
  EXPECT_EQ(calls[1].type, RDMA_NOMSG);
  ASSERT_EQ(calls[1].chunks.reads.size(), 1U);
  EXPECT_EQ(calls[1].chunks.reads[0].position, 0U);
  EXPECT_EQ(calls[0].xid, calls[1].xid);
}

TEST_F(TooManySegments, OfAWriteChunk_TheReplyIsOneBuffer) {
  answer_first_with(1);
  EXPECT_EQ(errno_of(read_call(8 * kPiece)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].chunks.writes[0].size(), 8U);
  EXPECT_TRUE(calls[1].chunks.writes.empty());
  EXPECT_EQ(calls[1].chunks.reply.size(), 1U);
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 8 * kPiece);
}

// What already is one buffer cannot have fewer segments.
TEST_F(TooManySegments, OfALongCall_IsEio) {
  answer_first_with(2);
  EXPECT_EQ(errno_of(plain_call(pattern(3 * kPiece, 1))), EIO);
  EXPECT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].chunks.reads.size(), 4U);
}

TEST_F(TooManySegments, OfAReplyChunk_IsEio) {
  answer_first_with(2);
  EXPECT_EQ(errno_of(plain_call({}, 3 * kPiece)), EIO);
  EXPECT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].chunks.reply.size(), 4U);
}

// A limit of zero, or of as many as there were: no other form of the call can help.
TEST_F(TooManySegments, NoneOrNoFewer_IsEio) {
  answer_first_with(0);
  EXPECT_EQ(errno_of(read_call(8 * kPiece)), EIO);
  EXPECT_EQ(calls.size(), 1U);
  calls.clear();
  client.reset();
  answer_first_with(8);
  EXPECT_EQ(errno_of(read_call(8 * kPiece)), EIO);
  EXPECT_EQ(calls.size(), 1U);
}

// --- WRITE_RESOURCE, and REPLY_RESOURCE

// The Reply chunk has room for the item that did not fit, and for the rest.
TEST_F(Version2Errors, WriteResource_IsSentAgainWithRoomForTheWholeReply) {
  // "or to zero to indicate that it was not possible to determine which chunk is too small": there is only
  // one chunk.
  for (const uint32_t index : {0U, 1U}) {
    calls.clear();
    client.reset();
    answer_first({RDMA2_ERR_WRITE_RESOURCE, index, 100'000});
    EXPECT_EQ(errno_of(read_call(65536)), 0);
    ASSERT_EQ(calls.size(), 2U);
    EXPECT_TRUE(calls[1].chunks.writes.empty());
    EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 100'000U + kReadDataOffset);
    EXPECT_EQ(calls[0].xid, calls[1].xid) << "the same XID";
  }
}

struct Nonsense {
  const char* name;
  rpcrdma::error error;
};
void PrintTo(const Nonsense& n, std::ostream* out) {
  *out << n.name;
}

class NonsenseToARead : public Version2Errors, public testing::WithParamInterface<Nonsense> {};

// "MAY choose to terminate the operation (for instance, if the responder set the index and length fields to
// zero)": also if the requested size was already offered, is not possible, or belongs to a chunk that did not
// exist.
TEST_P(NonsenseToARead, IsEioAtOnce) {
  answer_first(GetParam().error);
  EXPECT_EQ(errno_of(read_call(65536)), EIO);
  EXPECT_EQ(calls.size(), 1U);
  EXPECT_EQ(errno_of(plain_call()), 0) << "the connection goes on";
  EXPECT_EQ(client->status().connects, 1U);
}
const Nonsense kNonsense[] = {
    {"NoIndexNoLength", {RDMA2_ERR_WRITE_RESOURCE, 0, 0}},
    {"NoLength", {RDMA2_ERR_WRITE_RESOURCE, 1, 0}},
    {"LessThanOffered", {RDMA2_ERR_WRITE_RESOURCE, 1, 65535}},
    {"AsMuchAsOffered", {RDMA2_ERR_WRITE_RESOURCE, 1, 65536}},
    {"ItemLongerThanAnyReply", {RDMA2_ERR_WRITE_RESOURCE, 1, UINT32_MAX}},
    {"ItemLongerThanReplies", {RDMA2_ERR_WRITE_RESOURCE, 1, (1U << 20) + (64U << 10)}},
    {"SecondOfOneChunk", {RDMA2_ERR_WRITE_RESOURCE, 2, 100'000}},
    {"LastOfOneChunk", {RDMA2_ERR_WRITE_RESOURCE, UINT32_MAX, 100'000}},
    {"ReplyOfNothing", {RDMA2_ERR_REPLY_RESOURCE, 0, 0}},
    {"ReplyLongerThanAnyReply", {RDMA2_ERR_REPLY_RESOURCE, UINT32_MAX, 0}},
    {"ReadChunksOfNone", {RDMA2_ERR_READ_CHUNKS, 1, 0}},
};
std::string name_of(const testing::TestParamInfo<Nonsense>& nonsense) {
  return nonsense.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, NonsenseToARead, testing::ValuesIn(kNonsense), name_of);

// No chunk was offered, so none can be too short, too many or in too many segments.
TEST_F(Version2Errors, ChunksOfAnInlineCall_IsEioAtOnce) {
  for (const rpcrdma::error e : {rpcrdma::error{RDMA2_ERR_WRITE_RESOURCE, 1, 100},
                                 {RDMA2_ERR_READ_CHUNKS, 0, 0},
                                 {RDMA2_ERR_WRITE_CHUNKS, 0, 0},
                                 {RDMA2_ERR_SEGMENTS, 1, 0}}) {
    calls.clear();
    client.reset();
    answer_first(e);
    EXPECT_EQ(errno_of(plain_call()), EIO) << e.code;
    EXPECT_EQ(calls.size(), 1U) << e.code;
  }
}

TEST_F(Version2Errors, ReplyResource_IsSentAgainWithWhatIsNeeded) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 20'000, 0});
  EXPECT_EQ(errno_of(plain_call()), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_FALSE(calls[0].chunks.has_reply);
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 20'000U);
  EXPECT_EQ(calls[0].xid, calls[1].xid) << "the same XID";
}

// The server Sends less inline than it announced: the next such reply gets a Reply chunk at once.
TEST_F(Version2Errors, ReplyResourceToAReplyInline_IsRemembered) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 1500, 0});
  EXPECT_EQ(errno_of(plain_call({}, 2000)), 0);
  EXPECT_EQ(errno_of(plain_call({}, 2000)), 0);
  EXPECT_EQ(errno_of(plain_call({}, 1000)), 0);
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_FALSE(calls[0].chunks.has_reply);
  EXPECT_TRUE(calls[2].chunks.has_reply);
  EXPECT_FALSE(calls[3].chunks.has_reply) << "what is shorter than that it can Send";
}

// `needed` is the size of the rest of the reply: the data of the Write chunk needs room there, too.
TEST_F(Version2Errors, ReplyResourceToAReadWithAWriteChunk_MakesRoomForTheDataAsWell) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 20'000, 0});
  EXPECT_EQ(errno_of(read_call(65536)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_TRUE(calls[1].chunks.writes.empty());
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 20'000U + 65536U);
}

TEST_F(Version2Errors, ReplyResourceOfNothingOrOfTooMuch_IsEio) {
  for (const uint32_t needed : {0U, (1U << 20) + (64U << 10) + 1, UINT32_MAX}) {
    calls.clear();
    client.reset();
    answer_first({RDMA2_ERR_REPLY_RESOURCE, needed, 0});
    EXPECT_EQ(errno_of(plain_call()), EIO) << needed;
    EXPECT_EQ(calls.size(), 1U) << needed;
  }
}

// The Reply chunk already had that length.
TEST_F(Version2Errors, ReplyResourceOfNoMoreThanWasOffered_IsEio) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 20'000, 0});
  EXPECT_EQ(errno_of(plain_call({}, 20'000)), EIO);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_GE(chunk_bytes(calls[0].chunks.reply), 20'000U);
}

// A server that always requires more is not asked for ever.
TEST_F(Version2Errors, ReplyResourceAgainAndAgain_Ends) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 5000, 0});
  EXPECT_EQ(errno_of(plain_call()), 0);
  calls.clear();
  script = [this](size_t connection, const header& in, size_t) {
    calls.push_back(in);
    const auto more = static_cast<uint32_t>(5000 * calls.size());
    server.send(connection, encoded(error_to(in, {RDMA2_ERR_REPLY_RESOURCE, more, 0})));
  };
  EXPECT_EQ(errno_of(plain_call()), EIO);
  EXPECT_LE(calls.size(), 4U);
}

TEST_F(Version2Errors, PermanentOnes_AreEio) {
  for (const errcode code : {RDMA2_ERR_BAD_XDR, RDMA2_ERR_INVAL_HTYPE, RDMA2_ERR_SYSTEM, errcode{77}}) {
    calls.clear();
    if (client) client.reset();
    answer_first({code, 0, 0});
    EXPECT_EQ(errno_of(plain_call()), EIO) << code;
    EXPECT_EQ(calls.size(), 1U);
    EXPECT_EQ(errno_of(plain_call()), 0) << "the connection goes on";
  }
}

// Section 5.3.3: "The receiver of this header type MUST ignore the value of the rdma_start.rdma_credits
// field."
TEST_F(Version2Errors, CreditsOfAnError_AreIgnored) {
  script = [this](size_t connection, const header& in, size_t) {
    header h = answer_to(in);
    h.type = in.type == RDMA2_CONNPROP ? RDMA2_CONNPROP : RDMA_ERROR;
    h.credit = in.type == RDMA2_CONNPROP ? 3 : 32;
    h.error = {RDMA2_ERR_SYSTEM, 0, 0};
    server.send(connection, encoded(h));
  };
  start(Versions::kOnly2);
  EXPECT_EQ(errno_of(plain_call()), EIO);
  EXPECT_EQ(client->status().rdma->credits_granted, 3U);
  EXPECT_EQ(client->status().rdma->credits_in_use, 0U);
}

// A server that refuses the first message does not support our version 2: version 1 is used, on a new
// connection. If version 1 is not allowed, there is no connection.
TEST_F(Version2Errors, PropertiesRefused_MeansVersion1) {
  for (const errcode code : {RDMA2_ERR_INVAL_HTYPE, RDMA2_ERR_BAD_XDR, RDMA2_ERR_SYSTEM}) {
    client.reset();
    script = [this, code](size_t connection, const header& in, size_t) {
      if (in.vers == kVersion1) return ok(connection, in);
      EXPECT_EQ(in.type, RDMA2_CONNPROP);
      server.send(connection, encoded(error_to(in, {code, 0, 0})));
    };
    start(Versions::kAuto);
    EXPECT_EQ(errno_of(plain_call()), 0);
    EXPECT_EQ(client->status().rdma->version, 1U);
  }
}

// RFC 8166 section 4.5: "Receipt of this procedure completes the RPC transaction associated with XID in the
// rdma_xid field." The version of a connection does not change, and another connection would get the same
// answer.
TEST_F(Version2Errors, ErrVersToALaterCall_IsEio) {
  for (const Versions versions : {Versions::kOnly1, Versions::kOnly2}) {
    calls.clear();
    client.reset();
    script = [this](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      calls.push_back(in);
      if (calls.size() > 1) return ok(connection, in);
      server.send(connection, encoded(error_to(in, {ERR_VERS, 1, 2})));
    };
    start(versions);
    EXPECT_EQ(errno_of(plain_call()), EIO);
    EXPECT_EQ(calls.size(), 1U);
    EXPECT_EQ(errno_of(plain_call()), 0) << "the connection goes on";
    EXPECT_EQ(client->status().connects, 1U);
  }
}

// --- always an end

// What a call offers; sending the same again would get the same answer.
std::string offer_of(const header& h) {
  size_t reads = 0;
  for (const read_segment& r : h.chunks.reads) reads += r.target.length;
  return std::to_string(h.type) + " reads " + std::to_string(reads) + " writes " +
         std::to_string(chunk_bytes(h.chunks.writes.all())) + " reply " +
         std::to_string(chunk_bytes(h.chunks.reply));
}

// A server with one answer to everything. A call is sent at most four times, each time with another offer,
// and ends. None of its memory stays open, and the connection stays.
TEST_F(Version2Errors, OneErrorToEverything_EndsEveryCall) {
  rpcrdma::error always;
  script = [&](size_t connection, const header& in, size_t) {
    if (properties(connection, in)) return;
    calls.push_back(in);
    server.send(connection, encoded(error_to(in, always)));
  };
  start(Versions::kOnly2);
  constexpr uint32_t kValues[] = {0, 1, 2, 17, 4096, 65536, 65537, 300'000, 1'200'000, UINT32_MAX};
  for (uint32_t code = 1; code <= 11; ++code) {
    for (const uint32_t first : kValues) {
      for (const uint32_t second : kValues) {
        always = {static_cast<errcode>(code), first, second};
        if (code == ERR_VERS && first > second) continue;  // not decoded: not a range
        for (int kind = 0; kind < 4; ++kind) {
          SCOPED_TRACE(testing::Message() << code << " " << first << " " << second << " call " << kind);
          call_on(*loop, [&] { calls.clear(); });
          rpc::Call call = kind == 0   ? plain_call()
                           : kind == 1 ? plain_call(pattern(20'000, 1), 20'000)
                           : kind == 2 ? read_call(65536)
                                       : write_call(65536);
          EXPECT_EQ(errno_of(std::move(call)), EIO);
          std::set<std::string> offers;
          for (const header& h : calls) EXPECT_TRUE(offers.insert(offer_of(h)).second) << offer_of(h);
          EXPECT_LE(calls.size(), 4U);
          ASSERT_EQ(account->open(), 0U);
        }
        if (code != RDMA2_ERR_WRITE_RESOURCE && code != ERR_VERS) break;  // it has no second word
      }
    }
  }
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().rdma->credits_in_use, 0U);
}

// Section 5.3.4: "not allowed to change subsequently".
TEST_F(Version2Errors, PropertiesTwice_AreIgnored) {
  script = [this](size_t connection, const header& in, size_t) {
    if (properties(connection, in)) return;
    header h = answer_to(in);
    h.type = RDMA2_CONNPROP;
    h.properties.receive_buffer_bytes = 1;
    server.send(connection, encoded(h));
    ok(connection, in);
  };
  start(Versions::kOnly2);
  EXPECT_EQ(errno_of(plain_call(pattern(2000, 1))), 0);
  EXPECT_EQ(errno_of(plain_call(pattern(2000, 1))), 0);
}

}  // namespace
}  // namespace nfsrdma::test
