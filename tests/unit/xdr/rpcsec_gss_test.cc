// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcsec_gss.h"

#include <gtest/gtest.h>

#include "tests/golden/hex.h"

namespace nfsrdma::rpc {
namespace {

using golden::from_hex;

ByteVector bytes_of(size_t n) {
  ByteVector bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

template <class T>
ByteVector wire_of(const T& v) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(v)) << x.failure();
  EXPECT_EQ(xdr::size_of(v), out.size());
  return out;
}

template <class T>
bool decodes(ConstBytes wire, T* into = nullptr) {
  xdr::Decoder x(wire);
  T v{};
  const bool done = x(v);
  if (into != nullptr) *into = v;
  return done;
}

// There and back, and at no shorter length.
template <class T>
void comes_back(const T& v) {
  const ByteVector wire = wire_of(v);
  T back{};
  ASSERT_TRUE(decodes(wire, &back));
  EXPECT_EQ(back, v);
  for (size_t n = 0; n < wire.size(); ++n) EXPECT_FALSE(decodes<T>(ConstBytes(wire).first(n))) << n;
}

// Every word replaced by false lengths: decoding fails or what it gives lies in the message.
template <class T, class Views>
void survives_lies(const T& v, Views views) {
  const ByteVector wire = wire_of(v);
  for (size_t at = 0; at + 4 <= wire.size(); at += 4) {
    for (const uint32_t lie :
         {0xffffffffU, 0xfffffffcU, 0x7fffffffU, 0x80000000U, 401U, 381U, 65537U, 5U, 0U}) {
      ByteVector bytes = wire;
      store_be32(bytes.data() + at, lie);
      T back{};
      if (!decodes(bytes, &back)) continue;
      for (const ConstBytes view : views(back)) {
        if (view.empty()) continue;
        EXPECT_GE(view.data(), bytes.data()) << at << " " << lie;
        EXPECT_LE(view.data() + view.size(), bytes.data() + bytes.size()) << at << " " << lie;
      }
    }
  }
}

TEST(RpcsecGss, Credential_HasTheRfcsWords) {
  const ByteVector handle = from_hex("0a0b0c0d0e");
  const rpc_gss_cred_t cred{
      .v1 = {RPCSEC_GSS_DATA, 0x01020304, rpc_gss_svc_privacy, handle},
  };
  EXPECT_EQ(wire_of(cred), from_hex("00000001 00000000 01020304 00000003 00000005 0a0b0c0d 0e000000"));
  comes_back(cred);
}

TEST(RpcsecGss, Credentials_ComeBack) {
  const ByteVector handle = bytes_of(16);
  for (const auto proc : {RPCSEC_GSS_DATA, RPCSEC_GSS_INIT, RPCSEC_GSS_CONTINUE_INIT, RPCSEC_GSS_DESTROY}) {
    for (const auto service : {rpc_gss_svc_none, rpc_gss_svc_integrity, rpc_gss_svc_privacy}) {
      for (const uint32_t seq : {0u, 1u, MAXSEQ, UINT32_MAX}) {
        comes_back(rpc_gss_cred_t{.v1 = {proc, seq, service, handle}});
        comes_back(rpc_gss_cred_t{.v1 = {proc, seq, service, {}}});
      }
    }
  }
}

// Section 5.1: "the RPC response will have a reply_stat of MSG_DENIED, a rejection status of AUTH_ERROR, and
// an auth_stat of AUTH_REJECTED_CRED": the server has to know the version, and nothing behind it.
TEST(RpcsecGss, CredentialOfAnotherVersion_IsItsVersionAlone) {
  for (const uint32_t version : {0u, 2u, 3u, UINT32_MAX}) {
    ByteVector wire(4);
    store_be32(wire.data(), version);
    rpc_gss_cred_t cred;
    ASSERT_TRUE(decodes(wire, &cred));
    EXPECT_EQ(cred.version, version);
    EXPECT_EQ(wire_of(cred), wire);
  }
}

// Section 5.3.3.3: "If there is a problem with the credential, such a bad length, illegal control procedure,
// or an illegal service, the appropriate auth_stat status is AUTH_BADCRED."
TEST(RpcsecGss, CredentialWithAnIllegalProcedureOrService_IsRefused) {
  const ByteVector good = wire_of(rpc_gss_cred_t{});
  for (const uint32_t proc : {4u, 5u, UINT32_MAX}) {
    ByteVector bad = good;
    store_be32(bad.data() + 4, proc);
    EXPECT_FALSE(decodes<rpc_gss_cred_t>(bad)) << proc;
  }
  for (const uint32_t service : {0u, 4u, 5u, UINT32_MAX}) {
    ByteVector bad = good;
    store_be32(bad.data() + 12, service);
    EXPECT_FALSE(decodes<rpc_gss_cred_t>(bad)) << service;
  }
}

// Section 5.2.2: "In a creation request, the seq_num and service fields are undefined and both must be
// ignored by the server."
TEST(RpcsecGss, CredentialThatCreatesAContext_MayHaveAnyService) {
  for (const auto proc : {RPCSEC_GSS_INIT, RPCSEC_GSS_CONTINUE_INIT}) {
    for (const uint32_t service : {0u, 4u, UINT32_MAX}) {
      ByteVector wire = wire_of(rpc_gss_cred_t{.v1 = {proc, 77, rpc_gss_svc_none, {}}});
      store_be32(wire.data() + 12, service);
      rpc_gss_cred_t cred;
      ASSERT_TRUE(decodes(wire, &cred));
      EXPECT_EQ(wire_of(cred), wire);
    }
  }
}

TEST(RpcsecGss, CredentialWithTheLongestHandle_FitsIntoItsBody) {
  const ByteVector handle = bytes_of(kMaxGssHandle);
  const rpc_gss_cred_t cred{.v1 = {RPCSEC_GSS_DATA, 1, rpc_gss_svc_none, handle}};
  EXPECT_EQ(wire_of(cred).size(), kMaxAuthBytes);
  comes_back(cred);
  const ByteVector body = wire_of(cred);
  EXPECT_EQ(wire_of(opaque_auth{RPCSEC_GSS, body}).size(), 8 + kMaxAuthBytes);
  const ByteVector longer = bytes_of(kMaxGssHandle + 1);
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_FALSE(x(rpc_gss_cred_t{.v1 = {RPCSEC_GSS_DATA, 1, rpc_gss_svc_none, longer}}));
}

TEST(RpcsecGss, Initialisation_ComesBack) {
  for (const size_t n : {0u, 1u, 3u, 700u, 65536u}) {
    const ByteVector token = bytes_of(n);
    const ByteVector wire = wire_of(rpc_gss_init_arg{token});
    rpc_gss_init_arg back;
    ASSERT_TRUE(decodes(wire, &back));
    EXPECT_EQ(back, rpc_gss_init_arg{token});
  }
  const ByteVector handle = bytes_of(8);
  const ByteVector token = bytes_of(131);
  comes_back(rpc_gss_init_arg{token});
  comes_back(rpc_gss_init_res{handle, kGssComplete, 0, 128, token});
  comes_back(rpc_gss_init_res{handle, kGssContinueNeeded, 0, 128, token});
  comes_back(rpc_gss_init_res{{}, 0x000d0000, 0x96c73a25, 0, {}});
}

TEST(RpcsecGss, InitialisationWithATokenTooLong_IsRefused) {
  const ByteVector token = bytes_of(kMaxGssToken + 4);
  ByteVector wire(4 + token.size());
  store_be32(wire.data(), static_cast<uint32_t>(token.size()));
  EXPECT_FALSE(decodes<rpc_gss_init_arg>(wire));
}

TEST(RpcsecGss, Result_HasTheRfcsWords) {
  const ByteVector handle = from_hex("aabbccdd");
  const ByteVector token = from_hex("6061");
  EXPECT_EQ(wire_of(rpc_gss_init_res{handle, 0x00090000, 7, 128, token}),
            from_hex("00000004 aabbccdd 00090000 00000007 00000080 00000002 60610000"));
}

TEST(RpcsecGss, Bodies_HaveTheRfcsWords) {
  const ByteVector arguments = from_hex("11111111 22222222");
  const ByteVector data = wire_of(rpc_gss_data_t{9, arguments});
  EXPECT_EQ(data, from_hex("00000009 11111111 22222222"));
  const ByteVector checksum = from_hex("0404ff");
  EXPECT_EQ(wire_of(rpc_gss_integ_data{data, checksum}),
            from_hex("0000000c 00000009 11111111 22222222 00000003 0404ff00"));
  const ByteVector sealed = from_hex("0504020102");
  EXPECT_EQ(wire_of(rpc_gss_priv_data{sealed}), from_hex("00000005 05040201 02000000"));
}

TEST(RpcsecGss, Bodies_ComeBack) {
  for (const size_t n : {0u, 4u, 64u, 1024u}) {
    const ByteVector arguments = bytes_of(n);
    const ByteVector checksum = bytes_of(28);
    const ByteVector data = wire_of(rpc_gss_data_t{MAXSEQ, arguments});
    rpc_gss_data_t back;
    ASSERT_TRUE(decodes(data, &back));
    EXPECT_EQ(back, (rpc_gss_data_t{MAXSEQ, arguments}));
    comes_back(rpc_gss_integ_data{data, checksum});
    comes_back(rpc_gss_priv_data{data});
  }
}

TEST(RpcsecGss, DataOfAPartOfAWord_IsRefused) {
  for (size_t n = 0; n < 16; ++n) EXPECT_EQ(decodes<rpc_gss_data_t>(bytes_of(n)), n >= 4 && n % 4 == 0) << n;
  const ByteVector odd = bytes_of(5);
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_FALSE(x(rpc_gss_data_t{1, odd}));
}

TEST(RpcsecGss, ChecksumTooLong_IsRefused) {
  const ByteVector data = bytes_of(8);
  const ByteVector longest = bytes_of(kMaxGssChecksum);
  comes_back(rpc_gss_integ_data{data, longest});
  const ByteVector longer = bytes_of(kMaxGssChecksum + 1);
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_FALSE(x(rpc_gss_integ_data{data, longer}));
}

TEST(RpcsecGss, FalseLengths_ReachNothingOutsideTheMessage) {
  const ByteVector some = bytes_of(12);
  survives_lies(rpc_gss_cred_t{.v1 = {RPCSEC_GSS_DATA, 1, rpc_gss_svc_integrity, some}},
                [](const rpc_gss_cred_t& v) { return std::array{v.v1.handle}; });
  survives_lies(rpc_gss_init_arg{some}, [](const rpc_gss_init_arg& v) { return std::array{v.gss_token}; });
  survives_lies(rpc_gss_init_res{some, 0, 0, 64, some}, [](const rpc_gss_init_res& v) {
    return std::array{v.handle, v.gss_token};
  });
  survives_lies(rpc_gss_integ_data{some, some}, [](const rpc_gss_integ_data& v) {
    return std::array{v.databody_integ, v.checksum};
  });
  survives_lies(rpc_gss_priv_data{some},
                [](const rpc_gss_priv_data& v) { return std::array{v.databody_priv}; });
  survives_lies(rpc_gss_data_t{5, some}, [](const rpc_gss_data_t& v) { return std::array{v.arg}; });
}

}  // namespace
}  // namespace nfsrdma::rpc
