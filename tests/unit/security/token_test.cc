// SPDX-License-Identifier: Apache-2.0
// Hostile tokens: cut, changed, repeated, of another mechanism. Bytes from a real KDC, spoiled.
#include <gtest/gtest.h>

#include "tests/unit/security/realm.h"

namespace nfsrdma::gss {
namespace {

class Tokens : public Realm {};

TEST_F(Tokens, OfAClient_CutAtEveryByte_AreRefused) {
  const ByteVector token = first_token(alice());
  const auto credential = service();
  for (size_t n = 0; n < token.size(); ++n) {
    Acceptor acceptor(credential);
    const Step step = acceptor.step(ConstBytes(token).first(n));
    ASSERT_TRUE(step.error) << n << " of " << token.size();
    ASSERT_FALSE(acceptor.done());
    ASSERT_TRUE(step.token.empty());
    ASSERT_NE(step.major & 0xffff0000u, 0u) << n;
  }
}

TEST_F(Tokens, OfAServer_CutAtEveryByte_AreRefused) {
  const auto credential = user(alice());
  const auto name = server();
  const auto accepting = service();
  for (size_t n = 1;; ++n) {
    Initiator initiator(credential, name);
    const Step asked = initiator.step({});
    Acceptor acceptor(accepting);
    const Step answered = acceptor.step(asked.token);
    ASSERT_TRUE(answered.done);
    if (n >= answered.token.size()) break;
    const Step step = initiator.step(ConstBytes(answered.token).first(n));
    ASSERT_TRUE(step.error) << n << " of " << answered.token.size();
    ASSERT_FALSE(initiator.done());
  }
}

// Some bytes of a token have no meaning of their own (options that nobody sets, the name of the realm, which
// is only a hint). A changed token is refused, or it proves the same user.
TEST_F(Tokens, OfAClient_WithAnyByteChanged_AreRefusedOrProveTheSameUser) {
  const ByteVector token = first_token(alice());
  const auto credential = service();
  size_t refused = 0;
  for (size_t at = 0; at < token.size(); ++at) {
    ByteVector changed = token;
    changed[at] ^= std::byte{0x10};
    Acceptor acceptor(credential);
    const Step step = acceptor.step(changed);
    if (step.error) {
      ++refused;
      continue;
    }
    const auto context = acceptor.take();
    ASSERT_TRUE(context) << at;
    ASSERT_EQ(context->initiator()->text(), "alice@NFSRDMA.TEST") << at;
  }
  EXPECT_GT(refused, token.size() * 9 / 10);
}

// The name of an encryption type is not looked at. So a changed token is refused, or the ends agree all the
// same.
TEST_F(Tokens, OfAServer_WithAnyByteChanged_AreRefusedOrHarmless) {
  const auto credential = user(alice());
  const auto name = server();
  const auto accepting = service();
  const ByteVector message(50);
  const ConstBytes pieces[] = {message};
  size_t refused = 0;
  size_t at = 0;
  for (;; ++at) {
    Initiator initiator(credential, name);
    const Step asked = initiator.step({});
    Acceptor acceptor(accepting);
    Step answered = acceptor.step(asked.token);
    ASSERT_TRUE(answered.done);
    if (at == answered.token.size()) break;
    answered.token[at] ^= std::byte{0x10};
    if (initiator.step(answered.token).error) {
      ++refused;
      continue;
    }
    const auto client = initiator.take();
    const auto server_end = acceptor.take();
    ASSERT_TRUE(client && server_end);
    ASSERT_TRUE(server_end->verify(pieces, *client->sign(pieces))) << at;
  }
  EXPECT_GT(refused, at * 9 / 10);
}

TEST_F(Tokens, WithBytesBehindThem_AreRefusedOrProveTheSameUser) {
  ByteVector token = first_token(alice());
  token.resize(token.size() + 4);
  Acceptor acceptor(service());
  const Step step = acceptor.step(token);
  if (step.error) return;
  EXPECT_EQ(acceptor.take()->initiator()->text(), "alice@NFSRDMA.TEST");
}

TEST_F(Tokens, OfAnotherExchange_DoNotCompleteAClient) {
  const std::string ccache = alice();
  Initiator first(user(ccache), server());
  Initiator second(user(ccache), server());
  const ByteVector asked = first.step({}).token;
  ASSERT_FALSE(second.step({}).token.empty());
  Acceptor acceptor(service());
  const Step answered = acceptor.step(asked);
  ASSERT_TRUE(answered.done);
  EXPECT_TRUE(second.step(answered.token).error);
  EXPECT_TRUE(first.step(answered.token).done);
}

TEST_F(Tokens, Reflected_DoNotCompleteAClient) {
  Initiator initiator(user(alice()), server());
  const ByteVector token = initiator.step({}).token;
  EXPECT_TRUE(initiator.step(token).error);
}

TEST_F(Tokens, Repeated_AreRefusedWithAReplayCache) {
  const ByteVector token = first_token(alice());
  const auto credential = service({.keytab = keytab(), .replay_cache = true});
  Acceptor first(credential);
  EXPECT_EQ(failure_in(first.step(token)), "none");
  Acceptor second(credential);
  const Step step = second.step(token);
  EXPECT_EQ(failure_in(step), "replay") << describe(*step.error);
  Acceptor other(credential);
  EXPECT_EQ(failure_in(other.step(first_token(alice()))), "none");
}

// What a replayed token is worth without a replay cache: a context whose keys only the real user knows. The
// acceptor adds its own part to the key of each context.
TEST_F(Tokens, RepeatedWithoutAReplayCache_GiveAContextOfAnotherKey) {
  Initiator initiator(user(alice()), server());
  const ByteVector token = initiator.step({}).token;
  const auto credential = service();
  Acceptor first(credential);
  Acceptor second(credential);
  const Step answered = first.step(token);
  ASSERT_TRUE(answered.done);
  ASSERT_TRUE(second.step(token).done);
  ASSERT_TRUE(initiator.step(answered.token).done);
  const auto client = initiator.take();
  const auto real = first.take();
  const auto replayed = second.take();
  ASSERT_TRUE(client && real && replayed);
  const ByteVector message(100);
  const ConstBytes pieces[] = {message};
  const auto mic = client->sign(pieces);
  ASSERT_TRUE(mic);
  EXPECT_TRUE(real->verify(pieces, *mic));
  EXPECT_FALSE(replayed->verify(pieces, *mic));
}

// SPNEGO's NegTokenInit that offers krb5 alone: the acceptor has krb5 and nothing that negotiates.
TEST_F(Tokens, OfSpnego_AreRefused) {
  static constexpr uint8_t kNegotiate[] = {0x60, 0x1b, 0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02,
                                           0xa0, 0x11, 0x30, 0x0f, 0xa0, 0x0d, 0x30, 0x0b, 0x06, 0x09,
                                           0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02};
  Acceptor acceptor(service());
  EXPECT_TRUE(acceptor.step(std::as_bytes(std::span(kNegotiate))).error);
}

TEST_F(Tokens, OfNoise_AreRefused) {
  const auto credential = service();
  uint32_t state = 1;
  for (size_t n = 0; n < 600; ++n) {
    ByteVector noise(n % 200);
    for (std::byte& byte : noise) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<std::byte>(state >> 24);
    }
    if (n % 3 == 0 && noise.size() > 1) noise[0] = std::byte{0x60};  // as every first token begins
    Acceptor acceptor(credential);
    ASSERT_TRUE(acceptor.step(noise).error) << n;
  }
}

}  // namespace
}  // namespace nfsrdma::gss
