// SPDX-License-Identifier: Apache-2.0
// Which result goes into which Write chunk. The Responder follows RFC 8166 section 4.3.2 as Linux' server
// does: results and chunks in order. A result of zero length leaves its chunk to the next result, unless the
// chunk is empty and so requests that result inline.
#include <gtest/gtest.h>

#include "tests/unit/rdma/support/raw_client.h"

namespace nfsrdma::test {
namespace {

constexpr std::byte kUntouched{0xee};

// A READ of the COMPOUND: the length of its data, or the status with which it failed.
struct Read {
  size_t bytes = 0;
  uint32_t status = 0;
};

ByteVector data_of(size_t i, size_t bytes) {
  return pattern(bytes, 100 + static_cast<uint32_t>(i));
}

class WriteList : public RawClientOfBoth {
 protected:
  std::vector<Read> reads;  // the results of every call
  std::vector<ByteVector> rooms;
  std::vector<std::vector<segment>> offered;
  header call;

  rdma::ResponderOptions options() const override {
    rdma::ResponderOptions o = RawClient::options();
    o.max_write_chunks = 8;
    o.max_segments = 16;
    return o;
  }
  void SetUp() override {
    RawClient::SetUp();
    rooms.reserve(8);
    call = header_of(vers());
  }
  void answer(TestServer::Connection& c, const ByteVector& message) override {
    ++calls;
    ByteVector results;
    std::vector<rpc::BulkPlace> places;
    for (size_t i = 0; i < reads.size(); ++i) {
      const ByteVector data = data_of(i, reads[i].bytes);
      const ByteVector one = reads[i].status == 0 ? read_results(data) : words({reads[i].status});
      results.insert(results.end(), one.begin(), one.end());
      places.push_back({kReplyHeaderBytes + results.size() - xdr_padded(data.size()), data.size()});
    }
    c.responder->send(reply(xid_of(message), results), places);
  }

  // A Write chunk for `bytes`, in segments of at most `most`.
  void offer(size_t bytes, size_t most = SIZE_MAX) {
    ByteVector& room = rooms.emplace_back(bytes, kUntouched);
    offered.push_back(expose(room, fabric::Access::kRemoteWrite));
    ASSERT_EQ(offered.back().size(), 1U);
    const segment whole = offered.back()[0];
    call.chunks.writes.add_chunk();
    for (size_t at = 0; at < bytes; at += most)
      call.chunks.writes.add_segment(
          {whole.handle, static_cast<uint32_t>(std::min(most, bytes - at)), whole.offset + at});
  }
  void offer_empty() {
    rooms.emplace_back();
    offered.emplace_back();
    call.chunks.writes.add_chunk();
  }

  // Sends the call. Returns the results as they are inline when those in `placed` are not.
  ByteVector inline_results(const std::vector<size_t>& placed) const {
    ByteVector results;
    for (size_t i = 0; i < reads.size(); ++i) {
      const bool away = std::ranges::find(placed, i) != placed.end();
      ByteVector one = words({reads[i].status});
      if (reads[i].status == 0)
        one = away ? words({0, static_cast<uint32_t>(reads[i].bytes)})
                   : read_results(data_of(i, reads[i].bytes));
      results.insert(results.end(), one.begin(), one.end());
    }
    return reply(kXid, results);
  }
  // The lengths that the reply gives for each chunk; also checks the segments.
  std::vector<uint64_t> lengths(const header& answered) const {
    std::vector<uint64_t> sums;
    EXPECT_EQ(answered.chunks.writes.size(), call.chunks.writes.size());
    for (size_t i = 0; i < std::min(answered.chunks.writes.size(), call.chunks.writes.size()); ++i) {
      const std::span<const segment> given = answered.chunks.writes[i], asked = call.chunks.writes[i];
      EXPECT_EQ(given.size(), asked.size()) << "chunk " << i;
      for (size_t s = 0; s < std::min(given.size(), asked.size()); ++s) {
        EXPECT_EQ(given[s].handle, asked[s].handle);
        EXPECT_EQ(given[s].offset, asked[s].offset);
        EXPECT_LE(given[s].length, asked[s].length);
      }
      sums.push_back(chunk_bytes(given));
    }
    return sums;
  }
  // The data of READ `i` is at the beginning of room `chunk`, and nothing is behind it.
  void expect_placed(size_t chunk, size_t i) {
    const ByteVector data = data_of(i, reads[i].bytes);
    const ByteVector& room = rooms[chunk];
    ASSERT_GE(room.size(), data.size());
    EXPECT_TRUE(std::ranges::equal(std::span(room).first(data.size()), data)) << "READ " << i;
    expect_untouched(chunk, data.size());
  }
  void expect_untouched(size_t chunk, size_t from = 0) {
    EXPECT_TRUE(std::ranges::all_of(std::span(rooms[chunk]).subspan(from),
                                    [](std::byte b) { return b == kUntouched; }));
  }
  header sent(ByteVector* rest) {
    send(call, rpc_call(kXid));
    return received(0, rest);
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, WriteList, testing::Values(kVersion1, kVersion2));

using Lengths = std::vector<uint64_t>;

// RFC 8166 section 4.3.2.1: "the Responder fills in each Write chunk with one DDP-eligible result until there
// are either no more DDP-eligible results or no more Write chunks."
TEST_P(WriteList, TwoResults_GoIntoTwoChunksInOrder) {
  reads = {{1001}, {3000}};
  offer(4096);
  offer(4096);
  ByteVector rest;
  EXPECT_EQ(lengths(sent(&rest)), (Lengths{1001, 3000}));
  EXPECT_EQ(rest, inline_results({0, 1}));
  expect_placed(0, 0);
  expect_placed(1, 1);
}

// RFC 8166 section 3.4.6: "filling the chunk contiguously and in segment array order".
TEST_P(WriteList, SegmentsOfEachChunk_AreFilledInTheirOrder) {
  reads = {{1000}, {2500}};
  offer(3000, 600);
  offer(3000, 1024);
  ByteVector rest;
  const header answered = sent(&rest);
  EXPECT_EQ(lengths(answered), (Lengths{1000, 2500}));
  const auto length = [](const segment& s) { return s.length; };
  std::vector<uint32_t> first, second;
  std::ranges::transform(answered.chunks.writes[0], std::back_inserter(first), length);
  std::ranges::transform(answered.chunks.writes[1], std::back_inserter(second), length);
  EXPECT_EQ(first, (std::vector<uint32_t>{600, 400, 0, 0, 0}));
  EXPECT_EQ(second, (std::vector<uint32_t>{1024, 1024, 452}));
  expect_placed(0, 0);
  expect_placed(1, 1);
}

// RFC 8166 section 4.3.2.2: "If there is a subsequent DDP-eligible result data item in the RPC Reply message,
// it MUST be placed in that unconsumed Write chunk." RFC 8267 section 6.4.1 pairs READs and chunks by order
// alone; today's servers do not count a READ at the end of the file.
TEST_P(WriteList, ResultOfNoBytes_LeavesItsChunkToTheNext) {
  reads = {{0}, {3000}};
  offer(4096);
  offer(4096);
  ByteVector rest;
  EXPECT_EQ(lengths(sent(&rest)), (Lengths{3000, 0}));
  EXPECT_EQ(rest, inline_results({1}));
  expect_placed(0, 1);
  expect_untouched(1);
}

// RFC 8166 section 4.3.2.3: "The Responder MUST return the corresponding result data item inline and MUST
// return an empty Write chunk in that Write list position in the RPC Reply message."
TEST_P(WriteList, EmptyChunk_AsksForItsResultInline) {
  reads = {{1001}, {3000}, {500}};
  offer(4096);
  offer_empty();
  offer(4096);
  ByteVector rest;
  EXPECT_EQ(lengths(sent(&rest)), (Lengths{1001, 0, 500}));
  EXPECT_EQ(rest, inline_results({0, 2}));
  expect_placed(0, 0);
  expect_placed(2, 2);
}

// Only a chunk that is not empty can be left over (section 4.3.2.2: "provides a non-empty Write chunk but the
// Responder is not able to use it"). An empty chunk always belongs to the next READ's result, whatever its
// length.
TEST_P(WriteList, EmptyChunkAndAResultOfNoBytes_AreEachOthers) {
  reads = {{0}, {3000}};
  offer_empty();
  offer(4096);
  ByteVector rest;
  EXPECT_EQ(lengths(sent(&rest)), (Lengths{0, 3000}));
  EXPECT_EQ(rest, inline_results({1}));
  expect_placed(1, 1);
}

// RFC 8267 section 6.4.1: "If there are more READ operations than Write chunks, then remaining NFS READ
// operations in an NFS version 4 COMPOUND that have no matching Write chunk MUST return their results
// inline."
TEST_P(WriteList, MoreResultsThanChunks_TheOthersAreInline) {
  reads = {{1001}, {700}, {301}};
  offer(4096);
  ByteVector rest;
  EXPECT_EQ(lengths(sent(&rest)), (Lengths{1001}));
  EXPECT_EQ(rest, inline_results({0}));
  expect_placed(0, 0);
}

// Data that is not placed counts for the length of the reply. A reply that is too long for inline goes to the
// Reply chunk; without one the Requester gets an error.
TEST_P(WriteList, MoreResultsThanChunks_TooLongForInline_NeedAReplyChunk) {
  reads = {{1001}, {9000}};
  offer(4096);
  const ByteVector expected = inline_results({0});
  ByteVector rest;
  send(call, rpc_call(kXid));
  expect_error(0, vers(), refusal(RDMA2_ERR_REPLY_RESOURCE, static_cast<uint32_t>(expected.size())));

  ByteVector room(16'384, kUntouched);
  call.chunks.has_reply = true;
  call.chunks.reply = expose(room, fabric::Access::kRemoteWrite);
  send(call, rpc_call(kXid));
  const header answered = received(1, &rest);
  EXPECT_EQ(answered.type, RDMA_NOMSG);
  EXPECT_EQ(lengths(answered), (Lengths{1001}));
  ASSERT_EQ(chunk_bytes(answered.chunks.reply), expected.size());
  EXPECT_TRUE(std::ranges::equal(std::span(room).first(expected.size()), expected));
  expect_placed(0, 0);
}

// RFC 8166 section 4.3.2.2: "The Responder sets the segment count to a value matching the Requester-provided
// Write chunk, but returns only empty segments in that Write chunk."
TEST_P(WriteList, MoreChunksThanResults_TheOthersComeBackUnused) {
  reads = {{1001}};
  offer(4096);
  offer(4096, 1024);
  offer_empty();
  offer(4096, 2048);
  ByteVector rest;
  const header answered = sent(&rest);
  EXPECT_EQ(lengths(answered), (Lengths{1001, 0, 0, 0}));
  EXPECT_EQ(answered.chunks.writes[1].size(), 4U);
  EXPECT_EQ(answered.chunks.writes[2].size(), 0U);
  EXPECT_EQ(answered.chunks.writes[3].size(), 2U);
  EXPECT_EQ(rest, inline_results({0}));
  expect_untouched(1);
  expect_untouched(3);
}

// The result of a failed READ has no data; the COMPOUND ends with it.
TEST_P(WriteList, SecondReadFails_ItsChunkComesBackUnused) {
  reads = {{1001}, {0, 5}};
  offer(4096);
  offer(4096, 1024);
  ByteVector rest;
  const header answered = sent(&rest);
  EXPECT_EQ(lengths(answered), (Lengths{1001, 0}));
  EXPECT_EQ(answered.chunks.writes[1].size(), 4U);
  EXPECT_EQ(rest, inline_results({0}));
  expect_placed(0, 0);
  expect_untouched(1);
}

// "to point to the first Write chunk in the transport header that is too short" (version 2 section 5.3.3),
// counted from one: the first chunk was long enough.
TEST_P(WriteList, SecondChunkTooSmall_IsTheOneThatIsNamed) {
  reads = {{1001}, {3000}};
  offer(4096);
  offer(2999);
  send(call, rpc_call(kXid));
  const rpcrdma::error too_small = vers() == kVersion1 ? rpcrdma::error{ERR_CHUNK, 0, 0}
                                                       : rpcrdma::error{RDMA2_ERR_WRITE_RESOURCE, 2, 3000};
  expect_error(0, vers(), too_small);
  expect_untouched(1);
}

// Empty chunks count, too: the index is the position in the list.
TEST_P(WriteList, ChunkTooSmallBehindAnEmptyOne_IsNamedByItsPlace) {
  reads = {{100}, {3000}};
  offer_empty();
  offer(2999);
  send(call, rpc_call(kXid));
  const rpcrdma::error too_small = vers() == kVersion1 ? rpcrdma::error{ERR_CHUNK, 0, 0}
                                                       : rpcrdma::error{RDMA2_ERR_WRITE_RESOURCE, 2, 3000};
  expect_error(0, vers(), too_small);
}

}  // namespace
}  // namespace nfsrdma::test
