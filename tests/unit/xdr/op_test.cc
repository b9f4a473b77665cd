// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/op.h"

#include <gtest/gtest.h>

#include "tests/unit/xdr/words.h"
#include "xdr/nfs4/cb_compound.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::nfs4 {
namespace {

TEST(OpTraits, ArgsAndResults_NameTheSameOperation) {
#define NFS4_CHECK(op)                  \
  EXPECT_EQ(op_of<op##4args>, OP_##op); \
  EXPECT_EQ(op_of<op##4res>, OP_##op);  \
  EXPECT_STREQ(op_name(OP_##op), #op);
  NFS4_EACH_OP(NFS4_CHECK)
#undef NFS4_CHECK
}

TEST(OpTraits, CallbackArgsAndResults_NameTheSameOperation) {
#define NFS4_CHECK(op)                     \
  EXPECT_EQ(cb_op_of<op##4args>, OP_##op); \
  EXPECT_EQ(cb_op_of<op##4res>, OP_##op);  \
  EXPECT_STREQ(cb_op_name(OP_##op), #op);
  NFS4_EACH_CB_OP(NFS4_CHECK)
#undef NFS4_CHECK
}

TEST(OpName, NumbersThatAreNotAssigned_HaveNone) {
  EXPECT_EQ(op_name(nfs_opnum4{0}), nullptr);
  EXPECT_EQ(op_name(nfs_opnum4{2}), nullptr);
  EXPECT_EQ(op_name(nfs_opnum4{76}), nullptr);
  EXPECT_EQ(op_name(nfs_opnum4{UINT32_MAX}), nullptr);
  EXPECT_STREQ(op_name(OP_ILLEGAL), "ILLEGAL");
  EXPECT_STREQ(op_name(OP_REMOVEXATTR), "REMOVEXATTR");
  EXPECT_EQ(cb_op_name(nfs_cb_opnum4{2}), nullptr);
  EXPECT_STREQ(cb_op_name(OP_CB_ILLEGAL), "CB_ILLEGAL");
}

TEST(EncodeOp, WritesNumberThenArguments) {
  ByteVector wire;
  xdr::Encoder x(wire);
  EXPECT_TRUE(encode_op(x, ACCESS4args{ACCESS4_READ | ACCESS4_EXECUTE}));
  EXPECT_TRUE(encode_op(x, GETFH4args{}));
  EXPECT_EQ(wire, words({OP_ACCESS, 0x21, OP_GETFH}));
  xdr::Sizer s;
  EXPECT_TRUE(encode_op(s, ACCESS4args{}) && encode_op(s, GETFH4args{}));
  EXPECT_EQ(s.total(), wire.size());
}

TEST(DecodeRes, ItsOwnResult_IsDecoded) {
  const ByteVector wire = words({OP_ACCESS, NFS4_OK, 3, 1});
  xdr::Decoder x(wire);
  ACCESS4res res;
  EXPECT_TRUE(decode_res(x, res));
  EXPECT_EQ(res.resok4.supported, 3U);
  EXPECT_EQ(res.resok4.access, 1U);
}

TEST(DecodeRes, Failure_CarriesNothingMore) {
  const ByteVector wire = words({OP_ACCESS, NFS4ERR_STALE, 99});
  xdr::Decoder x(wire);
  ACCESS4res res;
  EXPECT_TRUE(decode_res(x, res));
  EXPECT_EQ(res.status, NFS4ERR_STALE);
  EXPECT_EQ(x.left(), 4U);
}

TEST(DecodeRes, ResultOfAnotherOperation_Fails) {
  const ByteVector wire = words({OP_GETATTR, NFS4_OK, 3, 1});
  xdr::Decoder x(wire);
  ACCESS4res res;
  EXPECT_FALSE(decode_res(x, res));
}

// RFC 8881 section 18.52.3: "The status field of ILLEGAL4res MUST be set to NFS4ERR_OP_ILLEGAL." Table 12
// also allows BADXDR, which servers send for arguments that they cannot decode.
TEST(DecodeRes, Illegal_IsAnAnswerToAnything) {
  for (const nfsstat4 status : {NFS4ERR_OP_ILLEGAL, NFS4ERR_BADXDR}) {
    const ByteVector wire = words({OP_ILLEGAL, status});
    xdr::Decoder x(wire);
    READ4res res;
    EXPECT_TRUE(decode_res(x, res));
    EXPECT_EQ(res.status, status);
  }
  const ByteVector wire = words({OP_ILLEGAL, NFS4_OK});
  xdr::Decoder x(wire);
  READ4res res;
  EXPECT_FALSE(decode_res(x, res));
}

TEST(DecodeRes, ReadIntoABufferOfTheCaller_CopiesNothing) {
  const ByteVector wire = words({OP_READ, NFS4_OK, 1, 5});
  const std::string destination = "12345";
  xdr::Decoder x(wire);
  x.set_bulk(as_const_bytes(destination));
  READ4res res;
  EXPECT_TRUE(decode_res(x, res));
  EXPECT_EQ(res.resok4.data.data(), as_const_bytes(destination).data());
  EXPECT_EQ(x.left(), 0U);
}

}  // namespace
}  // namespace nfsrdma::nfs4
