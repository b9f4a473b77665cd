// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/read_list.h"

#include <gtest/gtest.h>

namespace nfsrdma::fabric::iwarp {
namespace {

// The response segment with the `bytes` bytes at offset `done` of a Read.
Segment answer(const ReadRequest& r, size_t done, bool last) {
  Segment s;
  s.tagged = true;
  s.opcode = Opcode::kReadResponse;
  s.last = last;
  s.stag = r.sink_stag;
  s.offset = r.sink_offset + done;
  return s;
}

TEST(ReadList, AtMostOrdAreAskedFor) {
  StagTable tags;
  ReadList reads(tags, 2);
  ByteVector memory(100);
  for (Cookie i = 0; i < 3; ++i) reads.push(memory, {7, 100, i}, nullptr, i);
  const auto first = reads.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->source_stag, 7u);
  EXPECT_EQ(first->source_offset, 0u);
  EXPECT_EQ(first->bytes, 100u);
  EXPECT_TRUE(reads.next());
  EXPECT_FALSE(reads.next());
  EXPECT_EQ(tags.size(), 2u);
  EXPECT_EQ(reads.place(answer(*first, 0, true), 100).at, memory.data());
  EXPECT_EQ(reads.placed(100, true), 0u);
  EXPECT_EQ(reads.next()->source_offset, 2u);
}

TEST(ReadList, Answers_AreOfTheOldest_InOrder_AndWhole) {
  StagTable tags;
  ReadList reads(tags, 2);
  ByteVector memory(100);
  EXPECT_EQ(reads.place({}, 0).refused, term::kUnexpectedOpcode) << "nothing was asked for";
  reads.push(memory, {7, 100, 0}, nullptr, 1);
  reads.push(memory, {7, 100, 0}, nullptr, 2);
  const ReadRequest a = *reads.next();
  const ReadRequest b = *reads.next();
  EXPECT_EQ(reads.place(answer(b, 0, true), 100).refused, term::kInvalidStag);
  EXPECT_EQ(reads.place(answer(a, 1, false), 10).refused, term::kBounds);
  EXPECT_EQ(reads.place(answer(a, 0, true), 101).refused, term::kBounds);
  EXPECT_EQ(reads.place(answer(a, 0, true), 99).refused, term::kUnspecified) << "too short";
  EXPECT_EQ(reads.place(answer(a, 0, false), 100).refused, term::kUnspecified) << "and it goes on?";
  EXPECT_EQ(reads.place(answer(a, 0, false), 40).at, memory.data());
  EXPECT_FALSE(reads.placed(40, false));
  EXPECT_EQ(reads.place(answer(a, 0, false), 40).refused, term::kBounds) << "the same again";
  EXPECT_EQ(reads.place(answer(a, 40, true), 60).at, memory.data() + 40);
  EXPECT_EQ(reads.placed(60, true), 1u);
  EXPECT_EQ(tags.size(), 1u);
}

}  // namespace
}  // namespace nfsrdma::fabric::iwarp
