// SPDX-License-Identifier: Apache-2.0
// A peer that uses the GSS library otherwise than we do: signed instead of encrypted messages, replay
// detection, no mutual authentication.
#include <gssapi/gssapi.h>
#include <gssapi/gssapi_krb5.h>
#include <gtest/gtest.h>

#include "tests/unit/security/realm.h"

namespace nfsrdma::gss {
namespace {

ByteVector taken(gss_buffer_desc& buffer) {
  const auto* bytes = static_cast<const std::byte*>(buffer.value);
  ByteVector copy(bytes, bytes + buffer.length);
  OM_uint32 minor = 0;
  gss_release_buffer(&minor, &buffer);
  return copy;
}

// The library's own initiator, with flags of its own.
class Foreign {
 public:
  Foreign(std::shared_ptr<const Credential> credential, std::shared_ptr<const Name> server, OM_uint32 flags)
      : credential_(std::move(credential)), server_(std::move(server)), flags_(flags) {}
  ~Foreign() {
    OM_uint32 minor = 0;
    gss_delete_sec_context(&minor, &context_, GSS_C_NO_BUFFER);
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  ByteVector step(ConstBytes token) {
    gss_buffer_desc in{token.size(), const_cast<std::byte*>(token.data())};
    gss_buffer_desc out = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor = 0;
    const OM_uint32 major = gss_init_sec_context(
        &minor, credential_->get(), &context_, server_->get(), const_cast<gss_OID>(gss_mech_krb5), flags_, 0,
        GSS_C_NO_CHANNEL_BINDINGS, token.empty() ? GSS_C_NO_BUFFER : &in, nullptr, &out, nullptr, nullptr);
    EXPECT_FALSE(GSS_ERROR(major));
    return taken(out);
  }
  ByteVector mic(ConstBytes message) {
    gss_buffer_desc in{message.size(), const_cast<std::byte*>(message.data())};
    gss_buffer_desc out = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor = 0;
    EXPECT_EQ(gss_get_mic(&minor, context_, 0, &in, &out), static_cast<OM_uint32>(GSS_S_COMPLETE));
    return taken(out);
  }
  ByteVector wrap(ConstBytes message, bool encrypt) {
    gss_buffer_desc in{message.size(), const_cast<std::byte*>(message.data())};
    gss_buffer_desc out = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor = 0;
    EXPECT_EQ(gss_wrap(&minor, context_, encrypt ? 1 : 0, 0, &in, nullptr, &out),
              static_cast<OM_uint32>(GSS_S_COMPLETE));
    return taken(out);
  }
  ByteVector unwrap(ConstBytes token) {
    gss_buffer_desc in{token.size(), const_cast<std::byte*>(token.data())};
    gss_buffer_desc out = GSS_C_EMPTY_BUFFER;
    OM_uint32 minor = 0;
    EXPECT_EQ(gss_unwrap(&minor, context_, &in, &out, nullptr, nullptr),
              static_cast<OM_uint32>(GSS_S_COMPLETE));
    return taken(out);
  }
  bool verifies(ConstBytes message, ConstBytes mic) {
    gss_buffer_desc in{message.size(), const_cast<std::byte*>(message.data())};
    gss_buffer_desc token{mic.size(), const_cast<std::byte*>(mic.data())};
    OM_uint32 minor = 0;
    return gss_verify_mic(&minor, context_, &in, &token, nullptr) == GSS_S_COMPLETE;
  }

 private:
  std::shared_ptr<const Credential> credential_;
  std::shared_ptr<const Name> server_;
  OM_uint32 flags_;
  gss_ctx_id_t context_ = GSS_C_NO_CONTEXT;
};

class PeersFlags : public Realm {
 protected:
  static Context accept(Foreign& peer) {
    Acceptor acceptor(service());
    const Step step = acceptor.step(peer.step({}));
    EXPECT_TRUE(step.done);
    if (!step.token.empty()) peer.step(step.token);
    return *acceptor.take();
  }
  const ByteVector message_ = ByteVector(77, std::byte{5});
};

constexpr OM_uint32 kUsual = GSS_C_MUTUAL_FLAG;

TEST_F(PeersFlags, OfTheWholeMessageApi_UnderstandOurs) {
  Foreign peer(user(alice()), server(), kUsual);
  const Context ours = accept(peer);
  const ConstBytes pieces[] = {ConstBytes(message_).first(10), ConstBytes(message_).subspan(10)};
  EXPECT_TRUE(peer.verifies(message_, *ours.sign(pieces)));
  EXPECT_TRUE(ours.verify(pieces, peer.mic(message_)));
  ByteVector token(ours.wrapped_bytes(message_.size()));
  ASSERT_TRUE(ours.wrap(pieces, token));
  EXPECT_EQ(peer.unwrap(token), message_);
  ByteVector theirs = peer.wrap(message_, true);
  const auto plain = ours.unwrap(theirs);
  ASSERT_TRUE(plain);
  EXPECT_TRUE(std::ranges::equal(*plain, message_));
}

// RFC 2203 section 5.3.2.3: "conf_req_flag (an argument to GSS_Wrap()) of TRUE".
TEST_F(PeersFlags, ThatSignInsteadOfEncrypting_AreRefused) {
  Foreign peer(user(alice()), server(), kUsual);
  const Context ours = accept(peer);
  ByteVector token = peer.wrap(message_, false);
  const auto plain = ours.unwrap(token);
  EXPECT_EQ(failure_in(plain), "no confidentiality");
  EXPECT_EQ(plain.error().errnum, EBADMSG);
}

// RFC 2203 section 5.2.2 forbids these flags to the client; who sets them all the same loses nothing.
TEST_F(PeersFlags, OfReplayDetection_DoNotOrderMessages) {
  Foreign peer(user(alice()), server(), kUsual | GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG);
  const Context ours = accept(peer);
  const ConstBytes pieces[] = {message_};
  const ByteVector first = peer.mic(message_);
  const ByteVector second = peer.mic(message_);
  EXPECT_TRUE(ours.verify(pieces, second));
  EXPECT_TRUE(ours.verify(pieces, first));
  EXPECT_TRUE(ours.verify(pieces, first));
}

TEST_F(PeersFlags, WithoutMutualAuthentication_GetNoToken) {
  Foreign peer(user(alice()), server(), 0);
  Acceptor acceptor(service());
  const Step step = acceptor.step(peer.step({}));
  EXPECT_TRUE(step.done);
  EXPECT_TRUE(step.token.empty());
  const ConstBytes pieces[] = {message_};
  EXPECT_TRUE(acceptor.take()->verify(pieces, peer.mic(message_)));
}

}  // namespace
}  // namespace nfsrdma::gss
