// The client's reaction to each error of version 2: a call is sent again where more of something may mend it,
// once for each improvement, and ends otherwise; the connection goes on.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/hostile.h"

namespace nfsrdma::test {
namespace {

class Version2Errors : public Hostile {
 protected:
  std::vector<header> calls;
  // Answers the first call with `e`, later ones with success.
  void answer_first(rpcrdma::error e) {
    script = [this, e](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      calls.push_back(in);
      if (calls.size() == 1) return server.send(connection, encoded(error_to(in, e)));
      header h = answer_to(in);
      h.chunks = in.chunks;
      h.chunks.reads.clear();
      for (size_t i = 0; i < h.chunks.writes.size(); ++i) h.chunks.writes[i][0].length = 0;
      for (segment& s : h.chunks.reply) s.length = 0;
      server.send(connection, encoded(h, reply(in.xid, words({0, 0}))));
    };
    start(Versions::kOnly2);
  }
  rpc::Call write_call(size_t size) {
    rpc::Call c = plain_call(words({1}), 64);
    const Slice data = client->pool().slice(size);
    c.bulks = {{c.head.size(), data.bytes, c.head.size()}};
    c.keep = {data};
    return c;
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

TEST_F(Version2Errors, ReplyResource_IsSentAgainWithWhatIsNeeded) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 20000, 0});
  EXPECT_EQ(errno_of(plain_call()), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), 20000U);
}

TEST_F(Version2Errors, ReplyResourceOfNothingOrOfTooMuch_IsEio) {
  answer_first({RDMA2_ERR_REPLY_RESOURCE, 0, 0});
  EXPECT_EQ(errno_of(plain_call()), EIO);
  calls.clear();
  script = [this](size_t connection, const header& in, size_t) {
    calls.push_back(in);
    server.send(connection, encoded(error_to(in, {RDMA2_ERR_REPLY_RESOURCE, UINT32_MAX, 0})));
  };
  EXPECT_EQ(errno_of(plain_call()), EIO);
  EXPECT_EQ(calls.size(), 1U);
}

// A server that always wants more is not asked for ever.
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

TEST_F(Version2Errors, WriteResource_IsSentAgainWithoutTheChunk) {
  answer_first({RDMA2_ERR_WRITE_RESOURCE, 1, 100000});
  EXPECT_EQ(errno_of(read_call(65536)), 0);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_TRUE(calls[1].chunks.writes.empty());
}

// "i = n = 0": the transaction is terminated.
TEST_F(Version2Errors, WriteResourceOfNothing_IsEio) {
  answer_first({RDMA2_ERR_WRITE_RESOURCE, 0, 0});
  EXPECT_EQ(errno_of(read_call(65536)), EIO);
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
