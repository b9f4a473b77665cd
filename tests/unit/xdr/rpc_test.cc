// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpc.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace nfsrdma::rpc {
namespace {

template <class T>
ByteVector encoded(const T& v) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(v)) << x.failure();
  return out;
}

reply_header accepted(accept_stat stat) {
  reply_header reply;
  reply.xid = Xid{7};
  reply.accepted = stat;
  reply.mismatch = {2, 4};
  return reply;
}

reply_header denied(reject_stat stat) {
  reply_header reply;
  reply.xid = Xid{7};
  reply.stat = MSG_DENIED;
  reply.denied = stat;
  reply.mismatch = {2, 3};
  reply.why = AUTH_REJECTEDCRED;
  return reply;
}

reply_header back(const reply_header& reply) {
  const ByteVector wire = encoded(reply);
  xdr::Decoder x(wire);
  reply_header v;
  EXPECT_TRUE(x(v)) << x.failure();
  EXPECT_EQ(x.left(), 0U);
  EXPECT_EQ(xdr::size_of(reply), wire.size());
  return v;
}

TEST(RpcCall, Header_ComesBackWithItsCredential) {
  const ByteVector cred = encode_authsys({1, "client", 1000, 1000, {4, 20, 24}});
  call_header call;
  call.xid = Xid{0xdeadbeef};
  call.prog = 100003;
  call.vers = 4;
  call.proc = 1;
  call.cred = {AUTH_SYS, cred};
  const ByteVector wire = encoded(call);
  xdr::Decoder x(wire);
  call_header v;
  ASSERT_TRUE(x(v));
  EXPECT_EQ(v.xid, call.xid);
  EXPECT_EQ(v.prog, 100003U);
  EXPECT_EQ(v.cred.flavor, AUTH_SYS);
  const auto parms = xdr::decode<authsys_parms>(v.cred.body, "AUTH_SYS");
  ASSERT_TRUE(parms);
  EXPECT_EQ(parms->gids, (std::vector<uint32_t>{4, 20, 24}));
}

// RFC 5531 section 9: "In case of an RPC version mismatch, the server returns the lowest and highest
// supported RPC version numbers." The fields after another version's number are not decoded.
TEST(RpcCall, OtherRpcVersion_IsReadNoFurther) {
  call_header call;
  call.rpcvers = 3;
  ByteVector wire = encoded(call);
  EXPECT_EQ(wire.size(), 12U);
  wire.resize(16);
  xdr::Decoder x(wire);
  call_header v;
  EXPECT_TRUE(x(v));
  EXPECT_EQ(v.rpcvers, 3U);
  EXPECT_EQ(x.left(), 4U);
}

TEST(RpcCall, Reply_IsNotACall) {
  const ByteVector wire = encoded(accepted(SUCCESS));
  xdr::Decoder x(wire);
  call_header v;
  EXPECT_FALSE(x(v));
  EXPECT_STREQ(x.failure(), "not an RPC call");
}

// RFC 5531 section 8.2: the body of an opaque_auth is at most 400 bytes.
TEST(RpcAuth, BodyOf401Bytes_FailsBothWays) {
  const ByteVector body(401);
  call_header call;
  call.cred = {AUTH_SYS, body};
  ByteVector out;
  xdr::Encoder e(out);
  EXPECT_FALSE(e(call));
  ByteVector wire = encoded(opaque_auth{AUTH_SYS, ConstBytes(body).first(400)});
  store_be32(wire.data() + 4, 401);
  wire.resize(wire.size() + 4);
  xdr::Decoder d(wire);
  opaque_auth auth;
  EXPECT_FALSE(d(auth));
}

// RFC 5531 appendix A: machinename<255>, gids<16>.
TEST(RpcAuth, AuthSysBeyondItsBounds_EncodesToNothing) {
  EXPECT_FALSE(encode_authsys({0, std::string(255, 'h'), 0, 0, std::vector<uint32_t>(16)}).empty());
  EXPECT_TRUE(encode_authsys({0, std::string(256, 'h'), 0, 0, {}}).empty());
  EXPECT_TRUE(encode_authsys({0, "h", 0, 0, std::vector<uint32_t>(17)}).empty());
}

TEST(RpcReply, EveryAcceptedArm_ComesBack) {
  for (const accept_stat stat :
       {SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR}) {
    const reply_header v = back(accepted(stat));
    EXPECT_EQ(v.xid, Xid{7});
    EXPECT_EQ(v.accepted, stat);
    EXPECT_EQ(v.success(), stat == SUCCESS);
    EXPECT_EQ(v.mismatch, stat == PROG_MISMATCH ? (mismatch_info{2, 4}) : mismatch_info{});
  }
}

TEST(RpcReply, EveryDeniedArm_ComesBack) {
  EXPECT_EQ(back(denied(RPC_MISMATCH)).mismatch, (mismatch_info{2, 3}));
  EXPECT_EQ(back(denied(AUTH_ERROR)).why, AUTH_REJECTEDCRED);
  EXPECT_FALSE(back(denied(AUTH_ERROR)).success());
}

TEST(RpcReply, UnknownArms_Fail) {
  const auto fails = [](std::initializer_list<uint32_t> words) {
    ByteVector wire;
    xdr::Encoder e(wire);
    for (const uint32_t word : words) e(word);
    xdr::Decoder x(wire);
    reply_header v;
    return !x(v);
  };
  EXPECT_TRUE(fails({7, 0, 0, 0, 0, 0}));   // a call
  EXPECT_TRUE(fails({7, 2, 0, 0, 0, 0}));   // neither
  EXPECT_TRUE(fails({7, 1, 2, 0, 0, 0}));   // reply_stat 2
  EXPECT_TRUE(fails({7, 1, 0, 0, 0, 6}));   // accept_stat 6
  EXPECT_TRUE(fails({7, 1, 1, 2, 0, 0}));   // reject_stat 2
  EXPECT_FALSE(fails({7, 1, 0, 0, 0, 5}));  // SYSTEM_ERR
}

TEST(RpcPeek, TellsCallsFromRepliesByEightBytes) {
  const ByteVector reply = encoded(accepted(SUCCESS));
  const auto prefix = peek(reply);
  ASSERT_TRUE(prefix);
  EXPECT_EQ(prefix->xid, Xid{7});
  EXPECT_EQ(prefix->type, REPLY);
  EXPECT_EQ(peek(encoded(call_header{}))->type, CALL);
  EXPECT_FALSE(peek(ConstBytes(reply).first(7)));
  ByteVector other = reply;
  other[7] = std::byte{2};
  EXPECT_FALSE(peek(other));
}

TEST(RpcCheck, Refusal_IsAnErrorWithItsErrno) {
  EXPECT_TRUE(check(accepted(SUCCESS), "NULL"));
  const std::vector<std::pair<reply_header, int>> refused = {{accepted(PROG_UNAVAIL), EPROTONOSUPPORT},
                                                             {accepted(PROG_MISMATCH), EPROTONOSUPPORT},
                                                             {accepted(PROC_UNAVAIL), EOPNOTSUPP},
                                                             {accepted(GARBAGE_ARGS), EIO},
                                                             {accepted(SYSTEM_ERR), EIO},
                                                             {denied(RPC_MISMATCH), EPROTONOSUPPORT},
                                                             {denied(AUTH_ERROR), EACCES}};
  for (const auto& [reply, errnum] : refused) {
    const auto result = check(reply, "NULL");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().layer, Layer::kRpc);
    EXPECT_EQ(result.error().recovery, Recovery::kPermanent);
    EXPECT_EQ(result.error().errnum, errnum);
    EXPECT_NE(result.error().status, 0U);
  }
}

TEST(RpcCheck, VersionsOfTheServer_AreNamed) {
  EXPECT_EQ(describe(check(accepted(PROG_MISMATCH), "NULL").error()),
            "NULL: PROG_MISMATCH: Protocol not supported: the server speaks versions 2 to 4");
}

TEST(RpcNames, EveryStatus_HasOne) {
  EXPECT_EQ(name_of(status_of(accepted(SUCCESS))), "SUCCESS");
  EXPECT_EQ(name_of(status_of(accepted(GARBAGE_ARGS))), "GARBAGE_ARGS");
  EXPECT_EQ(name_of(status_of(denied(RPC_MISMATCH))), "RPC_MISMATCH");
  EXPECT_EQ(name_of(status_of(denied(AUTH_ERROR))), "AUTH_REJECTEDCRED");
  reply_header odd = denied(AUTH_ERROR);
  odd.why = static_cast<auth_stat>(UINT32_MAX);
  EXPECT_EQ(name_of(status_of(odd)), "auth_stat 255");
  EXPECT_EQ(name_of(RpcStatus{0x150}), "RPC status 336");
}

}  // namespace
}  // namespace nfsrdma::rpc
