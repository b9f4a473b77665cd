// SPDX-License-Identifier: Apache-2.0
// Signing, verifying, encrypting and decrypting with contexts that a real KDC made.
#include "transport/security/gss/context.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/security/messages.h"
#include "tests/unit/security/realm.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::gss {
namespace {

std::vector<ConstBytes> cut(ConstBytes whole, const std::vector<size_t>& sizes) {
  std::vector<ConstBytes> pieces;
  for (const size_t size : sizes) {
    pieces.push_back(whole.first(size));
    whole = whole.subspan(size);
  }
  pieces.push_back(whole);
  return pieces;
}

class Contexts : public Realm {};

TEST_F(Contexts, SignWhatTheOtherEndVerifies) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(200);
  const ConstBytes pieces[] = {message};
  for (const auto& [from, to] :
       {std::pair(&ends.initiator, &ends.acceptor), std::pair(&ends.acceptor, &ends.initiator)}) {
    const auto mic = from->sign(pieces);
    ASSERT_TRUE(mic);
    EXPECT_EQ(mic->size(), from->mic_bytes());
    EXPECT_TRUE(to->verify(pieces, *mic));
    EXPECT_FALSE(from->verify(pieces, *mic)) << "a reflected MIC";
  }
}

TEST_F(Contexts, SignPieces_AsTheirConcatenation) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(70000);
  const std::vector<std::vector<size_t>> cuts = {
      {}, {0}, {1}, {4, 0, 4}, {4, 65536}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}};
  for (const auto& sizes : cuts) {
    const auto signed_pieces = cut(message, sizes);
    const auto mic = ends.initiator.sign(signed_pieces);
    ASSERT_TRUE(mic);
    for (const auto& others : cuts) EXPECT_TRUE(ends.acceptor.verify(cut(message, others), *mic));
  }
}

TEST_F(Contexts, SignAnEmptyMessage) {
  const Ends ends = establish(alice());
  const auto mic = ends.initiator.sign({});
  ASSERT_TRUE(mic);
  EXPECT_TRUE(ends.acceptor.verify({}, *mic));
  const ConstBytes empty[] = {{}, {}};
  EXPECT_TRUE(ends.acceptor.verify(empty, *mic));
}

TEST_F(Contexts, SignInPlace) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(20);
  const ConstBytes pieces[] = {message};
  ByteVector mic(ends.acceptor.mic_bytes());
  ASSERT_TRUE(ends.acceptor.sign(pieces, mic));
  EXPECT_TRUE(ends.initiator.verify(pieces, mic));
  ByteVector too_small(mic.size() - 1);
  EXPECT_FALSE(ends.acceptor.sign(pieces, too_small));
  ByteVector too_large(mic.size() + 1);
  EXPECT_FALSE(ends.acceptor.sign(pieces, too_large));
}

// RFC 2203 section 5.2.2: "RPC servers can be multi-threaded, and thus the order in which GSS-API messages
// are signed or wrapped can be different from the order in which the messages are verified or unwrapped".
TEST_F(Contexts, VerifyAndUnwrap_InAnyOrderAndAgain) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(64);
  const ConstBytes pieces[] = {message};
  std::vector<ByteVector> mics;
  std::vector<ByteVector> tokens;
  for (int i = 0; i < 80; ++i) {
    mics.push_back(*ends.initiator.sign(pieces));
    tokens.push_back(wrapped(ends.initiator, pieces));
  }
  for (size_t i = mics.size(); i-- > 0;) {
    EXPECT_TRUE(ends.acceptor.verify(pieces, mics[i])) << i;
    EXPECT_TRUE(ends.acceptor.verify(pieces, mics[i])) << i;
    ByteVector again = tokens[i];
    EXPECT_TRUE(ends.acceptor.unwrap(tokens[i])) << i;
    EXPECT_TRUE(ends.acceptor.unwrap(again)) << i;
  }
}

TEST_F(Contexts, WrapPieces_AsTheirConcatenation) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(100000);
  for (const auto& sizes : std::vector<std::vector<size_t>>{{}, {0, 0}, {4}, {1, 65537, 3}, {99999}}) {
    const auto pieces = cut(message, sizes);
    for (const auto& [from, to] :
         {std::pair(&ends.initiator, &ends.acceptor), std::pair(&ends.acceptor, &ends.initiator)}) {
      ByteVector token = wrapped(*from, pieces);
      const auto plain = to->unwrap(token);
      ASSERT_TRUE(plain) << describe(plain.error());
      EXPECT_TRUE(std::ranges::equal(*plain, message));
      EXPECT_GE(plain->data(), token.data()) << "decrypted in place";
      EXPECT_LE(plain->data() + plain->size(), token.data() + token.size());
    }
  }
}

TEST_F(Contexts, Wrap_EverySmallSize) {
  const Ends ends = establish(alice());
  for (size_t n = 0; n < 130; ++n) {
    const ByteVector message = pattern(n);
    const ConstBytes pieces[] = {message};
    ByteVector token = wrapped(ends.initiator, pieces);
    const auto plain = ends.acceptor.unwrap(token);
    ASSERT_TRUE(plain) << n << ": " << describe(plain.error());
    ASSERT_TRUE(std::ranges::equal(*plain, message)) << n;
  }
}

TEST_F(Contexts, Wrap_HidesTheMessage) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(64);
  const ConstBytes pieces[] = {message};
  const ByteVector token = wrapped(ends.initiator, pieces);
  EXPECT_EQ(as_string_view(token).find(as_string_view(ConstBytes(message).first(8))), std::string::npos);
  EXPECT_NE(token, wrapped(ends.initiator, pieces)) << "the same message twice";
}

TEST_F(Contexts, Wrap_IntoRoomOfAnotherSize_IsAnError) {
  const Ends ends = establish(alice());
  const ByteVector message = pattern(64);
  const ConstBytes pieces[] = {message};
  const size_t right = ends.initiator.wrapped_bytes(64);
  for (const size_t room : {size_t{0}, right - 1, right + 1}) {
    ByteVector token(room);
    EXPECT_FALSE(ends.initiator.wrap(pieces, token)) << room;
  }
}

TEST_F(Contexts, Exported_GoOnInAnotherPlace) {
  Ends ends = establish(alice());
  const ByteVector message = pattern(300);
  const ConstBytes pieces[] = {message};
  const auto before = ends.acceptor.sign(pieces);
  ASSERT_TRUE(before);
  const auto bytes = std::move(ends.initiator).exported();
  ASSERT_TRUE(bytes) << describe(bytes.error());
  const auto imported = Context::imported(*bytes);
  ASSERT_TRUE(imported) << describe(imported.error());
  EXPECT_EQ(imported->mic_bytes(), ends.acceptor.mic_bytes());
  EXPECT_EQ(imported->initiator()->text(), "alice@NFSRDMA.TEST");
  EXPECT_GT(imported->lifetime(), std::chrono::hours(9));
  EXPECT_TRUE(imported->verify(pieces, *before));
  EXPECT_TRUE(ends.acceptor.verify(pieces, *imported->sign(pieces)));
  ByteVector token = wrapped(*imported, pieces);
  EXPECT_TRUE(ends.acceptor.unwrap(token));
}

TEST_F(Contexts, ExportedAtTheServer_GoOn) {
  Ends ends = establish(alice());
  const ByteVector message = pattern(300);
  const ConstBytes pieces[] = {message};
  const auto bytes = std::move(ends.acceptor).exported();
  ASSERT_TRUE(bytes);
  const auto imported = Context::imported(*bytes);
  ASSERT_TRUE(imported);
  EXPECT_TRUE(imported->verify(pieces, *ends.initiator.sign(pieces)));
  EXPECT_EQ(imported->initiator()->text(), "alice@NFSRDMA.TEST");
}

// The encryption types of RFC 3962, RFC 8009 and RFC 6803 have MICs and wrappings of other lengths.
TEST_F(Contexts, OfEveryEncryptionType_Work) {
  struct Type {
    const char* service;
    const char* name;
    size_t mic_bytes;  // 16 and the checksum (RFC 4121 section 4.2.6.1)
  };
  for (const auto& [host, name, mic_bytes] :
       {Type{"aes128", "aes128-cts-hmac-sha1-96", 28}, Type{"aes256", "aes256-cts-hmac-sha1-96", 28},
        Type{"sha256", "aes128-cts-hmac-sha256-128", 32}, Type{"sha384", "aes256-cts-hmac-sha384-192", 40},
        Type{"camellia", "camellia256-cts-cmac", 32}}) {
    const std::string principal = std::string("nfs/") + host;
    kdc().add(principal, std::string("-e ") + name + ":normal");
    const Ends ends = establish(Initiator(user(alice()), server("nfs", host)),
                                Acceptor(service({.keytab = kdc().keytab({principal})})));
    const ByteVector message = pattern(1001);
    const std::vector<ConstBytes> pieces = cut(message, {4, 100});
    EXPECT_TRUE(ends.acceptor.verify(pieces, *ends.initiator.sign(pieces))) << name;
    EXPECT_TRUE(ends.initiator.verify(pieces, *ends.acceptor.sign(pieces))) << name;
    // The acceptor's part of the key may be of a stronger type that both know.
    EXPECT_GE(ends.initiator.mic_bytes(), mic_bytes < 28 ? mic_bytes : 28) << name;
    for (size_t n = 0; n < 40; ++n) {
      const ConstBytes some[] = {ConstBytes(message).first(n)};
      ByteVector token = wrapped(ends.initiator, some);
      const auto plain = ends.acceptor.unwrap(token);
      ASSERT_TRUE(plain && std::ranges::equal(*plain, some[0])) << name << " " << n;
    }
  }
}

// What the context's lifetime is for: the library itself goes on after its end, so callers look at
// lifetime().
TEST_F(Contexts, AfterTheirEnd_SayThatNothingIsLeft) {
  kdc().set_clock_skew(std::chrono::seconds(1));
  std::optional<Ends> ends;
  ASSERT_TRUE(with_a_short_ticket([&](const std::string& ccache) {
    ends.emplace(establish(ccache));
    return ends->initiator.lifetime() > std::chrono::seconds(0);
  }));
  EXPECT_TRUE(test::eventually([&] {
    return ends->initiator.lifetime() == std::chrono::seconds(0) &&
           ends->acceptor.lifetime() == std::chrono::seconds(0);
  }));
  kdc().set_clock_skew(std::chrono::seconds(300));
}

}  // namespace
}  // namespace nfsrdma::gss
