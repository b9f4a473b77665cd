// SPDX-License-Identifier: Apache-2.0
// The client's open handles, and a server that does anything with them. However a call ends, each of its
// handles is closed once, by this side or by the peer, and it is known by which.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/hostile.h"

namespace nfsrdma::test {
namespace {

constexpr size_t kSinkBytes = 65536;
constexpr size_t kSegments = 4;

// A handle that a reply to this call may invalidate, not the last one.
uint32_t handle_in(const header& call) {
  return call.chunks.writes[0][1].handle;
}

struct Spoilt {
  const char* name;
  uint32_t version;
  std::function<ByteVector(const header& call, header answer, const ByteVector& body)> message;
};
void PrintTo(const Spoilt& s, std::ostream* out) {
  *out << s.name << " of version " << s.version;
}

ByteVector cut(const header& h, size_t bytes) {
  ByteVector message = encoded(h);
  message.resize(bytes);
  return message;
}
ByteVector error_message(const header& call, rpcrdma::error e) {
  return encoded(error_to(call, e));
}

// Each of these messages is an answer to the call and ends it.
const Spoilt kSpoilt[] = {
    {"HeaderCut", 1, [](auto&, header h, auto&) { return cut(h, 40); }},
    {"HeaderCut", 2, [](auto&, header h, auto&) { return cut(h, 40); }},
    {"NothingBehindThePrefix", 1, [](auto&, header h, auto&) { return cut(h, 16); }},
    {"NothingBehindThePrefix", 2, [](auto&, header h, auto&) { return cut(h, 16); }},
    {"NoMessage", 1, [](auto&, header h, auto&) { return encoded(h); }},
    {"NoMessage", 2, [](auto&, header h, auto&) { return encoded(h); }},
    {"MessageOfAnotherXid", 1,
     [](auto&, header h, auto& body) {
       ByteVector other = body;
       store_be32(other.data(), ~h.xid);
       return encoded(h, other);
     }},
    {"MessageOfAnotherXid", 2,
     [](auto&, header h, auto& body) {
       ByteVector other = body;
       store_be32(other.data(), ~h.xid);
       return encoded(h, other);
     }},
    {"ReplyThatSaysItIsNone", 2,
     [](auto&, header h, auto& body) {
       h.flags = 0;
       return encoded(h, body);
     }},
    {"CallThatSaysItIsAReply", 2,
     [](auto&, header h, auto&) {
       ByteVector call = call_head();
       store_be32(call.data(), h.xid);
       h.chunks.clear();
       return encoded(h, call);
     }},
    {"UnknownType", 2,
     [](auto&, header h, auto&) {
       return words({h.xid, 2, 32, 3, RPCRDMA2_F_RESPONSE, 0, 0, 0});
     }},
    {"ReadList", 1,
     [](auto&, header h, auto& body) {
       h.chunks.reads = {{0, {1, 2, 3}}};
       return encoded(h, body);
     }},
    {"ChunkOfSomebodyElse", 2,
     [](auto&, header h, auto& body) {
       h.chunks.writes[0][0].handle ^= 1;
       return encoded(h, body);
     }},
    {"ErrChunk", 1,
     [](auto& call, header, auto&) {
       return error_message(call, {ERR_CHUNK, 0, 0});
     }},
    {"System", 2,
     [](auto& call, header, auto&) {
       return error_message(call, {RDMA2_ERR_SYSTEM, 0, 0});
     }},
    {"ErrorCut", 2,
     [](auto& call, header, auto&) {
       ByteVector message = error_message(call, {RDMA2_ERR_REPLY_RESOURCE, 100'000, 0});
       message.resize(message.size() - 4);
       return message;
     }},
};

class Handles : public Hostile {
 protected:
  void start_in(uint32_t version) {
    account->segment_bytes = kSinkBytes / kSegments;
    start(version == kVersion1 ? Versions::kOnly1 : Versions::kOnly2);
  }
  void expect_nothing_open() {
    EXPECT_EQ(account->open(), 0U);
    EXPECT_EQ(client->status().rdma->segments_open, 0U);
  }
};

class SpoiltReply : public Handles, public testing::WithParamInterface<std::tuple<Spoilt, bool>> {};

// Send With Invalidate closes a handle, whatever the message that comes with it contains.
TEST_P(SpoiltReply, ThatInvalidates_LeavesNothingOpen_AndClosesNothingTwice) {
  const auto& [spoilt, later] = GetParam();
  account->closes_later = later;
  script = [&, &spoilt = spoilt](size_t connection, const header& in, size_t) {
    EXPECT_EQ(connection, 0U);
    if (properties(connection, in)) return;
    if (in.chunks.writes.empty()) return ok(connection, in);
    ASSERT_EQ(in.chunks.writes[0].size(), kSegments);
    header h = answer_to(in);
    h.chunks.writes = in.chunks.writes;
    for (segment& s : h.chunks.writes[0]) s.length = 0;
    server.send(connection, spoilt.message(in, h, reply(in.xid, words({0, 0}))), handle_in(in));
  };
  start_in(spoilt.version);
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(errno_of(read_call(kSinkBytes)), EIO);
    EXPECT_EQ(account->opened(), i * kSegments);
    EXPECT_EQ(account->closed_by_peer(), i);
    expect_nothing_open();
  }
  EXPECT_EQ(errno_of(plain_call()), 0);
  EXPECT_EQ(client->status().connects, 1U);
  EXPECT_EQ(client->status().rdma->credits_in_use, 0U);
}
std::string name_of_spoilt(const testing::TestParamInfo<std::tuple<Spoilt, bool>>& info) {
  const auto& [spoilt, later] = info.param;
  return std::string(spoilt.name) + (spoilt.version == kVersion1 ? "One" : "Two") + (later ? "Later" : "");
}
INSTANTIATE_TEST_SUITE_P(All, SpoiltReply, testing::Combine(testing::ValuesIn(kSpoilt), testing::Bool()),
                         name_of_spoilt);

// --- messages that answer no call

struct NoAnswer {
  const char* name;
  uint32_t version;
  std::function<ByteVector(const header& call)> message;
};
void PrintTo(const NoAnswer& n, std::ostream* out) {
  *out << n.name;
}
ByteVector servers_call(const header& call) {
  header h = answer_to(call);
  h.flags = 0;
  ByteVector message = call_head();
  store_be32(message.data(), call.xid);  // both sides choose XIDs independently
  return encoded(h, message);
}
const NoAnswer kNoAnswers[] = {
    {"Done", 1,
     [](auto& call) {
       return words({call.xid, 1, 32, RDMA_DONE});
     }},
    {"Msgp", 1,
     [](auto& call) {
       return words({call.xid, 1, 32, RDMA_MSGP, 4, 4096, 0, 0, 0});
     }},
    {"CallOne", 1, servers_call},
    {"CallTwo", 2, servers_call},
    {"Properties", 2,
     [](auto& call) {
       header h = answer_to(call);
       h.type = RDMA2_CONNPROP;
       return encoded(h);
     }},
};

class InvalidatesByNoAnswer : public Handles, public testing::WithParamInterface<NoAnswer> {};

// RFC 8797 section 4.1 allows this for RPC Replies only. The call waits with a closed handle: the connection
// ends, and the call is sent again on the next one.
TEST_P(InvalidatesByNoAnswer, CostsTheConnectionOnly) {
  script = [&](size_t connection, const header& in, size_t) {
    if (properties(connection, in)) return;
    if (connection > 0 || in.chunks.writes.empty()) return ok(connection, in);
    server.send(connection, GetParam().message(in), handle_in(in));
  };
  start_in(GetParam().version);
  EXPECT_EQ(errno_of(plain_call()), 0);
  auto outcome = client->call(read_call(kSinkBytes));
  EXPECT_TRUE(outcome.get().reply);
  EXPECT_EQ(client->status().connects, 2U);
  expect_nothing_open();
}
std::string name_of_no_answer(const testing::TestParamInfo<NoAnswer>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(All, InvalidatesByNoAnswer, testing::ValuesIn(kNoAnswers), name_of_no_answer);

// --- calls that are sent again

class SentAgain : public Handles, public testing::WithParamInterface<bool> {
 protected:
  // `exposes_left`: the number of registrations left for the second call. The first call is refused for lack
  // of a Reply chunk.
  void refuse_first(size_t exposes_left) {
    account->closes_later = GetParam();
    script = [this, exposes_left, first = true](size_t connection, const header& in, size_t) mutable {
      if (properties(connection, in)) return;
      if (!std::exchange(first, false)) return ok(connection, in);
      account->exposes_left = exposes_left;
      const uint32_t handle = in.inv_handle;
      server.send(connection, error_message(in, {RDMA2_ERR_REPLY_RESOURCE, 20'000, 0}), handle);
    };
    start(Versions::kOnly2);
  }
};
std::string name_of_closing(const testing::TestParamInfo<bool>& later) {
  return later.param ? "Later" : "AtOnce";
}
INSTANTIATE_TEST_SUITE_P(Closing, SentAgain, testing::Bool(), name_of_closing);

TEST_P(SentAgain, AfterItsHandleWasInvalidated_OpensItsMemoryAnew) {
  refuse_first(SIZE_MAX);
  EXPECT_EQ(errno_of(write_call(kSinkBytes)), 0);
  EXPECT_EQ(account->opened(), 3U) << "a Read chunk, and then a Read chunk and a Reply chunk";
  EXPECT_EQ(account->closed_by_peer(), 1U);
  expect_nothing_open();
}

// The Read chunk can be opened and the Reply chunk cannot: the call ends when the Read chunk is closed again.
TEST_P(SentAgain, WithoutMemoryForAllOfIt_EndsWhenWhatWasOpenedIsClosed) {
  refuse_first(1);
  EXPECT_EQ(errno_of(write_call(kSinkBytes)), EIO);
  EXPECT_EQ(account->opened(), 2U);
  expect_nothing_open();
  EXPECT_EQ(client->status().rdma->credits_in_use, 0U);
  account->exposes_left = SIZE_MAX;
  EXPECT_EQ(errno_of(write_call(kSinkBytes)), 0);
  EXPECT_EQ(errno_of(read_call(kSinkBytes)), 0);
  EXPECT_EQ(client->status().connects, 1U);
  expect_nothing_open();
}

TEST_P(SentAgain, WithoutAnyMemory_Ends) {
  refuse_first(0);
  EXPECT_EQ(errno_of(write_call(kSinkBytes)), EIO);
  expect_nothing_open();
  account->exposes_left = SIZE_MAX;
  EXPECT_EQ(errno_of(write_call(kSinkBytes)), 0);
  EXPECT_EQ(client->status().connects, 1U);
}

}  // namespace
}  // namespace nfsrdma::test
