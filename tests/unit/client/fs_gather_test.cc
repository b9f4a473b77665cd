// SPDX-License-Identifier: Apache-2.0
// How small writes, and the writes of a busy stream, are combined into fewer WRITEs.
#include <thread>

#include "client/core/write/held_extents.h"
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace fault = filer::fault;
namespace on = filer::on;

class GatherLoops : public testing::TestWithParam<unsigned> {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server, TestMount::Settings{.loops = GetParam()}};
};

TEST_P(GatherLoops, SmallNeighbours_GoTogether) {
  const auto file = mount.create("file");
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    ASSERT_EQ(mount.write(file, expected.size(), line), 0);
    expected += line;
  }
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
  EXPECT_LE(mount.requests("WRITE"), 4u);
}

// Appends to `places` places of a new file, one piece to each in turn. Returns the expected content.
std::string append_in_turn(TestMount& mount, const client::OpenFileRef& file, size_t places) {
  constexpr size_t kApart = 300'000, kRounds = 64, kPiece = 4001;
  std::string expected((places - 1) * kApart + kRounds * kPiece, '\0');
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t place = 0; place < places; ++place) {
      const std::string piece(kPiece, static_cast<char>('A' + (round * places + place) % 50));
      const size_t at = place * kApart + round * kPiece;
      EXPECT_EQ(mount.write(file, at, piece), 0);
      expected.replace(at, kPiece, piece);
    }
  }
  return expected;
}

TEST_P(GatherLoops, AppendsToSeveralPlacesInTurn_EachGoTogether) {
  const auto file = mount.create("file");
  const std::string expected = append_in_turn(mount, file, client::HeldExtents::kMax);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
  EXPECT_LE(mount.requests("WRITE"), 64u) << "of 256; some may have been held for long enough";
}

TEST_P(GatherLoops, AppendsToMorePlacesThanAreHeld_ArriveWhole) {
  const auto file = mount.create("file");
  const std::string expected = append_in_turn(mount, file, client::HeldExtents::kMax + 2);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
}

// Each place can be read and committed, whichever was written last.
TEST_P(GatherLoops, SeveralHeldPlaces_AreThereForWhoeverReads) {
  constexpr uint64_t kApart = 100'000;
  const auto file = mount.create("file");
  for (uint64_t place = 0; place < client::HeldExtents::kMax; ++place)
    ASSERT_EQ(mount.write(file, place * kApart, "place " + std::to_string(place)), 0);
  for (uint64_t place = 0; place < client::HeldExtents::kMax; ++place)
    EXPECT_EQ(mount.read(file, place * kApart, 7).value_or("error"), "place " + std::to_string(place));
  for (uint64_t place = 0; place < client::HeldExtents::kMax; ++place)
    ASSERT_EQ(mount.write(file, place * kApart, "PLACE"), 0);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  for (uint64_t place = 0; place < client::HeldExtents::kMax; ++place)
    EXPECT_EQ(server->read_file("/export/file").value_or("").substr(place * kApart, 7),
              "PLACE " + std::to_string(place));
  EXPECT_EQ(mount.close(file), 0);
}

// Writes pieces that are adjacent in memory, as the front end reads those of a stream.
class StreamLoops : public GatherLoops {
 protected:
  static constexpr size_t kPiece = 128u << 10;
  static constexpr size_t kBuffer = 16 * kPiece;

  struct Stream {
    uint64_t at = 0;
    char letter = 'a';
    Slice memory;
  };
  void write_piece(const client::OpenFileRef& file, Stream& stream) {
    if (stream.memory.size() == 0) stream.memory = mount.memory(kBuffer);
    const Slice piece = stream.memory.first(kPiece);
    std::fill(piece.bytes.begin(), piece.bytes.end(), static_cast<std::byte>(stream.letter));
    ASSERT_EQ(errno_of(mount.run(mount.fs().write(mount.user(), file, stream.at, piece))), 0);
    if (expected.size() < stream.at + kPiece) expected.resize(stream.at + kPiece);
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(stream.at), kPiece, stream.letter);
    stream.memory.bytes = stream.memory.bytes.subspan(kPiece);
    stream.at += kPiece;
    stream.letter = stream.letter == 'z' ? 'a' : static_cast<char>(stream.letter + 1);
  }

  std::string expected;
};

TEST_P(StreamLoops, WhileTheServerIsBusy_GoesInWritesOfWsize) {
  const auto file = mount.create("file");
  const auto stalled = server->faults().add(on::request_with(OP_WRITE).always(), fault::Stall{});
  Stream stream;
  for (int i = 0; i < 32; ++i) write_piece(file, stream);
  EXPECT_TRUE(server->faults().wait_fired(stalled, 2)) << "the first two do not wait for more";
  server->faults().release(stalled);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
  EXPECT_LE(mount.requests("WRITE"), 6u) << "two pieces, then 1 MiB at a time as far as the memory goes";
}

TEST_P(StreamLoops, TwoAtATimeAndSmallOnesBetween_ArriveWhole) {
  const auto file = mount.create("file");
  const auto stalled = server->faults().add(on::request_with(OP_WRITE).always(), fault::Stall{});
  Stream first, second;
  second.at = 16 * kPiece + 100;
  size_t small = 32 * kPiece;
  for (int i = 0; i < 16; ++i) {
    write_piece(file, first);
    if (i % 3 == 0) write_piece(file, second);
    if (i % 5 == 0) {
      ASSERT_EQ(mount.write(file, small, "small"), 0);
      expected.resize(std::max<size_t>(expected.size(), small + 5));
      expected.replace(small, 5, "small");
      small += 5;
    }
    if (i == 8) server->faults().release(stalled);
  }
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
}

TEST_P(StreamLoops, WhatIsHeld_IsReadAndCommitted) {
  const auto file = mount.create("file");
  const auto stalled = server->faults().add(on::request_with(OP_WRITE).times(2), fault::Stall{});
  Stream stream;
  for (int i = 0; i < 5; ++i) write_piece(file, stream);
  ASSERT_TRUE(server->faults().wait_fired(stalled, 2));
  EXPECT_EQ(mount.read(file, 3 * kPiece, 1).value_or("error"), "d") << "and not what is on the server";
  server->faults().release(stalled);
  EXPECT_EQ(mount.fsync(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), expected);
  EXPECT_FALSE(server->stat("/export/file")->unstable);
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(GatherLoops, HeldData_GoesOutByItself) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  EXPECT_TRUE(
      server->wait_until([](filer::nfs::Core& core) { return core.tree.walk("/export/file")->size == 4; }));
  EXPECT_EQ(mount.close(file), 0);
}

TEST_P(GatherLoops, HeldData_IsThereForWhoeverReadsOrAsks) {
  const auto file = mount.create("file");
  ASSERT_EQ(mount.write(file, 0, "text"), 0);
  EXPECT_EQ(*mount.read(file), "text");
  ASSERT_EQ(mount.write(file, 4, " more"), 0);
  EXPECT_EQ(mount.stat("file")->size, 9u);
  ASSERT_EQ(mount.write(file, 9, "!"), 0);
  const auto second = mount.open("file");
  EXPECT_EQ(*mount.read(second), "text more!");
  EXPECT_EQ(mount.close(second), 0);
  EXPECT_EQ(mount.close(file), 0);
}

// Small scattered writes do not each hold a whole buffer until they are committed.
TEST_P(GatherLoops, ScatteredSmallWrites_KeepLittleMoreThanTheirData) {
  const auto file = mount.create("file");
  const size_t before = mount.buffers().outstanding_bytes();
  constexpr uint64_t kWrites = 2000, kBytes = 4096;
  for (uint64_t i = 0; i < kWrites; ++i)
    ASSERT_EQ(mount.write(file, i * 200'000, std::string(kBytes, static_cast<char>('a' + i % 26))), 0);
  const auto kept = [this] {
    const auto now = mount.fs().statistics().cache;
    return now.dirty_bytes + now.uncommitted_bytes;
  };
  // A WRITE's reply moves bytes from one counter to the other; meanwhile they count twice.
  ASSERT_TRUE(eventually([&] { return kept() <= kWrites * kBytes; }));
  ASSERT_EQ(kept(), kWrites * kBytes);
  EXPECT_LE(mount.buffers().outstanding_bytes() - before, 2 * kWrites * kBytes);
  EXPECT_EQ(mount.close(file), 0);
}

// Short runs of writes hold a few times their size.
TEST_P(GatherLoops, ScatteredRunsOfSmallWrites_KeepLittleMoreThanTheirData) {
  const auto file = mount.create("file");
  const size_t before = mount.buffers().outstanding_bytes();
  constexpr uint64_t kRuns = 500, kBytes = 4096;
  for (uint64_t i = 0; i < kRuns; ++i) {
    for (uint64_t k = 0; k < 3; ++k)
      ASSERT_EQ(mount.write(file, i * 200'000 + k * kBytes, std::string(kBytes, 'x')), 0);
  }
  EXPECT_LE(mount.buffers().outstanding_bytes() - before, 5 * 3 * kRuns * kBytes);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_LE(mount.requests("WRITE"), kRuns + 1) << "neighbours still go together";
}

INSTANTIATE_TEST_SUITE_P(Loops, GatherLoops, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, StreamLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
