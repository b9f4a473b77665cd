// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/sparse_file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace nfsrdma::filer {
namespace {

std::string content(const tree::SparseFile& f) {
  ByteVector bytes;
  EXPECT_EQ(f.read(0, f.size() + 1, bytes), f.size());
  return std::string(as_string_view(bytes));
}

void put(tree::SparseFile& f, uint64_t offset, std::string_view data, bool stable) {
  f.write(offset, as_const_bytes(data), stable);
}

TEST(SparseFile, HoleOfFiveGigabytes_CostsNothing) {
  tree::SparseFile f;
  put(f, uint64_t{5} << 30, "end", true);
  EXPECT_EQ(f.size(), (uint64_t{5} << 30) + 3);
  EXPECT_EQ(f.allocated_bytes(), tree::SparseFile::kPageBytes);
  ByteVector in_the_hole(1, std::byte{'?'});
  EXPECT_EQ(f.read(12345, 10, in_the_hole), 10u);
  EXPECT_EQ(as_string_view(in_the_hole), "?" + std::string(10, '\0'));
  f.resize(uint64_t{1} << 40);
  EXPECT_EQ(f.allocated_bytes(), tree::SparseFile::kPageBytes);
}

TEST(SparseFile, Truncation_ClearsWhatExtensionShowsAgain) {
  tree::SparseFile f;
  put(f, 0, std::string(10000, 'a'), true);
  f.resize(5);
  f.resize(10);
  EXPECT_EQ(content(f), std::string("aaaaa") + std::string(5, '\0'));
}

TEST(SparseFile, CrashAfterUnstableWrite_RestoresOldBytesAndSize) {
  tree::SparseFile f;
  put(f, 0, "stable content", true);
  put(f, 7, "CHANGED and longer", false);
  EXPECT_TRUE(f.has_unstable());
  EXPECT_TRUE(f.crash());
  EXPECT_EQ(content(f), "stable content");
  EXPECT_FALSE(f.crash());
}

TEST(SparseFile, CommitOfPartOfTheRange_KeepsOnlyThatPart) {
  tree::SparseFile f;
  put(f, 0, "0123456789", true);
  put(f, 0, "abcdefghij", false);
  f.commit(2, 3);
  f.crash();
  EXPECT_EQ(content(f), "01cde56789");
}

TEST(SparseFile, CommitOfZeroBytes_ReachesTheEnd) {
  tree::SparseFile f;
  put(f, 0, "abcdefghij", false);
  f.commit(4, 0);
  f.crash();
  EXPECT_EQ(content(f), std::string(4, '\0') + "efghij");
}

TEST(SparseFile, StableWriteOverUnstable_SurvivesAndTheRestDoesNot) {
  tree::SparseFile f;
  put(f, 0, "0000000000", true);
  put(f, 0, "uuuuuuuuuu", false);
  put(f, 3, "SSS", true);
  f.crash();
  EXPECT_EQ(content(f), "000SSS0000");
}

TEST(SparseFile, UnstableWriteTwice_RestoresWhatWasBeforeTheFirst) {
  tree::SparseFile f;
  put(f, 0, "original", true);
  put(f, 0, "first___", false);
  put(f, 0, "second__", false);
  f.crash();
  EXPECT_EQ(content(f), "original");
}

// Random operations against a model of two strings: the present and the stable content.
TEST(SparseFile, RandomOperations_AgreeWithTheModel) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    tree::SparseFile f;
    std::string now;
    std::string stable;  // content after a crash
    const auto write_model = [](std::string& s, uint64_t at, const std::string& data) {
      if (s.size() < at + data.size()) s.resize(at + data.size(), '\0');
      s.replace(at, data.size(), data);
    };
    for (int step = 0; step < 400; ++step) {
      const uint64_t at = random() % 20000;
      const std::string data(1 + random() % 6000, static_cast<char>('a' + random() % 26));
      switch (random() % 6) {
        case 0:
        case 1:
          put(f, at, data, false);
          write_model(now, at, data);
          break;
        case 2:
          put(f, at, data, true);
          write_model(now, at, data);
          write_model(stable, at, data);
          break;
        case 3: {
          const uint64_t end = std::min<uint64_t>(now.size(), at + data.size());
          f.commit(at, data.size());
          if (stable.size() < end) stable.resize(end, '\0');
          if (at < end) stable.replace(at, end - at, now, at, end - at);
          break;
        }
        case 4:
          f.resize(at);
          now.resize(at, '\0');
          stable.resize(at, '\0');
          break;
        default: f.crash(); now = stable;
      }
      ASSERT_EQ(f.size(), now.size()) << "seed " << seed << " step " << step;
      ASSERT_TRUE(content(f) == now) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace nfsrdma::filer
