// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/compound.h"

#include <gtest/gtest.h>

#include "tests/unit/xdr/words.h"
#include "xdr/nfs4/cb_compound.h"

namespace nfsrdma::nfs4 {
namespace {

template <class T>
ByteVector encoded(const T& v) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(v)) << x.failure();
  return out;
}

template <class T>
std::string failure_of(const ByteVector& wire) {
  const auto v = xdr::decode<T>(wire, "");
  return v ? "" : v.error().cause;
}

// One default value of each operation: the variant's arms and the decoder's switch must agree.
TEST(Compound, EveryOperation_ComesBackAsItself) {
  COMPOUND4args args;
  COMPOUND4res res;
#define NFS4_ADD(op)                       \
  args.argarray.push_back({op##4args {}}); \
  res.resarray.push_back({op##4res {}});
  NFS4_EACH_OP(NFS4_ADD)
#undef NFS4_ADD
  const auto args_back = xdr::decode<COMPOUND4args>(encoded(args), "args");
  ASSERT_TRUE(args_back) << describe(args_back.error());
  EXPECT_EQ(*args_back, args);
  const auto res_back = xdr::decode<COMPOUND4res>(encoded(res), "res");
  ASSERT_TRUE(res_back) << describe(res_back.error());
  EXPECT_EQ(*res_back, res);
  EXPECT_EQ(args.argarray.size(), 46U);
  for (size_t i = 0; i < args.argarray.size(); ++i) {
    EXPECT_EQ(args.argarray[i].op.index(), i + 1);
    EXPECT_EQ(args.argarray[i].opnum(), res.resarray[i].opnum());
    EXPECT_EQ(res.resarray[i].status(), NFS4_OK);
  }
}

TEST(Compound, EveryCallbackOperation_ComesBackAsItself) {
  CB_COMPOUND4args args;
  CB_COMPOUND4res res;
#define NFS4_ADD(op)                       \
  args.argarray.push_back({op##4args {}}); \
  res.resarray.push_back({op##4res {}});
  NFS4_EACH_CB_OP(NFS4_ADD)
#undef NFS4_ADD
  const auto args_back = xdr::decode<CB_COMPOUND4args>(encoded(args), "args");
  ASSERT_TRUE(args_back) << describe(args_back.error());
  EXPECT_EQ(*args_back, args);
  const auto res_back = xdr::decode<CB_COMPOUND4res>(encoded(res), "res");
  ASSERT_TRUE(res_back) << describe(res_back.error());
  EXPECT_EQ(*res_back, res);
  EXPECT_EQ(args.argarray.size(), 12U);
}

// A message that a client builds in pieces is equal to the encoded whole message.
TEST(Compound, BuiltByPieces_IsTheSameMessage) {
  const SEQUENCE4args sequence{.sa_sequenceid = 3};
  const PUTFH4args putfh{nfs_fh4(as_const_bytes("handle"))};
  const GETATTR4args getattr{bitmap4::of({FATTR4_SIZE})};
  ByteVector out;
  xdr::Encoder x(out);
  compound_call head;
  EXPECT_TRUE(x(head));
  const size_t count_at = x.inline_bytes() - 4;
  EXPECT_TRUE(encode_op(x, sequence) && encode_op(x, putfh) && encode_op(x, getattr) && x.patch(count_at, 3));
  COMPOUND4args whole;
  whole.argarray = {{sequence}, {putfh}, {getattr}};
  EXPECT_EQ(out, encoded(whole));
}

TEST(Compound, ReadByPieces_IsTheSameMessage) {
  COMPOUND4res whole;
  whole.tag = "tag";
  whole.status = NFS4ERR_NOENT;
  whole.resarray = {{SEQUENCE4res{}}, {LOOKUP4res{NFS4ERR_NOENT}}};
  const ByteVector wire = encoded(whole);
  xdr::Decoder x(wire);
  compound_reply head;
  SEQUENCE4res sequence;
  LOOKUP4res lookup;
  EXPECT_TRUE(x(head) && decode_res(x, sequence) && decode_res(x, lookup));
  EXPECT_EQ(head.status, NFS4ERR_NOENT);
  EXPECT_EQ(as_string_view(head.tag), "tag");
  EXPECT_EQ(head.results, 2U);
  EXPECT_EQ(lookup.status, NFS4ERR_NOENT);
  EXPECT_EQ(x.left(), 0U);
}

TEST(CompoundArgs, OperationNotDecoded_EndsTheList) {
  for (const uint32_t op : {0U, uint32_t{OP_LAYOUTGET}, uint32_t{OP_SETCLIENTID}, uint32_t{OP_COPY}, 9999U,
                            uint32_t{OP_ILLEGAL}}) {
    const auto args =
        xdr::decode<COMPOUND4args>(words({0, 1, 3, OP_GETFH, op, 0xffffffff, 0xffffffff}), "args");
    ASSERT_TRUE(args) << op;
    ASSERT_EQ(args->argarray.size(), 2U);
    EXPECT_EQ(args->argarray[0].opnum(), OP_GETFH);
    EXPECT_EQ(args->argarray[1].op, decltype(nfs_argop4::op)(ILLEGAL4args{nfs_opnum4{op}}));
    EXPECT_EQ(args->argarray[1].opnum(), op);
  }
}

TEST(CompoundArgs, IllegalAsTheLastOperation_IsEncodedAsItCame) {
  const ByteVector wire = words({0, 1, 2, OP_GETFH, 9999});
  const auto args = xdr::decode<COMPOUND4args>(wire, "args");
  ASSERT_TRUE(args);
  EXPECT_EQ(encoded(*args), wire);
}

TEST(CompoundRes, OperationNotSupported_IsAcceptedAsThatOnly) {
  const ByteVector notsupp = words({NFS4ERR_NOTSUPP, 0, 1, OP_LAYOUTGET, NFS4ERR_NOTSUPP});
  const auto res = xdr::decode<COMPOUND4res>(notsupp, "res");
  ASSERT_TRUE(res);
  EXPECT_EQ(res->resarray[0].opnum(), OP_LAYOUTGET);
  EXPECT_EQ(res->resarray[0].status(), NFS4ERR_NOTSUPP);
  EXPECT_EQ(encoded(*res), notsupp);
  EXPECT_NE(failure_of<COMPOUND4res>(words({NFS4_OK, 0, 1, OP_LAYOUTGET, NFS4_OK})), "");
  EXPECT_NE(failure_of<COMPOUND4res>(words({NFS4ERR_NOTSUPP, 0, 1, 9999, NFS4ERR_NOTSUPP})), "");
  EXPECT_NE(failure_of<COMPOUND4res>(words({NFS4_OK, 0, 1, OP_ILLEGAL, NFS4_OK})), "");
}

TEST(CompoundRes, IllegalWithAStatusItCannotHave_IsNotEncoded) {
  for (const ILLEGAL4res& bad :
       {ILLEGAL4res{NFS4_OK, OP_ILLEGAL}, ILLEGAL4res{NFS4ERR_OP_ILLEGAL, OP_LAYOUTGET},
        ILLEGAL4res{NFS4ERR_NOTSUPP, nfs_opnum4{9999}}}) {
    ByteVector out;
    xdr::Encoder x(out);
    EXPECT_FALSE(x(nfs_resop4{bad}));
  }
}

TEST(Compound, MoreOperationsThanAllowed_FailBothWays) {
  COMPOUND4args args;
  args.argarray.resize(kMaxOperations, {GETFH4args{}});
  ByteVector wire = encoded(args);
  EXPECT_TRUE(xdr::decode<COMPOUND4args>(wire, "args"));
  args.argarray.push_back({GETFH4args{}});
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_FALSE(x(args));
  store_be32(wire.data() + 8, kMaxOperations + 1);
  wire.resize(wire.size() + 4);
  EXPECT_EQ(failure_of<COMPOUND4args>(wire), "array longer than its type allows");
}

TEST(Compound, CountBeyondTheMessage_Fails) {
  EXPECT_EQ(failure_of<COMPOUND4args>(words({0, 1, 2, OP_GETFH})), "truncated array");
  EXPECT_EQ(failure_of<COMPOUND4res>(words({0, 0, 2, OP_GETFH, NFS4ERR_STALE})), "truncated array");
}

TEST(CallbackCompound, OperationNotDecoded_EndsTheList) {
  const auto known = xdr::decode<CB_COMPOUND4args>(
      words({0, 1, 0, 3, OP_CB_RECALL_SLOT, 5, OP_CB_OFFLOAD, 1, 2, 3}), "args");
  ASSERT_TRUE(known);
  ASSERT_EQ(known->argarray.size(), 2U);
  EXPECT_EQ(known->argarray[1].opnum(), OP_CB_OFFLOAD);
}

TEST(CallbackCompound, UnknownResult_Fails) {
  EXPECT_EQ(failure_of<CB_COMPOUND4res>(words({NFS4ERR_NOTSUPP, 0, 1, OP_CB_OFFLOAD, NFS4ERR_NOTSUPP})), "");
  EXPECT_EQ(failure_of<CB_COMPOUND4res>(words({NFS4ERR_OP_ILLEGAL, 0, 1, OP_CB_ILLEGAL, NFS4ERR_OP_ILLEGAL})),
            "");
  EXPECT_NE(failure_of<CB_COMPOUND4res>(words({NFS4_OK, 0, 1, OP_CB_OFFLOAD, NFS4_OK})), "");
  EXPECT_NE(failure_of<CB_COMPOUND4res>(words({NFS4_OK, 0, 1, 77, NFS4ERR_NOTSUPP})), "");
}

// Unions with a closed set of arms in the RFC: each is given one wrong discriminant.
TEST(Unions, UnknownArms_Fail) {
  const auto after = [](const auto& v, size_t word, uint32_t value) {
    ByteVector wire = encoded(v);
    store_be32(wire.data() + 4 * word, value);
    wire.resize(wire.size() + 64);
    xdr::Decoder x(wire);
    auto back = v;
    return std::string(x(back) ? "" : x.failure());
  };
  EXPECT_EQ(after(createhow4{}, 0, 4), "unknown createmode4");
  EXPECT_EQ(after(openflag4{}, 0, 2), "unknown opentype4");
  EXPECT_EQ(after(open_claim4{}, 0, 7), "unknown open_claim_type4");
  EXPECT_EQ(after(open_delegation4{}, 0, 4), "unknown open_delegation_type4");
  EXPECT_EQ(after(nfs_space_limit4{}, 0, 3), "unknown limit_by4");
  EXPECT_EQ(after(LOCKT4args{}, 0, 5), "unknown nfs_lock_type4");
  EXPECT_EQ(after(LOCKT4args{}, 0, 0), "unknown nfs_lock_type4");
  EXPECT_EQ(after(settime4{}, 0, 2), "unknown time_how4");
  EXPECT_EQ(after(WRITE4args{}, 6, 3), "unknown stable_how4");
  EXPECT_EQ(after(WRITE4resok{}, 1, 3), "unknown stable_how4");
  EXPECT_EQ(after(state_protect4_a{}, 0, 3), "unknown state_protect_how4");
  EXPECT_EQ(after(callback_sec_parms4{}, 0, 2), "flavor that callback_sec_parms4 does not have");
  EXPECT_EQ(after(BIND_CONN_TO_SESSION4args{}, 4, 4), "unknown channel_dir_from_client4");
  EXPECT_EQ(after(BIND_CONN_TO_SESSION4resok{}, 4, 0), "unknown channel_dir_from_server4");
  EXPECT_EQ(after(deleg_claim4{}, 0, CLAIM_NULL), "open_claim_type4 that deleg_claim4 does not have");
  EXPECT_EQ(after(GET_DIR_DELEGATION4res_non_fatal{}, 0, 2), "unknown gddrnf4_status");
  EXPECT_EQ(after(SECINFO_NO_NAME4args{}, 0, 2), "unknown secinfo_style4");
  EXPECT_EQ(after(rpcsec_gss_info{}, 2, 4), "unknown rpc_gss_svc_t");
  EXPECT_EQ(after(layoutrecall4{}, 0, 4), "unknown layoutrecall_type4");
  EXPECT_EQ(after(CB_LAYOUTRECALL4args{}, 1, 0), "unknown layoutiomode4");
  EXPECT_EQ(after(fs4_status{}, 1, 6), "unknown fs4_status_type");
}

// RFC 8881 section 18.4.2: createtype4's default arm is void, so that the server can answer NFS4ERR_BADTYPE.
TEST(Unions, CreateOfAnyType_Decodes) {
  for (const uint32_t type : {0U, 1U, 9U, 77U}) {
    const auto v = xdr::decode<createtype4>(words({type}), "createtype4");
    ASSERT_TRUE(v) << type;
    EXPECT_EQ(static_cast<uint32_t>(v->type), type);
  }
}

TEST(Names, LongerThanTheBound_FailBothWays) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_FALSE(x(LOOKUP4args{std::string(kMaxComponent + 1, 'n')}));
  EXPECT_TRUE(xdr::decode<LOOKUP4args>(encoded(LOOKUP4args{std::string(kMaxComponent, 'n')}), ""));
  ByteVector wire = words({kMaxComponent + 1});
  wire.resize(4 + kMaxComponent + 4);
  EXPECT_EQ(failure_of<LOOKUP4args>(wire), "opaque longer than its type allows");
}

TEST(Readdir, EntriesWithoutEnd_FailWhereTheMessageEnds) {
  READDIR4res res;
  res.resok4.reply.entries.resize(3);
  ByteVector wire = encoded(res);
  wire.resize(wire.size() - 8);
  EXPECT_EQ(failure_of<READDIR4res>(wire), "truncated");
}

}  // namespace
}  // namespace nfsrdma::nfs4
