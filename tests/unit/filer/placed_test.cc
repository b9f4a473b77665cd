// SPDX-License-Identifier: Apache-2.0
// Which results the filer places in Write chunks. RFC 8267 section 6.1 allows in a COMPOUND only "The opaque
// data field in the READ4resok structure" and "The linkdata field in the READLINK4resok structure".
#include "tests/unit/fabric/support/fabric_pair.h"
#include "tests/unit/filer/raw_client.h"
#include "tests/unit/transport/support/rpc_bytes.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/rdma/endpoint_options.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::filer::test {
namespace {

using nfsrdma::test::call_on;
using nfsrdma::test::LoopThread;
using nfsrdma::test::pattern;
using nfsrdma::test::run_on;
using nfsrdma::test::Side;
using nfsrdma::test::words;
using rpcrdma::header;
using rpcrdma::segment;

const std::string kTarget = "../some/where/else";  // 18 bytes, so it needs padding
ConstBytes text() {
  return as_const_bytes(kTarget);
}
constexpr size_t kFileBytes = 3001;
constexpr size_t kRoomBytes = 4096;
constexpr std::byte kUntouched{0xee};

class Placed : public ::testing::TestWithParam<uint32_t> {
 protected:
  LoopThread loop;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> nfs;  // over TCP; the RDMA connection uses its session too
  std::unique_ptr<fabric::Fabric> fabric_;
  Side rdma;
  std::vector<ByteVector> rooms;
  header call;
  size_t answers = 0;

  void SetUp() override {
    nfs::Options options{.manual_clock = true};
    options.rdma.listen = true;
    options.rdma.devices = false;
    server = start_server(options);
    server->make_file("/export/f", std::string(as_string_view(file())), 0644, 0, 0);
    nfs = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(nfs->establish());
    ASSERT_EQ(nfs->run_at("/export", ops(CREATE4args{{NF4LNK, kTarget, {}}, "link", {}})).status, NFS4_OK);
    connect();
    rooms.reserve(8);
    call.vers = GetParam();
    call.credit = 8;
  }
  void TearDown() override {
    call_on(*loop, [this] {
      rdma.endpoint.reset();
      fabric_.reset();
    });
  }
  void connect() {
    call_on(*loop, [this] { fabric_ = fabric::iwarp::make_fabric(*loop); });
    fabric::ConnectOptions to;
    to.host = "127.0.0.1";
    to.port = server->rdma_port();
    to.endpoint = rdma::make_endpoint_options(16384, 64, {true, 4096, 4096});
    auto connected = run_on(*loop, fabric_->connect(to));
    ASSERT_TRUE(connected) << describe(connected.error());
    rdma.endpoint = *std::move(connected);
    call_on(*loop, [this] { rdma.endpoint->start(rdma); });
  }
  static ByteVector file() { return pattern(kFileBytes, 5); }

  void offer() {
    ByteVector& room = rooms.emplace_back(kRoomBytes, kUntouched);
    auto exposed = call_on(*loop, [&] { return rdma->expose(room, fabric::Access::kRemoteWrite); });
    ASSERT_TRUE(exposed);
    call.chunks.writes.add(*exposed);
  }
  void offer_empty() {
    rooms.emplace_back();
    call.chunks.writes.add_chunk();
  }

  // The header of the reply to SEQUENCE and `list`; `rest` gets the inline part.
  header answer_to(const Ops& list, ByteVector& rest) {
    COMPOUND4args args;
    args.argarray = ops(nfs->next_sequence()) + list;
    call.xid = 0x4000 + static_cast<uint32_t>(answers);
    ByteVector message;
    EXPECT_TRUE(encode(message, call));
    const ByteVector body = nfs->encode_call(call.xid, args);
    message.insert(message.end(), body.begin(), body.end());
    call_on(*loop, [&] {
      const ConstBytes parts[] = {message};
      rdma->send(parts);
    });
    header h;
    if (!rdma.receives(++answers)) {
      ADD_FAILURE() << "nothing came";
      return h;
    }
    const ByteVector answer = rdma.message(answers - 1);
    size_t length = 0;
    EXPECT_EQ(decode(answer, h, &length), rpcrdma::Defect::kNone);
    EXPECT_EQ(h.type, rpcrdma::RDMA_MSG);
    EXPECT_EQ(h.xid, call.xid);
    rest.assign(answer.begin() + static_cast<ptrdiff_t>(length), answer.end());
    return h;
  }
  static std::vector<uint64_t> lengths(const header& h) {
    std::vector<uint64_t> sums;
    for (size_t i = 0; i < h.chunks.writes.size(); ++i)
      sums.push_back(rpcrdma::chunk_bytes(h.chunks.writes[i]));
    return sums;
  }
  void expect_room(size_t i, ConstBytes data) {
    EXPECT_TRUE(std::ranges::equal(std::span(rooms[i]).first(data.size()), data)) << "room " << i;
    EXPECT_EQ(rooms[i][data.size()], kUntouched) << "no padding is written";
  }
  // Checks that the reply ends with `end`.
  static void expect_end(const ByteVector& rest, const ByteVector& end) {
    ASSERT_GE(rest.size(), end.size());
    EXPECT_EQ(ByteVector(rest.end() - static_cast<ptrdiff_t>(end.size()), rest.end()), end);
  }
};
INSTANTIATE_TEST_SUITE_P(Versions, Placed, testing::Values(rpcrdma::kVersion1, rpcrdma::kVersion2));

using Lengths = std::vector<uint64_t>;

TEST_P(Placed, ReadlinksText_GoesIntoTheChunk) {
  offer();
  ByteVector rest;
  const header h = answer_to(path_ops("/export/link") + ops(READLINK4args{}), rest);
  EXPECT_EQ(lengths(h), (Lengths{kTarget.size()}));
  expect_room(0, text());
  expect_end(rest, words({OP_READLINK, NFS4_OK, static_cast<uint32_t>(kTarget.size())}));
}

TEST_P(Placed, ReadlinksText_IsInlineWithoutAChunk) {
  ByteVector rest;
  const header h = answer_to(path_ops("/export/link") + ops(READLINK4args{}), rest);
  EXPECT_TRUE(h.chunks.writes.empty());
  ByteVector end = words({OP_READLINK, NFS4_OK, static_cast<uint32_t>(kTarget.size())});
  end.insert(end.end(), text().begin(), text().end());
  end.resize(end.size() + xdr_padding(kTarget.size()));
  expect_end(rest, end);
}

TEST_P(Placed, ReadlinkThatFails_LeavesItsChunkUnused) {
  offer();
  ByteVector rest;
  const header h = answer_to(path_ops("/export/f") + ops(READLINK4args{}), rest);
  EXPECT_EQ(lengths(h), (Lengths{0}));
  EXPECT_EQ(h.chunks.writes[0].size(), 1U);
  expect_end(rest, words({OP_READLINK, NFS4ERR_WRONG_TYPE}));
}

// RFC 8267 section 6.4.3: "The NFS version 4 server consumes the provided Write chunks by writing the results
// of the designated operations in the COMPOUND request (READ and READLINK) back to each chunk."
TEST_P(Placed, ReadReadlinkRead_GoIntoTheirChunksInOrder) {
  for (int i = 0; i < 3; ++i) offer();
  ByteVector rest;
  const header h =
      answer_to(path_ops("/export/f") + ops(READ4args{{}, 0, 1000}) + path_ops("/export/link") +
                    ops(READLINK4args{}) + path_ops("/export/f") + ops(READ4args{{}, 1000, 4096}),
                rest);
  EXPECT_EQ(lengths(h), (Lengths{1000, kTarget.size(), kFileBytes - 1000}));
  expect_room(0, ConstBytes(file()).first(1000));
  expect_room(1, text());
  expect_room(2, ConstBytes(file()).subspan(1000));
  expect_end(rest, words({OP_READ, NFS4_OK, 1, kFileBytes - 1000}));
}

// "If the NFS version 4 client does not want to have the READLINK result returned via RDMA, it provides an
// empty Write chunk for buffer B to indicate that the READLINK result must be returned inline."
TEST_P(Placed, ReadlinkWithAnEmptyChunk_IsInline) {
  offer();
  offer_empty();
  offer();
  ByteVector rest;
  const header h = answer_to(path_ops("/export/f") + ops(READ4args{{}, 0, 1000}) + path_ops("/export/link") +
                                 ops(READLINK4args{}) + path_ops("/export/f") + ops(READ4args{{}, 0, 500}),
                             rest);
  EXPECT_EQ(lengths(h), (Lengths{1000, 0, 500}));
  expect_room(2, ConstBytes(file()).first(500));
  EXPECT_NE(as_string_view(rest).find(kTarget), std::string_view::npos);
}

// A READ at the end of the file does not use up its chunk; the next result takes it.
TEST_P(Placed, ReadAtTheEnd_LeavesItsChunkToTheReadlinkBehindIt) {
  offer();
  offer();
  ByteVector rest;
  const header h = answer_to(path_ops("/export/f") + ops(READ4args{{}, kFileBytes, 1000}) +
                                 path_ops("/export/link") + ops(READLINK4args{}),
                             rest);
  EXPECT_EQ(lengths(h), (Lengths{kTarget.size(), 0}));
  expect_room(0, text());
}

TEST_P(Placed, SecondReadFails_ItsChunkIsUnused) {
  offer();
  offer();
  ByteVector rest;
  const header h = answer_to(
      path_ops("/export/f") + ops(READ4args{{}, 0, 1000}) + path_ops("/export") + ops(READ4args{{}, 0, 1000}),
      rest);
  EXPECT_EQ(lengths(h), (Lengths{1000, 0}));
  expect_room(0, ConstBytes(file()).first(1000));
  expect_end(rest, words({OP_READ, NFS4ERR_ISDIR}));
}

// A reply from the session's reply cache is placed as the original was, in the chunks of the retry.
TEST_P(Placed, RetryOfARead_IsPlacedAgain) {
  const Ops read = path_ops("/export/f") + ops(READ4args{{}, 0, 1000});
  for (size_t i = 0; i < 2; ++i) {
    if (i == 1) nfs->undo_sequence();
    call.chunks.writes = {};
    offer();
    ByteVector rest;
    const header h = answer_to(read, rest);
    EXPECT_EQ(lengths(h), (Lengths{1000}));
    expect_room(i, ConstBytes(file()).first(1000));
    expect_end(rest, words({OP_READ, NFS4_OK, 0, 1000}));
  }
  EXPECT_EQ(server->executed(OP_READ).executed, 1u);
}

// Other results are never placed, whatever chunks there are: names are not data.
TEST_P(Placed, OtherResults_AreInline) {
  offer();
  ByteVector rest;
  const header h = answer_to(path_ops("/export/f") + ops(GETFH4args{}), rest);
  EXPECT_EQ(lengths(h), (Lengths{0}));
  EXPECT_EQ(rooms[0][0], kUntouched);
}

}  // namespace
}  // namespace nfsrdma::filer::test
