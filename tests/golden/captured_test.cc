// Every captured message decodes to the last byte, encodes to the bytes it came from, has the size the Sizer
// says, and fails cleanly when it is cut anywhere.

#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace nfsrdma::golden {
namespace {

class Captured : public testing::TestWithParam<Message> {};

TEST_P(Captured, Decoded_IsConsumedToTheLastByte) {
  visit_kind(GetParam().kind, [](auto value) {
    std::string why;
    EXPECT_TRUE(decode(GetParam().bytes, value, &why)) << why;
  });
}

TEST_P(Captured, EncodedAgain_IsTheSameBytes) {
  visit_kind(GetParam().kind, [](auto value) {
    ASSERT_TRUE(decode(GetParam().bytes, value));
    EXPECT_EQ(to_hex(encode(value)), to_hex(GetParam().bytes));
  });
}

TEST_P(Captured, Sized_IsAsLongAsItsBytes) {
  visit_kind(GetParam().kind, [](auto value) {
    ASSERT_TRUE(decode(GetParam().bytes, value));
    EXPECT_EQ(size_of(value), GetParam().bytes.size());
  });
}

// Every prefix is copied to a block of its own, so that a read behind its end is a read behind the block.
TEST_P(Captured, CutAtAnyByte_FailsCleanly) {
  visit_kind(GetParam().kind, []<class T>(const T&) {
    for (size_t n = 0; n < GetParam().bytes.size(); ++n) {
      const ByteVector prefix(GetParam().bytes.begin(), GetParam().bytes.begin() + static_cast<ptrdiff_t>(n));
      T value{};
      EXPECT_FALSE(decode(prefix, value)) << "cut at byte " << n;
    }
  });
}

TEST_P(Captured, WithBytesBehind_IsRefused) {
  visit_kind(GetParam().kind, [](auto value) {
    ByteVector longer = GetParam().bytes;
    longer.resize(longer.size() + 4);
    EXPECT_FALSE(decode(longer, value));
  });
}

INSTANTIATE_TEST_SUITE_P(Golden, Captured, testing::ValuesIn(messages()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace nfsrdma::golden
