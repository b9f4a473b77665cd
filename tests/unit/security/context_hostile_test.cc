// SPDX-License-Identifier: Apache-2.0
// MICs, wrapped messages and exported contexts that were cut, changed, made of noise or made for something
// else.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/security/messages.h"
#include "tests/unit/security/realm.h"

namespace nfsrdma::gss {
namespace {

class ContextsRefuse : public Realm {};

TEST_F(ContextsRefuse, AMicOfAnotherMessage) {
  const Ends ends = establish(alice());
  ByteVector message = pattern(40);
  const ConstBytes pieces[] = {message};
  const auto mic = ends.initiator.sign(pieces);
  ASSERT_TRUE(mic);
  for (size_t at = 0; at < message.size(); ++at) {
    message[at] ^= std::byte{1};
    const auto verified = ends.acceptor.verify(pieces, *mic);
    EXPECT_EQ(failure_in(verified), "bad signature") << at;
    EXPECT_EQ(verified.error().errnum, EBADMSG);
    message[at] ^= std::byte{1};
  }
  const ConstBytes shorter[] = {ConstBytes(message).first(39)};
  EXPECT_FALSE(ends.acceptor.verify(shorter, *mic));
  EXPECT_FALSE(ends.acceptor.verify({}, *mic));
}

TEST_F(ContextsRefuse, AMic_CutOrChangedAtAnyByte) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(40);
  const ConstBytes pieces[] = {message};
  const auto mic = ends.initiator.sign(pieces);
  ASSERT_TRUE(mic);
  for (size_t at = 0; at < mic->size(); ++at) {
    EXPECT_FALSE(ends.acceptor.verify(pieces, ConstBytes(*mic).first(at))) << at;
    for (const unsigned bit : {0x01u, 0x10u, 0x80u}) {
      ByteVector changed = *mic;
      changed[at] ^= static_cast<std::byte>(bit);
      EXPECT_FALSE(ends.acceptor.verify(pieces, changed)) << at;
    }
  }
  ByteVector longer = *mic;
  longer.resize(longer.size() + 4);
  EXPECT_FALSE(ends.acceptor.verify(pieces, longer));
  EXPECT_TRUE(ends.acceptor.verify(pieces, *mic));
}

// krb5 1.20 would abort at the first of these.
TEST_F(ContextsRefuse, AMic_OfItsHeaderAlone) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(40);
  const ConstBytes pieces[] = {message};
  const auto mic = ends.initiator.sign(pieces);
  ASSERT_TRUE(mic);
  EXPECT_EQ(failure_in(ends.acceptor.verify(pieces, ConstBytes(*mic).first(16))), "bad token");
  EXPECT_EQ(failure_in(ends.acceptor.verify(pieces, {})), "bad token");
}

TEST_F(ContextsRefuse, AWrappedMessage_CutAtAnyByte) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(50);
  const ConstBytes pieces[] = {message};
  const ByteVector token = wrapped(ends.initiator, pieces);
  for (size_t n = 0; n < token.size(); ++n) {
    ByteVector cut_token(token.begin(), token.begin() + static_cast<ptrdiff_t>(n));
    EXPECT_FALSE(ends.acceptor.unwrap(cut_token)) << n;
  }
  ByteVector longer = token;
  longer.resize(longer.size() + 4);
  EXPECT_FALSE(ends.acceptor.unwrap(longer));
}

TEST_F(ContextsRefuse, AWrappedMessage_ChangedAtAnyByte) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(50);
  const ConstBytes pieces[] = {message};
  const ByteVector token = wrapped(ends.initiator, pieces);
  for (size_t at = 0; at < token.size(); ++at) {
    for (const unsigned bit : {0x01u, 0x02u, 0x10u, 0x80u}) {
      ByteVector changed = token;
      changed[at] ^= static_cast<std::byte>(bit);
      const auto plain = ends.acceptor.unwrap(changed);
      EXPECT_FALSE(plain) << at << " " << bit;
      if (!plain) {
        EXPECT_EQ(plain.error().errnum, EBADMSG) << at << describe(plain.error());
      }
    }
  }
}

TEST_F(ContextsRefuse, AWrappedMessage_OfTheirOwn) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(50);
  const ConstBytes pieces[] = {message};
  ByteVector token = wrapped(ends.initiator, pieces);
  EXPECT_FALSE(ends.initiator.unwrap(token));
}

TEST_F(ContextsRefuse, AMicForAWrappedMessage_AndTheReverse) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(50);
  const ConstBytes pieces[] = {message};
  ByteVector mic = *ends.initiator.sign(pieces);
  EXPECT_FALSE(ends.acceptor.unwrap(mic));
  const ByteVector token = wrapped(ends.initiator, pieces);
  EXPECT_FALSE(ends.acceptor.verify(pieces, token));
}

TEST_F(ContextsRefuse, AnExportedContext_CutAtAnyByte) {
  Ends ends = establish(alice());
  auto bytes = std::move(ends.initiator).exported();
  ASSERT_TRUE(bytes);
  for (size_t n = 0; n < bytes->size(); ++n)
    ASSERT_FALSE(Context::imported(ConstBytes(*bytes).first(n))) << n << " of " << bytes->size();
  ASSERT_TRUE(Context::imported(*bytes));
  bytes->resize(bytes->size() + 1);
  ASSERT_FALSE(Context::imported(*bytes));
}

// Beginnings of every form of token: RFC 4121's (05 04 wrapped, 04 04 MIC, 04 05 deleted), and RFC 1964's
// behind the mechanism's name (02 01 wrapped, 01 01 MIC, 01 02 deleted), which is for other encryption types.
TEST_F(ContextsRefuse, Noise_InEveryFormOfAToken) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(20);
  const ConstBytes pieces[] = {message};
  uint32_t state = 7;
  const auto random = [&] { return state = state * 1664525 + 1013904223, state >> 16; };
  for (int i = 0; i < 20000; ++i) {
    ByteVector noise(random() % 120);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    const auto begin = [&](std::initializer_list<uint8_t> bytes) {
      size_t at = 0;
      for (const uint8_t byte : bytes)
        if (at < noise.size()) noise[at++] = std::byte{byte};
    };
    const auto length = static_cast<uint8_t>(noise.size() > 2 ? noise.size() - 2 : 0);
    const auto form = static_cast<uint8_t>(random() % 3);
    const auto flags = static_cast<uint8_t>(random() % 8);
    switch (random() % 4) {
      case 0:
        begin({static_cast<uint8_t>(4 + form % 2), static_cast<uint8_t>(4 + form / 2), flags, 0xff});
        break;
      case 1:
        begin({0x60,
               length,
               6,
               9,
               0x2a,
               0x86,
               0x48,
               0x86,
               0xf7,
               0x12,
               1,
               2,
               2,
               static_cast<uint8_t>(1 + form % 2),
               static_cast<uint8_t>(1 + form / 2),
               flags,
               0,
               flags,
               0,
               0xff,
               0xff});
        break;
      case 2:
        begin({0x60, length, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 5, 4, flags, 0xff});
        break;
      default: break;
    }
    EXPECT_FALSE(ends.acceptor.verify(pieces, noise)) << i;
    EXPECT_FALSE(ends.acceptor.unwrap(noise)) << i;
  }
}

}  // namespace
}  // namespace nfsrdma::gss
