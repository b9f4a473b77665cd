// SPDX-License-Identifier: Apache-2.0
// Messages that no capture contains, derived by hand from the XDR of the RFCs, one 32-bit word at a time.
// Each test encodes a value to exactly these bytes, and decodes the bytes to that value.

#include <gtest/gtest.h>

#include "tests/golden/golden.h"
#include "xdr/record_mark.h"

namespace nfsrdma::golden {
namespace {

using namespace nfsrdma::nfs4;  // NOLINT: used throughout this file

template <class T>
void expect_wire(const T& value, std::string_view hex) {
  const ByteVector wire = from_hex(hex);
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(value)) << x.failure();
  EXPECT_EQ(to_hex(out), to_hex(wire));
  EXPECT_EQ(xdr::size_of(value), wire.size());
  const auto back = xdr::decode<T>(wire, "wire");
  ASSERT_TRUE(back) << describe(back.error());
  EXPECT_TRUE(*back == value);
}

constexpr stateid4 stateid(uint32_t seqid, unsigned char fill) {
  stateid4 id{seqid, {}};
  id.other.fill(std::byte{fill});
  return id;
}

TEST(DerivedSequence, Args_AreSessionThenFourWords) {
  SEQUENCE4args args;
  args.sa_sessionid.data.fill(std::byte{0xab});
  args.sa_sequenceid = 7;
  args.sa_slotid = 2;
  args.sa_highest_slotid = 5;
  args.sa_cachethis = true;
  expect_wire(args, R"(abababab abababab abababab abababab  # sessionid4, opaque[16]
                       00000007 00000002 00000005 00000001)");
}

TEST(DerivedOpen, ExclusiveCreateByName_CarriesVerifierThenAttributes) {
  OPEN4args args;
  args.share_access = OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  args.owner.owner = "own";
  args.openhow.opentype = OPEN4_CREATE;
  args.openhow.how.mode = EXCLUSIVE4_1;
  args.openhow.how.createverf = verifier4::of(0x1122334455667788);
  args.openhow.how.createattrs.attrmask = bitmap4::of({FATTR4_MODE});
  args.openhow.how.createattrs.mode = 0640;
  args.claim.file = "a.txt";
  expect_wire(args, R"(00000000                    # seqid
                       00000403 00000000           # share_access, share_deny
                       00000000 00000000           # clientid4
                       00000003 6f776e00           # owner<>
                       00000001                    # OPEN4_CREATE
                       00000003                    # EXCLUSIVE4_1
                       11223344 55667788           # cva_verf
                       00000002 00000000 00000002  # attrmask: bit 33 is bit 1 of word 1
                       00000004 000001a0           # attr_vals: 4 bytes, mode 0640
                       00000000                    # CLAIM_NULL
                       00000005 612e7478 74000000  # component4)");
}

TEST(DerivedOpen, ReclaimAfterRestart_CarriesDelegationType) {
  OPEN4args args;
  args.share_access = OPEN4_SHARE_ACCESS_READ;
  args.owner.owner = "o";
  args.claim.claim = CLAIM_PREVIOUS;
  args.claim.delegate_type = OPEN_DELEGATE_WRITE;
  expect_wire(args, R"(00000000 00000001 00000000 00000000 00000000 00000001 6f000000
                       00000000                    # OPEN4_NOCREATE
                       00000001 00000002           # CLAIM_PREVIOUS, OPEN_DELEGATE_WRITE)");
}

TEST(DerivedOpen, ClaimsByDelegation_CarryItsStateid) {
  open_claim4 by_name;
  by_name.claim = CLAIM_DELEGATE_CUR;
  by_name.delegate_stateid = stateid(3, 0x11);
  by_name.file = "f";
  expect_wire(by_name, "00000002 00000003 11111111 11111111 11111111 00000001 66000000");
  open_claim4 by_handle;
  by_handle.claim = CLAIM_DELEG_CUR_FH;
  by_handle.delegate_stateid = stateid(3, 0x11);
  expect_wire(by_handle, "00000005 00000003 11111111 11111111 11111111");
}

TEST(DerivedOpen, WriteDelegation_CarriesLimitAndAce) {
  open_delegation4 delegation;
  delegation.delegation_type = OPEN_DELEGATE_WRITE;
  delegation.stateid = stateid(1, 0x22);
  delegation.recall = true;
  delegation.space_limit = {NFS_LIMIT_BLOCKS, 0, 16, 4096};
  delegation.permissions = {ACE4_ACCESS_DENIED_ACE_TYPE, 0, ACE4_READ_DATA, "me@x"};
  expect_wire(delegation, R"(00000002                             # OPEN_DELEGATE_WRITE
                             00000001 22222222 22222222 22222222  # stateid
                             00000001                             # recall
                             00000002 00000010 00001000           # NFS_LIMIT_BLOCKS, 16 of 4096
                             00000001 00000000 00000001 00000004 6d654078  # nfsace4)");
}

TEST(DerivedOpen, NoDelegation_SaysWhy) {
  open_delegation4 contended;
  contended.delegation_type = OPEN_DELEGATE_NONE_EXT;
  contended.ond_why = WND4_CONTENTION;
  contended.ond_server_will_push_deleg = true;
  expect_wire(contended, "00000003 00000001 00000001");
  open_delegation4 scarce;
  scarce.delegation_type = OPEN_DELEGATE_NONE_EXT;
  scarce.ond_why = WND4_RESOURCE;
  expect_wire(scarce, "00000003 00000002 00000000");
  open_delegation4 unwanted;
  unwanted.delegation_type = OPEN_DELEGATE_NONE_EXT;
  expect_wire(unwanted, "00000003 00000000");
}

TEST(DerivedLock, NewLockOwner_CarriesOpenStateid) {
  LOCK4args args;
  args.locktype = WRITE_LT;
  args.offset = 0x100000000;
  args.length = NFS4_UINT64_MAX;
  args.locker.new_lock_owner = true;
  args.locker.stateid = stateid(1, 0x33);
  args.locker.lock_owner.owner = "lock";
  expect_wire(args, R"(00000002 00000000                    # WRITE_LT, reclaim
                       00000001 00000000 ffffffff ffffffff  # offset, length
                       00000001                             # new_lock_owner
                       00000000                             # open_seqid
                       00000001 33333333 33333333 33333333  # open_stateid
                       00000000                             # lock_seqid
                       00000000 00000000 00000004 6c6f636b  # lock_owner)");
}

TEST(DerivedLock, Denied_CarriesTheLockInTheWay) {
  LOCK4res res;
  res.status = NFS4ERR_DENIED;
  res.denied = {10, 20, READ_LT, {0x1122, "x"}};
  expect_wire(res, R"(0000271a                             # NFS4ERR_DENIED, 10010
                      00000000 0000000a 00000000 00000014  # offset, length
                      00000001                             # READ_LT
                      00000000 00001122 00000001 78000000  # owner)");
  LOCKT4res test;
  test.status = NFS4ERR_DENIED;
  test.denied = res.denied;
  expect_wire(test,
              "0000271a 00000000 0000000a 00000000 00000014 00000001 00000000 00001122 00000001 78000000");
}

// RFC 8881 section 18.30.3: "On either success or failure of the operation, the server will return the
// attrsset bitmask to represent what (if any) attributes were successfully set."
TEST(DerivedSetattr, FailedResult_StillCarriesAttrsset) {
  SETATTR4res res;
  res.status = NFS4ERR_NOSPC;
  res.attrsset = bitmap4::of({FATTR4_SIZE});
  expect_wire(res, "0000001c 00000001 00000010");
}

TEST(DerivedSetattr, Times_AreUnions) {
  SETATTR4args args;
  args.stateid = kAnonymousStateid;
  args.obj_attributes.attrmask = bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET});
  args.obj_attributes.time_access_set.set_it = SET_TO_SERVER_TIME4;
  args.obj_attributes.time_modify_set = {SET_TO_CLIENT_TIME4, {-1, 999999999}};
  expect_wire(args, R"(00000000 00000000 00000000 00000000  # stateid
                       00000002 00000000 00410000           # bits 48 and 54
                       00000014                             # 20 bytes
                       00000000                             # SET_TO_SERVER_TIME4
                       00000001 ffffffff ffffffff 3b9ac9ff  # SET_TO_CLIENT_TIME4, -1 s, 999999999 ns)");
}

TEST(DerivedRead, Result_IsEofAndPaddedData) {
  READ4res res;
  res.resok4.eof = true;
  res.resok4.data = as_const_bytes("abcde");
  expect_wire(res, "00000000 00000001 00000005 61626364 65000000");
}

TEST(DerivedReaddir, EmptyDirectory_IsTwoBooleans) {
  READDIR4res res;
  res.resok4.reply.eof = true;
  expect_wire(res, "00000000 00000000 00000000 00000000 00000001");
}

TEST(DerivedCreate, EveryType_CarriesItsOwnData) {
  expect_wire(createtype4{NF4LNK, "to", {}}, "00000005 00000002 746f0000");
  expect_wire(createtype4{NF4CHR, "", {4, 64}}, "00000004 00000004 00000040");
  expect_wire(createtype4{NF4BLK, "", {8, 1}}, "00000003 00000008 00000001");
  expect_wire(createtype4{NF4FIFO, "", {}}, "00000007");
  expect_wire(createtype4{NF4DIR, "", {}}, "00000002");
}

TEST(DerivedTestStateid, Result_IsOneStatusEach) {
  TEST_STATEID4res res;
  res.resok4.tsr_status_codes = {NFS4_OK, NFS4ERR_BAD_STATEID};
  expect_wire(res, "00000000 00000002 00000000 00002729");
}

TEST(DerivedBind, Reply_CarriesDirection) {
  BIND_CONN_TO_SESSION4res res;
  res.resok4.bctsr_sessid.data.fill(std::byte{1});
  res.resok4.bctsr_dir = CDFS4_BOTH;
  expect_wire(res, "00000000 01010101 01010101 01010101 01010101 00000003 00000000");
}

TEST(DerivedCallback, SequenceAndRecall_MakeACompound) {
  CB_COMPOUND4args args;
  args.tag = "recall";
  CB_SEQUENCE4args sequence;
  sequence.csa_sessionid.data.fill(std::byte{0x44});
  sequence.csa_sequenceid = 9;
  sequence.csa_highest_slotid = 1;
  sequence.csa_referring_call_lists = {{sequence.csa_sessionid, {{5, 6}, {7, 8}}}};
  CB_RECALL4args recall;
  recall.stateid = stateid(2, 0x55);
  recall.truncate = true;
  recall.fh = nfs_fh4(as_const_bytes("fh"));
  args.argarray = {{sequence}, {recall}};
  expect_wire(args, R"(00000006 72656361 6c6c0000           # tag
                       00000001 00000000 00000002           # minorversion, callback_ident, two operations
                       0000000b                             # OP_CB_SEQUENCE
                       44444444 44444444 44444444 44444444  # session
                       00000009 00000000 00000001 00000000  # sequence, slot, highest slot, cachethis
                       00000001                             # one referring_call_list4
                       44444444 44444444 44444444 44444444
                       00000002 00000005 00000006 00000007 00000008
                       00000004                             # OP_CB_RECALL
                       00000002 55555555 55555555 55555555  # stateid
                       00000001 00000002 66680000           # truncate, filehandle)");
}

TEST(DerivedCallback, RecallAnyAndSlot_AreAFewWords) {
  expect_wire(CB_RECALL_ANY4args{100, bitmap4::of({RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG})},
              "00000064 00000001 00000003");
  expect_wire(CB_RECALL_SLOT4args{15}, "0000000f");
}

TEST(DerivedCompound, IllegalOperation_IsNumberAndStatus) {
  COMPOUND4res res;
  res.status = NFS4ERR_OP_ILLEGAL;
  res.resarray = {{ILLEGAL4res{}}};
  expect_wire(res, "0000273c 00000000 00000001 0000273c 0000273c");
}

TEST(DerivedRpc, DeniedReplies_CarryTheirReason) {
  const auto wire = [](const rpc::reply_header& header) {
    ByteVector out;
    xdr::Encoder x(out);
    EXPECT_TRUE(x(header));
    return to_hex(out);
  };
  rpc::reply_header versions;
  versions.xid = rpc::Xid{0x01020304};
  versions.stat = rpc::MSG_DENIED;
  versions.denied = rpc::RPC_MISMATCH;
  versions.mismatch = {2, 2};
  EXPECT_EQ(wire(versions), "01020304 00000001 00000001 00000000 00000002 00000002");
  rpc::reply_header auth;
  auth.stat = rpc::MSG_DENIED;
  auth.denied = rpc::AUTH_ERROR;
  auth.why = rpc::AUTH_TOOWEAK;
  EXPECT_EQ(wire(auth), "00000000 00000001 00000001 00000001 00000005");
  rpc::reply_header program;
  program.accepted = rpc::PROG_MISMATCH;
  program.mismatch = {3, 4};
  EXPECT_EQ(wire(program), "00000000 00000001 00000000 00000000 00000000 00000002 00000003 00000004");
}

TEST(DerivedRpc, AuthSys_IsStampNameIdsAndGroups) {
  expect_wire(rpc::authsys_parms{1, "host", 1000, 100, {4, 24}},
              "00000001 00000004 686f7374 000003e8 00000064 00000002 00000004 00000018");
}

// RFC 5531 section 11: "a boolean that indicates whether the fragment is the last fragment of the record
// [...] The boolean value is the highest-order bit of the header; the length is the 31 low-order bits."
TEST(DerivedRecordMark, Word_IsFlagAndLength) {
  const auto last = rpc::encode_record_mark({true, 0x1234});
  EXPECT_EQ(to_hex({last.begin(), last.end()}), "80001234");
  const auto more = rpc::encode_record_mark({false, rpc::kFragmentLengthMask});
  EXPECT_EQ(to_hex({more.begin(), more.end()}), "7fffffff");
  EXPECT_EQ(rpc::decode_record_mark(last), (rpc::RecordMark{true, 0x1234}));
  EXPECT_EQ(rpc::decode_record_mark(more), (rpc::RecordMark{false, 0x7fffffff}));
}

}  // namespace
}  // namespace nfsrdma::golden
