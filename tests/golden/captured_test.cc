// SPDX-License-Identifier: Apache-2.0
// Each captured message decodes to its last byte, encodes to the same bytes, has the size that the Sizer
// computes, and fails cleanly when it is cut anywhere.

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace nfsrdma::golden {
namespace {

// Calls check(message, Decoded<>{}) for each message.
template <class Check>
void for_every_message(Check check) {
  ASSERT_GE(messages().size(), 90U) << "golden messages are missing";
  for (const Message& message : messages()) {
    SCOPED_TRACE(message.name);
    visit_kind(message.kind, [&](auto value) { check(message, value); });
  }
}

TEST(Captured, Decoded_IsConsumedToTheLastByte) {
  for_every_message([](const Message& message, auto value) {
    std::string why;
    EXPECT_TRUE(decode(message.bytes, value, &why)) << why;
  });
}

TEST(Captured, EncodedAgain_IsTheSameBytes) {
  for_every_message([](const Message& message, auto value) {
    ASSERT_TRUE(decode(message.bytes, value));
    EXPECT_EQ(to_hex(encode(value)), to_hex(message.bytes));
  });
}

TEST(Captured, Sized_IsAsLongAsItsBytes) {
  for_every_message([](const Message& message, auto value) {
    ASSERT_TRUE(decode(message.bytes, value));
    EXPECT_EQ(size_of(value), message.bytes.size());
  });
}

// Each prefix is copied to its own block, so that a sanitizer sees a read beyond its end.
TEST(Captured, CutAtAnyByte_FailsCleanly) {
  for_every_message([]<class T>(const Message& message, const T&) {
    for (size_t n = 0; n < message.bytes.size(); ++n) {
      const ByteVector prefix(message.bytes.begin(), message.bytes.begin() + static_cast<ptrdiff_t>(n));
      T value{};
      EXPECT_FALSE(decode(prefix, value)) << "cut at byte " << n;
    }
  });
}

TEST(Captured, WithBytesBehind_IsRefused) {
  for_every_message([](const Message& message, auto value) {
    ByteVector longer = message.bytes;
    longer.resize(longer.size() + 4);
    EXPECT_FALSE(decode(longer, value));
  });
}

}  // namespace
}  // namespace nfsrdma::golden
