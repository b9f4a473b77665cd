// SPDX-License-Identifier: Apache-2.0
// The client and a server that may send anything. A defect ends the call that it answers, or the connection,
// and nothing else. Errors get the reaction that the standard requires.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/hostile.h"

namespace nfsrdma::test {
namespace {

// --- which version

// RFC 8166 section 4.5.1: "it MUST reply with an RDMA_ERROR procedure and set the rdma_err value to
// ERR_VERS"; draft section 7: version 1 continues on the same connection. The answer is Linux 6.1's: it
// returns XID and version.
TEST_F(Hostile, ServerOfVersion1_IsSpokenToOverTheSameConnection) {
  script = [&](size_t connection, const header& in, size_t) {
    EXPECT_EQ(connection, 0U);
    if (in.vers == 2) return server.send(connection, encoded(error_to(in, {ERR_VERS, 1, 1})));
    ok(connection, in);
  };
  start(Versions::kAuto);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(messages, 2U);
}

TEST_F(Hostile, ServerOfOtherVersions_IsNotSpokenTo) {
  script = [&](size_t connection, const header& in, size_t) {
    server.send(connection, encoded(error_to(in, {ERR_VERS, 3, 4})));
  };
  start(Versions::kAuto, false);
}

TEST_F(Hostile, Version2WasAskedFor_Version1IsNotTaken) {
  script = [&](size_t connection, const header& in, size_t) {
    server.send(connection, encoded(error_to(in, {ERR_VERS, 1, 1})));
  };
  start(Versions::kOnly2, false);
}

// Draft section 7.2: after the first message or its connection was lost, the next connection begins with
// version 1, and so do all later ones.
TEST_F(Hostile, SilenceToVersion2_MeansVersion1OnANewConnection) {
  negotiation_timeout = std::chrono::milliseconds(50);
  script = [&](size_t connection, const header& in, size_t) {
    if (in.vers == 1) ok(connection, in);
  };
  start(Versions::kAuto);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_TRUE(server.connected(2));
}

TEST_F(Hostile, ConnectionLostByVersion2_MeansVersion1OnEveryLaterOne) {
  script = [&](size_t connection, const header& in, size_t nth) {
    if (in.vers == 2 || nth == 1) return server.side(connection)->disconnect({});
    ok(connection, in);
  };
  start(Versions::kAuto);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_TRUE(server.connected(3));
}

// A lost connection says nothing about the server's versions; ERR_VERS does.
TEST_F(Hostile, ServerOfVersion2OnlyThatLostAConnection_IsSpokenToAgain) {
  script = [&](size_t connection, const header& in, size_t nth) {
    if (nth == 0) return server.side(connection)->disconnect({});
    if (in.vers == 1) return server.send(connection, encoded(error_to(in, {ERR_VERS, 2, 2})));
    if (!properties(connection, in)) ok(connection, in);
  };
  start(Versions::kAuto);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().rdma->version, 2u);
}

TEST_F(Hostile, GarbageToVersion2_MeansVersion1) {
  script = [&](size_t connection, const header& in, size_t) {
    if (in.vers == 1) return ok(connection, in);
    server.send(connection, words({in.xid, 2, 1, 9, 0}));  // of the other draft
  };
  start(Versions::kAuto);
  EXPECT_EQ(errno_of(plain_call()), 0);
}

// --- credits

// Section 3.3.1 of RFC 8166: one call before the first reply, then as many as are granted, never more.
TEST_F(Hostile, Credits_AreNotExceeded) {
  std::atomic<size_t> outstanding{0};
  std::atomic<size_t> most{0};
  std::vector<header> waiting;
  script = [&](size_t connection, const header& in, size_t nth) {
    most = std::max<size_t>(most, ++outstanding);
    waiting.push_back(in);
    const size_t limit = nth == 0 ? 1 : 3;
    if (waiting.size() < limit) return;
    for (const header& call : std::exchange(waiting, {})) {
      --outstanding;
      header h = answer_to(call);
      h.credit = 4;  // the fourth is reserved for lease renewals
      server.send(connection, encoded(h, reply(call.xid)));
    }
  };
  start(Versions::kOnly1);
  std::vector<std::future<rpc::Outcome>> calls;
  for (int i = 0; i < 31; ++i) calls.push_back(client->call(plain_call()));
  for (auto& call : calls) EXPECT_TRUE(call.get().reply);
  EXPECT_EQ(most, 3U);
}

TEST_F(Hostile, CreditsOfZeroAndOfFourBillion_AreTakenForWhatMakesSense) {
  script = [&](size_t connection, const header& in, size_t nth) {
    header h = answer_to(in);
    h.credit = nth % 2 == 0 ? 0 : UINT32_MAX;
    server.send(connection, encoded(h, reply(in.xid)));
  };
  start(Versions::kOnly1);
  std::vector<std::future<rpc::Outcome>> calls;
  for (int i = 0; i < 200; ++i) calls.push_back(client->call(plain_call()));
  for (auto& call : calls) EXPECT_TRUE(call.get().reply);
}

// --- defective replies

struct BadReply {
  const char* name;
  std::function<void(header& answer, ByteVector& body)> spoil;
};
void PrintTo(const BadReply& b, std::ostream* out) {
  *out << b.name;
}

const BadReply kBadReplies[] = {
    {"ReadList",
     [](header& h, ByteVector&) {
       h.chunks.reads = {{0, {1, 2, 3}}};
     }},
    {"OtherHandle", [](header& h, ByteVector&) { h.chunks.writes[0][0].handle ^= 1; }},
    {"OtherOffset", [](header& h, ByteVector&) { h.chunks.writes[0][0].offset += 1; }},
    {"MoreThanOffered", [](header& h, ByteVector&) { h.chunks.writes[0][0].length = 65537; }},
    {"OneSegmentMore",
     [](header& h, ByteVector&) {
       h.chunks.writes.add_segment({1, 2, 3});
     }},
    {"OneChunkMore", [](header& h, ByteVector&) { h.chunks.writes.add_chunk(); }},
    {"PlacedAndNotSaid", [](header& h, ByteVector&) { h.chunks.writes[0][0].length = 100; }},
    {"PlacedByAReadThatFailed",
     [](header& h, ByteVector& body) {
       h.chunks.writes[0][0].length = 100;
       body.resize(kReplyHeaderBytes);
       const ByteVector status = words({5});
       body.insert(body.end(), status.begin(), status.end());
     }},
    {"ReplyChunkNotOffered",
     [](header& h, ByteVector&) {
       h.chunks.has_reply = true;
       h.chunks.reply = {{1, 2, 3}};
     }},
    {"LongWithoutAChunk",
     [](header& h, ByteVector& body) {
       h.type = RDMA_NOMSG;
       body.clear();
     }},
    {"NoRpcReply", [](header&, ByteVector& body) { body.resize(8); }},
};

class HostileReply : public Hostile, public testing::WithParamInterface<BadReply> {};

// A defective reply ends only its own call: the next call on the same connection gets its reply.
TEST_P(HostileReply, CostsItsOwnCallOnly) {
  script = [&](size_t connection, const header& in, size_t nth) {
    EXPECT_EQ(connection, 0U);
    if (nth != 1) return ok(connection, in);
    header h = answer_to(in);
    h.chunks = in.chunks;
    for (segment& s : h.chunks.writes[0]) s.length = 0;
    ByteVector body = reply(in.xid, words({0, 0}));
    GetParam().spoil(h, body);
    server.send(connection, encoded(h, body));
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(errno_of(read_call(65536)), EIO);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().connects, 1U);
}

std::string name_of_bad_reply(const testing::TestParamInfo<BadReply>& reply) {
  return reply.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, HostileReply, testing::ValuesIn(kBadReplies), name_of_bad_reply);

// A Write chunk in a reply to a call that offered none.
TEST_F(Hostile, ReplyWithAWriteChunkThatWasNotOffered_CostsItsOwnCallOnly) {
  script = [&](size_t connection, const header& in, size_t nth) {
    EXPECT_EQ(connection, 0U);
    header h = answer_to(in);
    if (nth == 1) h.chunks.writes.add_chunk();
    server.send(connection, encoded(h, reply(in.xid)));
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(errno_of(plain_call()), EIO);
  EXPECT_EQ(errno_of(plain_call()), 0);
}

// --- a Write chunk that the server did not use

struct UnusedChunk {
  const char* name;
  std::function<void(write_list&)> give_back;
};
void PrintTo(const UnusedChunk& u, std::ostream* out) {
  *out << u.name;
}

const UnusedChunk kUnusedChunks[] = {
    // RFC 8166 section 4.3.2.2: "returns only empty segments in that Write chunk".
    {"EmptySegments", [](write_list&) {}},
    // RFC 8267 section 6.4.1: "an NFS version 4 server MUST return an empty Write chunk in that Write list
    // position".
    {"NoSegments",
     [](write_list& w) {
       w.clear();
       w.add_chunk();
     }},
    {"NoList", [](write_list& w) { w.clear(); }},
};

class Unused : public Hostile, public testing::WithParamInterface<UnusedChunk> {
 protected:
  // A READ answered with these results, and with its chunk as the parameter returns it.
  rpc::Outcome read_answered_with(const ByteVector& results) {
    script = [this, results](size_t connection, const header& in, size_t nth) {
      if (nth == 0) return ok(connection, in);
      header h = answer_to(in);
      h.chunks.writes = in.chunks.writes;
      for (segment& s : h.chunks.writes[0]) s.length = 0;
      GetParam().give_back(h.chunks.writes);
      server.send(connection, encoded(h, reply(in.xid, results)));
    };
    start(Versions::kOnly1);
    EXPECT_EQ(errno_of(plain_call()), 0);
    return client->call(read_call(65536)).get();
  }
};

// The failure is NFS': the caller gets the results.
TEST_P(Unused, ByAReadThatFailed_TheStatusComesThrough) {
  const rpc::Outcome outcome = read_answered_with(words({5}));
  ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
  EXPECT_FALSE(outcome.reply->placed);
  EXPECT_EQ(word_at(outcome.reply->head, kReplyHeaderBytes), 5U);
  EXPECT_EQ(client->status().bad_messages, 0U);
}

TEST_P(Unused, ByAReadAtTheEnd_NothingIsThere) {
  const rpc::Outcome outcome = read_answered_with(words({0, 0}));
  ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
  EXPECT_FALSE(outcome.reply->placed);
  EXPECT_EQ(client->status().rdma->reads_chunk_unused, 0U) << "there were no data to be placed";
}

// RFC 8267 section 6.4.1 requires the data in the chunk; a server that sends it inline is understood.
TEST_P(Unused, ByAReadWithData_TheyAreInline) {
  const ByteVector data = pattern(100, 1);
  const rpc::Outcome outcome = read_answered_with(read_results(data));
  ASSERT_TRUE(outcome.reply) << describe(outcome.reply.error());
  EXPECT_FALSE(outcome.reply->placed);
  EXPECT_TRUE(std::ranges::equal(ConstBytes(outcome.reply->head).subspan(kReadDataOffset, 100), data));
  EXPECT_EQ(client->status().rdma->reads_chunk_unused, 1U);
}

std::string name_of_unused(const testing::TestParamInfo<UnusedChunk>& unused) {
  return unused.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, Unused, testing::ValuesIn(kUnusedChunks), name_of_unused);

// --- messages that answer no call, or are no replies

TEST_F(Hostile, ReplyToNothing_IsIgnored) {
  script = [&](size_t connection, const header& in, size_t) {
    header other = answer_to(in);
    other.xid ^= 0x80000000;
    server.send(connection, encoded(other, reply(other.xid)));
    server.send(connection, encoded(error_to(other, {ERR_CHUNK, 0, 0})));
    ok(connection, in);
  };
  start(Versions::kOnly1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().bad_messages, 20U);
}

// RFC 8167 section 5.3: reverse calls are inline. A call with chunks is refused and changes nothing.
TEST_F(Hostile, CallsOfTheServerWithChunks_AreRefused) {
  std::vector<header> refused;
  script = [&](size_t connection, const header& in, size_t) {
    if (in.vers == 2 && properties(connection, in)) return;
    if (in.type == RDMA_ERROR) return refused.push_back(in);
    for (const bool reads : {true, false}) {
      header call;
      call.xid = reads ? 0x51 : 0x52;
      call.vers = 2;
      call.credit = 8;
      const segment somewhere{0x1000, 64, 0};
      if (reads) call.chunks.reads.push_back({40, somewhere});
      if (!reads) call.chunks.writes.add(std::span(&somewhere, 1));
      ByteVector message = call_head();
      store_be32(message.data(), call.xid);
      server.send(connection, encoded(call, message));
    }
    ok(connection, in);
  };
  start(Versions::kOnly2);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_TRUE(eventually([&] { return messages == 4; }));
  call_on(*loop, [&] {
    ASSERT_EQ(refused.size(), 2u);
    EXPECT_EQ(refused[0].xid, 0x51u);
    EXPECT_EQ(refused[0].error, (rpcrdma::error{RDMA2_ERR_READ_CHUNKS, 0, 0}));
    EXPECT_EQ(refused[1].xid, 0x52u);
    EXPECT_EQ(refused[1].error, (rpcrdma::error{RDMA2_ERR_WRITE_CHUNKS, 0, 0}));
  });
}

// RFC 8166 section 4.6: "silently discarded".
TEST_F(Hostile, ObsoleteTypes_AreDiscarded) {
  script = [&](size_t connection, const header& in, size_t) {
    server.send(connection, words({in.xid, 1, 32, RDMA_DONE}));
    server.send(connection, words({in.xid, 1, 32, RDMA_MSGP, 4, 4096, 0, 0, 0}));
    ok(connection, in);
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().bad_messages, 0U);
}

// Messages cut at every byte: a call that gets such an answer fails, or is answered on the next connection;
// nothing else happens.
TEST_F(Hostile, HeaderCutAnywhere_DoesNoHarm) {
  std::atomic<size_t> cut{0};
  script = [&](size_t connection, const header& in, size_t) {
    header h = answer_to(in);
    h.chunks = in.chunks;
    for (size_t i = 0; i < h.chunks.writes.size(); ++i) h.chunks.writes[i][0].length = 0;
    ByteVector whole = encoded(h, reply(in.xid, words({0, 0})));
    if (cut < whole.size()) whole.resize(cut++);
    server.send(connection, whole);
  };
  start(Versions::kOnly1);
  while (true) {
    const size_t before = cut;
    const int errnum = errno_of(read_call(65536));
    EXPECT_TRUE(errnum == 0 || errnum == EIO) << errnum;
    if (cut == before) break;
  }
}

// --- errors, version 1

TEST_F(Hostile, ErrChunkToARead_IsEio) {
  script = [&](size_t connection, const header& in, size_t nth) {
    if (nth == 0) return ok(connection, in);
    server.send(connection, encoded(error_to(in, {ERR_CHUNK, 0, 0})));
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(errno_of(read_call(65536)), EIO);
  EXPECT_EQ(messages, 2U);
}

// RFC 8267 section 3.1: the call is sent again with a longer Reply chunk and a new XID, once.
TEST_F(Hostile, ErrChunkToAReplyThatWasTooLong_IsAskedAgainOnce) {
  std::vector<header> calls;
  script = [&](size_t connection, const header& in, size_t) {
    calls.push_back(in);
    server.send(connection, encoded(error_to(in, {ERR_CHUNK, 0, 0})));
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), EIO);
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_FALSE(calls[0].chunks.has_reply);
  EXPECT_TRUE(calls[1].chunks.has_reply);
  EXPECT_GE(chunk_bytes(calls[1].chunks.reply), size_t{1} << 20);
  EXPECT_NE(calls[0].xid, calls[1].xid);
  EXPECT_EQ(errno_of(plain_call({}, 2000)), EIO);
  ASSERT_GE(calls.size(), 3U);
  EXPECT_TRUE(calls[2].chunks.has_reply) << "it does not Send more than everybody does";
}

// --- memory

// RFC 8166 section 8.1: once the reply has arrived, the server must not access the memory.
TEST_F(Hostile, WriteAfterTheReply_IsRefused) {
  std::vector<segment> offered;
  script = [&](size_t connection, const header& in, size_t nth) {
    if (nth == 0) {
      offered.assign(in.chunks.writes.all().begin(), in.chunks.writes.all().end());
      static const ByteVector late = pattern(65536, 7);
      ok(connection, in);
      server.side(connection)->write(offered.at(0), late, nullptr, 0, false);
      return;
    }
    if (connection > 0) ok(connection, in);
  };
  start(Versions::kOnly1);
  rpc::Call call = read_call(65536);
  const Slice sink = call.sink.destination;
  std::ranges::fill(sink.bytes, std::byte{0x5a});
  ASSERT_TRUE(client->call(std::move(call)).get().reply);
  // The connection ends; the memory is unchanged, and the next connection works.
  EXPECT_TRUE(eventually([&] { return client->status().connects == 2; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_TRUE(std::ranges::all_of(sink.bytes, [](std::byte b) { return b == std::byte{0x5a}; }));
}

// The caller of a call has gone (e.g. its session is lost), so its memory is closed before its reply arrives.
class Abandoned : public Hostile {
 protected:
  std::optional<header> call_;  // the call without a reply
  size_t connection_ = 0;

  // Makes a READ and gives it up.
  std::future<rpc::Outcome> abandon(Slice& sink, Versions versions = Versions::kOnly1) {
    script = [this](size_t connection, const header& in, size_t) {
      if (properties(connection, in)) return;
      if (call_) return ok(connection, in);
      connection_ = connection;
      call_ = in;
    };
    start(versions);
    rpc::Call call = read_call(65536);
    sink = call.sink.destination;
    std::ranges::fill(sink.bytes, std::byte{0x5a});
    auto outcome = client->call(std::move(call));
    EXPECT_TRUE(eventually([&] { return messages == (versions == Versions::kOnly1 ? 1 : 2); }));
    call_on(*loop, [&] {
      client->transport().fail_pending({.layer = Layer::kNfs,
                                        .recovery = Recovery::kPermanent,
                                        .errnum = EIO,
                                        .cause = "its session is gone"});
    });
    return outcome;
  }
};

TEST_F(Abandoned, ItsReply_GivesTheCreditBack_AndNothingElse) {
  Slice sink;
  EXPECT_FALSE(abandon(sink).get().reply);
  EXPECT_EQ(client->status().rdma->segments_open, 0U);
  EXPECT_EQ(client->status().rdma->credits_in_use, 1U);
  call_on(*loop, [&] { ok(connection_, *call_); });
  EXPECT_TRUE(eventually([&] { return client->status().rdma->credits_in_use == 0; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().bad_messages, 0U);
}

// The server sent its reply before it could know.
TEST_F(Abandoned, ItsReplyWithInvalidation_IsNoViolation) {
  Slice sink;
  EXPECT_FALSE(abandon(sink, Versions::kOnly2).get().reply);
  call_on(*loop, [&] {
    header h = answer_to(*call_);
    h.chunks = call_->chunks;
    h.chunks.writes[0][0].length = 0;
    server.send(connection_, encoded(h, reply(call_->xid)), call_->chunks.writes[0][0].handle);
  });
  EXPECT_TRUE(eventually([&] { return client->status().rdma->credits_in_use == 0; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().bad_messages, 0U);
}

TEST_F(Abandoned, ItsMemory_IsOutOfReach) {
  Slice sink;
  EXPECT_FALSE(abandon(sink).get().reply);
  const ByteVector late = pattern(65536, 7);
  call_on(*loop,
          [&] { server.side(connection_)->write(call_->chunks.writes.all()[0], late, nullptr, 0, false); });
  EXPECT_TRUE(eventually([&] { return client->status().connects == 2; }));
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_TRUE(std::ranges::all_of(sink.bytes, [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(Hostile, RemoteInvalidationOfAnotherCallsHandle_CostsTheConnectionOnly) {
  std::vector<header> calls;
  script = [&](size_t connection, const header& in, size_t nth) {
    if (nth == 0 || connection > 0) return ok(connection, in);
    calls.push_back(in);
    if (calls.size() < 2) return;
    header h = answer_to(calls[0]);
    h.chunks = calls[0].chunks;
    h.chunks.writes[0][0].length = 0;
    server.send(connection, encoded(h, reply(calls[0].xid, words({0, 0}))),
                calls[1].chunks.writes[0][0].handle);
  };
  start(Versions::kOnly1);
  EXPECT_EQ(errno_of(plain_call()), 0);
  auto a = client->call(read_call(65536));
  auto b = client->call(read_call(65536));
  EXPECT_TRUE(a.get().reply);
  EXPECT_TRUE(b.get().reply);
  EXPECT_EQ(client->status().connects, 2U);
}

}  // namespace
}  // namespace nfsrdma::test
