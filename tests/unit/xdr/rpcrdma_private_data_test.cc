// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcrdma/private_data.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace nfsrdma::rpcrdma {
namespace {

ByteVector bytes(std::initializer_list<unsigned> values) {
  ByteVector out;
  for (const unsigned v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

// As Linux 6.1 sends it: knfsd with flags 0, the kernel's client with bit R.
TEST(PrivateData, OfTheKernel_IsUnderstood) {
  EXPECT_EQ(find_private_data(bytes({0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3})),
            (private_data{false, 4096, 4096}));
  EXPECT_EQ(find_private_data(bytes({0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3})), (private_data{true, 4096, 4096}));
}

TEST(PrivateData, Encoded_IsWhatIsUnderstood) {
  const private_data v{true, 4096, 8192};
  const auto out = encode(v);
  EXPECT_TRUE(std::ranges::equal(out, bytes({0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7})));
  EXPECT_EQ(find_private_data(out), v);
}

// RFC 8797 section 4.2: "Inline threshold sizes from 1024 to 262144 octets can be represented".
TEST(PrivateData, Sizes_AreRoundedDownAndClamped) {
  EXPECT_EQ(find_private_data(encode({false, 0, 1u << 30})), (private_data{false, 1024, 262144}));
  EXPECT_EQ(find_private_data(encode({false, 4095, 4097})), (private_data{false, 3072, 4096}));
}

// Section 5.2: "The offset of the Format Identifier is not restricted to any alignment." RoCE pads with
// zeros.
TEST(PrivateData, BehindOtherBytesAndPadded_IsFound) {
  ByteVector data = bytes({1, 2, 3});
  const auto message = encode({true, 8192, 8192});
  data.insert(data.end(), message.begin(), message.end());
  data.resize(196);
  EXPECT_EQ(find_private_data(data), (private_data{true, 8192, 8192}));
}

// Section 5.1: "MUST behave as if a Private Data message was received in which (1) bit 15 of the Flags field
// is zero and (2) both Size fields contain the value zero."
TEST(PrivateData, NotThereOrNotWhole_MeansTheDefaults) {
  EXPECT_EQ(find_private_data({}), private_data{});
  EXPECT_EQ(find_private_data(ByteVector(56)), private_data{});
  const auto message = encode({true, 8192, 8192});
  for (size_t n = 0; n < message.size(); ++n)
    EXPECT_EQ(find_private_data(ConstBytes(message).first(n)), private_data{}) << n;
  EXPECT_EQ(find_private_data(bytes({0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3})),
            private_data{});  // another version
}

// Section 4: "Reserved: ... receivers MUST ignore their value."
TEST(PrivateData, ReservedBits_AreIgnored) {
  EXPECT_EQ(find_private_data(bytes({0xf6, 0xab, 0x0e, 0x18, 1, 0xfe, 3, 3})),
            (private_data{false, 4096, 4096}));
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
