// SPDX-License-Identifier: Apache-2.0
#include "transport/security/sequence_window.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

namespace nfsrdma::security {
namespace {

using Verdict = SequenceWindow::Verdict;

// RFC 2203 section 5.3.3.1, sentence by sentence, without the window's bits.
class Model {
 public:
  explicit Model(uint32_t size) : size_(size) {}
  Verdict accept(uint64_t seq) {
    if (seq > rpc::MAXSEQ) return Verdict::kAboveMax;
    // "the server is prepared to receive requests with sequence numbers in the range N through
    // (N - seq_window + 1), both inclusive. If the sequence number received falls below this range, it is
    // silently discarded."
    if (last_ && seq + size_ < *last_ + 1) return Verdict::kBelowWindow;
    // "If the server determines that it has already seen a sequence number within the window, the request is
    // silently discarded."
    if (!seen_.insert(seq).second) return Verdict::kReplay;
    // "If a sequence number higher than the last number seen is received [...], the window is moved forward
    // to the new sequence number."
    if (!last_ || seq > *last_) last_ = seq;
    return Verdict::kNew;
  }

 private:
  uint64_t size_;
  std::optional<uint64_t> last_;
  std::set<uint64_t> seen_;
};

// Every series of `length` numbers out of `choices` from `base` on, with windows of up to five.
void enumerate(uint32_t base, uint32_t choices, int length) {
  uint32_t series = 1;
  for (int i = 0; i < length; ++i) series *= choices;
  for (uint32_t size = 1; size <= 5; ++size) {
    for (uint32_t number = 0; number < series; ++number) {
      SequenceWindow window(size);
      Model model(size);
      uint32_t rest = number;
      for (int i = 0; i < length; ++i, rest /= choices) {
        const uint32_t seq = base + rest % choices;
        const Verdict expected = model.accept(seq);
        ASSERT_EQ(window.judge(seq), expected) << "size " << size << " series " << number << " step " << i;
        ASSERT_EQ(window.accept(seq), expected) << "size " << size << " series " << number << " step " << i;
      }
    }
  }
}

TEST(SequenceWindow, InEverySeriesOfSmallNumbers_DecidesAsTheRfc) {
  enumerate(0, 8, 5);
}

TEST(SequenceWindow, InEverySeriesAroundTheLimit_DecidesAsTheRfc) {
  enumerate(rpc::MAXSEQ - 5, 8, 5);
}

TEST(SequenceWindow, InEverySeriesAroundTheSignBit_DecidesAsTheRfc) {
  enumerate(0x7ffffffc, 6, 5);
}

TEST(SequenceWindow, OfUsualSize_DecidesAsTheRfc) {
  SequenceWindow window(128);
  Model model(128);
  uint32_t state = 42;
  uint32_t around = 1000;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525 + 1013904223;
    around += state % 7 == 0 ? (state >> 8) % 300 : 1;
    const uint32_t seq = around - (state >> 16) % 200;
    const Verdict expected = model.accept(seq);
    ASSERT_EQ(window.judge(seq), expected) << i;
    ASSERT_EQ(window.accept(seq), expected) << i;
  }
}

// Section 7.2.1: "An attacker cannot coax the server into raising the sequence number [...] without
// constructing an RPC request that will pass the header checksum."
TEST(SequenceWindow, Judging_MovesNothing) {
  SequenceWindow window(4);
  EXPECT_EQ(window.accept(10), Verdict::kNew);
  EXPECT_EQ(window.judge(1000000), Verdict::kNew);
  EXPECT_EQ(window.judge(9), Verdict::kNew);
  EXPECT_EQ(window.judge(9), Verdict::kNew);
  EXPECT_EQ(window.accept(9), Verdict::kNew);
}

// Section 5.3.1: "The seq_num field can start at any value below MAXSEQ".
TEST(SequenceWindow, BeginsWithAnyNumber) {
  for (const uint32_t first : {0u, 1u, 77u, rpc::MAXSEQ - 1, rpc::MAXSEQ}) {
    SequenceWindow window(16);
    EXPECT_EQ(window.accept(first), Verdict::kNew) << first;
    EXPECT_EQ(window.accept(first), Verdict::kReplay) << first;
  }
}

TEST(SequenceWindow, AboveTheLimit_RefusesAndStays) {
  SequenceWindow window(16);
  EXPECT_EQ(window.accept(5), Verdict::kNew);
  for (const uint32_t seq : {rpc::MAXSEQ + 1, 0xc0000000u, 0xffffffffu}) {
    EXPECT_EQ(window.accept(seq), Verdict::kAboveMax) << seq;
  }
  EXPECT_EQ(window.accept(6), Verdict::kNew);
}

TEST(SequenceWindow, OfSizeZero_HasOne) {
  SequenceWindow window(0);
  EXPECT_EQ(window.size(), 1u);
  EXPECT_EQ(window.accept(3), Verdict::kNew);
  EXPECT_EQ(window.accept(3), Verdict::kReplay);
  EXPECT_EQ(window.accept(2), Verdict::kBelowWindow);
  EXPECT_EQ(window.accept(4), Verdict::kNew);
}

}  // namespace
}  // namespace nfsrdma::security
