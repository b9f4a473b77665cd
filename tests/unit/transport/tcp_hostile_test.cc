// SPDX-License-Identifier: Apache-2.0
// TcpTransport and a server that breaks the rules: the consequence, and that the next connection works.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "tests/unit/transport/support/rig.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

struct Offence {
  const char* name;
  // What the server sends instead of a reply to the call with this XID.
  std::function<ByteVector(uint32_t)> bytes;
  const char* reason;  // part of last_error
};

class TcpHostile : public testing::TestWithParam<Offence> {};

TEST_P(TcpHostile, CostsTheConnection_CallIsAnsweredOnTheNext) {
  const Offence& offence = GetParam();
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto first = s.read_record();
    ASSERT_TRUE(first);
    s.write(offence.bytes(xid_of(*first)));
    EXPECT_TRUE(s.closed_by_client());
    s = l.accept();
    const auto second = s.read_record();
    EXPECT_EQ(first, second);
    s.write_record(echo(second.value_or(call_head())));
    EXPECT_TRUE(s.closed_by_client());
  });
  tcp::TcpOptions options = quick_options(peer.port());
  options.max_record_bytes = 100'000;
  Rig rig(options);
  rig.must_start();
  const Outcome o = rig.call(words({1, 2, 3})).get();
  EXPECT_TRUE(o.reply) << text(o);
  EXPECT_EQ(o.transmissions, 2u);
  EXPECT_EQ(rig.status().bad_messages, 1u);
  EXPECT_NE(rig.status().last_error.find(offence.reason), std::string::npos) << rig.status().last_error;
}

INSTANTIATE_TEST_SUITE_P(
    Offences, TcpHostile,
    testing::Values(
        Offence{"RecordOverTheLimit", [](uint32_t) { return words({0x80000000u | 100'001}); }, "larger"},
        Offence{"LargestLength",
                [](uint32_t) {
                  return words({0xffffffff, 1, 1});
                },
                "larger"},
        Offence{"FragmentsOverTheLimit",
                [](uint32_t x) {
                  return record(concat({words({x, 1}), pattern(100'000, 1)}), 999);
                },
                "larger"},
        Offence{"CallOverTheLimit",
                [](uint32_t x) {
                  return record(concat({words({x, 0}), pattern(70'000, 1)}));
                },
                "call record larger"},
        Offence{"EmptyRecord", [](uint32_t) { return words({0x80000000u}); }, "too short"},
        Offence{"ShortRecord", [](uint32_t x) { return record(words({x})); }, "too short"},
        Offence{"UnknownMessageType",
                [](uint32_t x) {
                  return record(words({x, 2, 0, 0}));
                },
                "neither call nor reply"},
        Offence{"EndlessEmptyFragments", [](uint32_t) { return ByteVector(4000); }, "empty record fragments"},
        Offence{"HttpServer",
                [](uint32_t) {
                  const ConstBytes text = as_const_bytes("HTTP/1.1 400 Bad Request\r\n\r\n");
                  return ByteVector(text.begin(), text.end());
                },
                "larger"}),
    [](const auto& offence) { return offence.param.name; });

TEST(TcpHostileReplies, UnknownAndDuplicateReplies_AreIgnoredAndCounted) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    const ByteVector answer = echo(*call);
    s.write_record(reply(xid_of(*call) + 1, pattern(50'000, 1)));
    s.write_record(answer);
    s.write_record(answer);  // a second time
    s.write_record(reply(xid_of(*call) - 1));
    const auto next = s.read_record();
    ASSERT_TRUE(next);
    s.write_record(echo(*next));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  const Outcome o = rig.call(words({2})).get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 2u);
  EXPECT_EQ(rig.status().bad_messages, 3u);
  EXPECT_EQ(rig.status().connects, 1u);
}

TEST(TcpHostileReplies, MoreDataThanTheSink_CostsTheCallAndNothingIsOverwritten) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const size_t excess : {size_t{1}, size_t{4}, size_t{500'000}}) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), read_results(pattern(10'000 + excess, 1))));
    }
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(echo(*call));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (int i = 0; i < 3; ++i) {
    const Slice memory = rig.pool().slice(16384);
    std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0xee});
    const Outcome o = rig.read(memory.subslice(0, 10'000)).get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().errnum, EIO);
    EXPECT_EQ(o.reply.error().recovery, Recovery::kPermanent);
    EXPECT_NE(describe(o.reply.error()).find("more data than was asked for"), std::string::npos)
        << describe(o.reply.error());
    EXPECT_EQ(std::count(memory.bytes.begin(), memory.bytes.end(), std::byte{0xee}), 16384);
  }
  EXPECT_TRUE(rig.call(words({1})).get().reply) << "the connection is still good";
  EXPECT_EQ(rig.status().connects, 1u);
  EXPECT_EQ(rig.status().bad_messages, 3u);
}

TEST(TcpHostileReplies, DataEndsBeforeItsLength_CostsTheCall) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const size_t keep : {size_t{0}, size_t{1}, size_t{9'999}}) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      const ByteVector whole = reply(xid_of(*call), read_results(pattern(10'000, 1)));
      s.write_record(ConstBytes(whole).first(kReadDataOffset + keep));
    }
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(echo(*call));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  for (int i = 0; i < 3; ++i) {
    const Outcome o = rig.read(rig.pool().slice(16384)).get();
    ASSERT_FALSE(o.reply);
    EXPECT_EQ(o.reply.error().errnum, EIO);
  }
  EXPECT_TRUE(rig.call(words({1})).get().reply);
  EXPECT_EQ(rig.status().connects, 1u);
}

// XIDs are in sequence, so a server can guess the next one. A reply to a call that the server has not
// received completely is invalid. This server reads on only when the client has connected again: a client
// whose call is received as fast as it is sent may have sent all of it before it looks for a reply.
TEST(TcpHostileReplies, ReplyBeforeTheCallIsSentCompletely_CostsTheConnection) {
  constexpr size_t kBytes = 32u << 20;  // more than both sockets can buffer
  Peer peer([&](Listener& l) {
    PeerSocket first = l.accept();
    const ByteVector start = first.read_bytes(1000);
    ASSERT_EQ(start.size(), 1000u);
    first.write_record(reply(word_at(start, 4), words({1})));
    PeerSocket s = l.accept();
    size_t more = 0;
    for (size_t n = 1; n > 0; more += n) n = first.read_bytes(1u << 20).size();
    EXPECT_LT(more, kBytes) << "the client went on with a call it had an answer for";
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    EXPECT_EQ(call->size(), kCallHeaderBytes + kBytes);
    s.write_record(reply(xid_of(*call), words({2})));
    EXPECT_TRUE(s.closed_by_client());
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  const Outcome o = rig.call(pattern(kBytes, 1)).get();
  ASSERT_TRUE(o.reply) << text(o);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 2u) << "the early answer was not taken";
  EXPECT_EQ(o.transmissions, 2u);
  EXPECT_EQ(rig.status().bad_messages, 1u);
}

TEST(TcpHostileReplies, ServerAnswersEveryConnectionWithGarbage_ClientBacksOffAndCanBeClosed) {
  std::atomic<bool> done{false};
  Peer peer([&](Listener& l) {
    for (int i = 0; i < 20; ++i) {
      PeerSocket s = l.accept();
      s.write(pattern(1000, static_cast<uint32_t>(i)));
      while (!s.read_bytes(1000).empty()) {
      }
    }
    done = true;
    EXPECT_TRUE(eventually([&] {
      if (!l.quiet()) l.accept();
      return !done;
    }));
  });
  Rig rig(quick_options(peer.port()));
  rig.must_start();
  auto outcome = rig.call(words({1}));
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  rig.close();
  done = false;
  EXPECT_EQ(outcome.get().reply.error().recovery, Recovery::kInterrupted);
  EXPECT_GE(rig.status().connects, 20u);
}

}  // namespace
}  // namespace nfsrdma::test
