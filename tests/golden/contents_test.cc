// SPDX-License-Identifier: Apache-2.0
// The content of captured messages. The expected values are those that Wireshark, an independent decoder,
// shows.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/golden.h"

namespace nfsrdma::golden {
namespace {

using namespace nfsrdma::nfs4;  // NOLINT: used throughout this file

template <class T>
T decoded(std::string_view name) {
  T value{};
  std::string why;
  EXPECT_TRUE(decode(message(name).bytes, value, &why)) << name << ": " << why;
  return value;
}

template <class Op>
const Op& arg(const Call& call, size_t i) {
  return std::get<Op>(call.body.argarray.at(i).op);
}
template <class Op>
const Op& res(const Reply& reply, size_t i) {
  return std::get<Op>(reply.body.resarray.at(i).op);
}

ByteVector bytes_of(ConstBytes view) {
  return {view.begin(), view.end()};
}
std::string hex(ConstBytes view) {
  return to_hex(bytes_of(view));
}

TEST(CapturedRpc, CallHeader_NamesProgramAndCredential) {
  const Call call = decoded<Call>("linux_open_fh_call");
  EXPECT_EQ(call.header.xid, rpc::Xid{0xe362c39c});
  EXPECT_EQ(call.header.prog, NFS4_PROGRAM);
  EXPECT_EQ(call.header.vers, NFS_V4);
  EXPECT_EQ(call.header.proc, NFSPROC4_COMPOUND);
  EXPECT_EQ(call.header.cred.flavor, rpc::AUTH_SYS);
  EXPECT_EQ(call.header.verf.flavor, rpc::AUTH_NONE);
  const auto cred = xdr::decode<rpc::authsys_parms>(call.header.cred.body, "credential");
  ASSERT_TRUE(cred);
  EXPECT_EQ(cred->machinename, "vmlab-connect");
  EXPECT_EQ(cred->uid, 0U);
  EXPECT_TRUE(cred->gids.empty());
}

TEST(CapturedExchangeId, Call_NamesOwnerAndImplementation) {
  const Call call = decoded<Call>("linux_exchange_id_call");
  const auto& args = arg<EXCHANGE_ID4args>(call, 0);
  EXPECT_EQ(args.eia_clientowner.co_ownerid, "Linux NFSv4.1 vmlab-connect");
  EXPECT_EQ(args.eia_flags, EXCHGID4_FLAG_BIND_PRINC_STATEID | EXCHGID4_FLAG_SUPP_MOVED_REFER);
  EXPECT_EQ(args.eia_state_protect.how, SP4_NONE);
  ASSERT_TRUE(args.eia_client_impl_id);
  EXPECT_EQ(args.eia_client_impl_id->nii_domain, "kernel.org");
}

TEST(CapturedExchangeId, Reply_NamesServer) {
  const Reply reply = decoded<Reply>("linux_exchange_id_reply");
  const auto& ok = res<EXCHANGE_ID4res>(reply, 0).resok4;
  EXPECT_EQ(ok.eir_clientid, 0xd313006b2a902418U);
  EXPECT_EQ(ok.eir_sequenceid, 1U);
  EXPECT_EQ(ok.eir_flags, EXCHGID4_FLAG_USE_PNFS_MDS | EXCHGID4_FLAG_SUPP_MOVED_REFER);
  EXPECT_EQ(ok.eir_server_owner.so_major_id, "vmlab-listen");
  EXPECT_EQ(ok.eir_server_scope, "vmlab-listen");
  EXPECT_FALSE(ok.eir_server_impl_id);
}

TEST(CapturedCreateSession, Call_OffersBothChannels) {
  const Call call = decoded<Call>("linux_create_session_call");
  const auto& args = arg<CREATE_SESSION4args>(call, 0);
  EXPECT_EQ(args.csa_flags, CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(args.csa_fore_chan_attrs.ca_maxrequestsize, 1049620U);
  EXPECT_EQ(args.csa_fore_chan_attrs.ca_maxrequests, 64U);
  EXPECT_EQ(args.csa_back_chan_attrs.ca_maxoperations, 2U);
  EXPECT_EQ(args.csa_cb_program, 0x40000000U);
  ASSERT_EQ(args.csa_sec_parms.size(), 1U);
  EXPECT_EQ(args.csa_sec_parms[0].cb_secflavor, rpc::AUTH_SYS);
  EXPECT_EQ(args.csa_sec_parms[0].cbsp_sys_cred.machinename, "vmlab-connect");
}

TEST(CapturedCreateSession, Reply_GrantsLess) {
  const Reply reply = decoded<Reply>("linux_create_session_reply");
  const auto& ok = res<CREATE_SESSION4res>(reply, 0).resok4;
  EXPECT_EQ(hex(ok.csr_sessionid.data), "d313006b 2d902418 02000000 00000000");
  EXPECT_EQ(ok.csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(ok.csr_fore_chan_attrs.ca_maxrequestsize, 528384U);
  EXPECT_EQ(ok.csr_fore_chan_attrs.ca_maxresponsesize_cached, 2128U);
  EXPECT_EQ(ok.csr_fore_chan_attrs.ca_maxrequests, 30U);
  EXPECT_FALSE(ok.csr_fore_chan_attrs.ca_rdma_ird);
}

TEST(CapturedSecinfo, Reply_ListsFlavors) {
  const Reply reply = decoded<Reply>("linux_secinfo_no_name_reply");
  const auto& flavors = res<SECINFO_NO_NAME4res>(reply, 2).resok4;
  ASSERT_FALSE(flavors.empty());
  EXPECT_EQ(flavors[0].flavor, rpc::AUTH_SYS);
}

TEST(CapturedGetattr, RootReply_CarriesFilehandleAndAttributes) {
  const Reply reply = decoded<Reply>("linux_root_getattr_reply");
  EXPECT_EQ(hex(res<GETFH4res>(reply, 2).resok4.object.bytes()), "01000100 00000000");
  const fattr4& root = res<GETATTR4res>(reply, 3).resok4.obj_attributes;
  EXPECT_EQ(root.type, NF4DIR);
  EXPECT_EQ(root.numlinks, 3U);
  EXPECT_EQ(root.mode, 01777U);
  EXPECT_EQ(root.owner, "0");
  EXPECT_EQ(root.size, 100U);
  EXPECT_FALSE(root.fs);
}

TEST(CapturedGetattr, FsReply_CarriesLimits) {
  const Reply reply = decoded<Reply>("linux_fs_getattr_reply");
  const fattr4& limits = res<GETATTR4res>(reply, 2).resok4.obj_attributes;
  EXPECT_EQ(limits.attrmask, bitmap4::of({FATTR4_MAXLINK, FATTR4_MAXNAME}));
  ASSERT_TRUE(limits.fs);
  EXPECT_EQ(limits.fs->maxlink, 255U);
  EXPECT_EQ(limits.fs->maxname, 255U);
}

TEST(CapturedOpen, CallByFilehandle_UsesClaimFh) {
  const Call call = decoded<Call>("linux_open_fh_call");
  ASSERT_EQ(call.body.argarray.size(), 5U);
  EXPECT_EQ(call.body.minorversion, 1U);
  const auto& sequence = arg<SEQUENCE4args>(call, 0);
  EXPECT_EQ(sequence.sa_sequenceid, 0x19U);
  EXPECT_TRUE(sequence.sa_cachethis);
  EXPECT_EQ(hex(arg<PUTFH4args>(call, 1).object.bytes()), "01000101 00000000 4aafc729 03000000 00000000");
  const auto& open = arg<OPEN4args>(call, 2);
  EXPECT_EQ(open.share_access, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(open.owner.clientid, 0xd313006b2b902418U);
  EXPECT_EQ(open.owner.owner.size(), 24U);
  EXPECT_EQ(open.openhow.opentype, OPEN4_NOCREATE);
  EXPECT_EQ(open.claim.claim, CLAIM_FH);
  EXPECT_EQ(arg<ACCESS4args>(call, 3).access, 0x3dU);
  EXPECT_EQ(
      arg<GETATTR4args>(call, 4).attr_request,
      bitmap4::of({FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID, FATTR4_MODE,
                   FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_RAWDEV, FATTR4_SPACE_USED,
                   FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY, FATTR4_MOUNTED_ON_FILEID}));
}

TEST(CapturedOpen, ReplyWithDelegation_IsReadDelegation) {
  const Reply reply = decoded<Reply>("linux_open_fh_reply");
  const auto& open = res<OPEN4res>(reply, 2).resok4;
  EXPECT_EQ(open.stateid.seqid, 1U);
  EXPECT_EQ(hex(open.stateid.other), "d313006b 2b902418 03000000");
  EXPECT_FALSE(open.cinfo.atomic);
  EXPECT_EQ(open.rflags, OPEN4_RESULT_LOCKTYPE_POSIX | OPEN4_RESULT_MAY_NOTIFY_LOCK);
  ASSERT_EQ(open.delegation.delegation_type, OPEN_DELEGATE_READ);
  EXPECT_EQ(hex(open.delegation.stateid.other), "d313006b 2b902418 04000000");
  EXPECT_FALSE(open.delegation.recall);
  EXPECT_EQ(open.delegation.permissions, nfsace4{});
}

TEST(CapturedOpen, CreateReply_NamesAttributesThatWereSet) {
  const Reply reply = decoded<Reply>("linux_open_create_reply");
  const auto& open = res<OPEN4res>(reply, 2).resok4;
  EXPECT_EQ(open.attrset, bitmap4::of({FATTR4_SIZE, FATTR4_MODE}));
  EXPECT_EQ(open.cinfo.before, 0x1ac004f920a9d433U);
  EXPECT_EQ(open.cinfo.after, 0x1ac004f92123e634U);
  EXPECT_EQ(open.delegation.delegation_type, OPEN_DELEGATE_NONE);
}

TEST(CapturedReaddir, Reply_ListsEntriesWithAttributes) {
  const Reply reply = decoded<Reply>("linux_readdir_reply");
  const dirlist4& list = res<READDIR4res>(reply, 2).resok4.reply;
  ASSERT_EQ(list.entries.size(), 3U);
  EXPECT_TRUE(list.eof);
  EXPECT_EQ(list.entries[0].name, "big");
  EXPECT_EQ(list.entries[1].name, "small");
  EXPECT_EQ(list.entries[2].name, "from-server");
  EXPECT_EQ(list.entries[0].cookie, 3U);
  const fattr4& big = list.entries[0].attrs;
  EXPECT_EQ(big.type, NF4REG);
  EXPECT_EQ(big.change, 1927546106688457134U);
  EXPECT_EQ(big.size, 262144U);
  EXPECT_EQ(hex(big.filehandle.bytes()), "01000101 00000000 781117e0 04000000 00000000");
  EXPECT_EQ(big.fileid, 4U);
  EXPECT_EQ(big.mode, 0644U);
  EXPECT_EQ(big.owner_group, "0");
  EXPECT_EQ(big.time_access.seconds, 1795167202);
  EXPECT_EQ(big.time_access.nseconds, 804000682U);
  EXPECT_EQ(list.entries[2].attrs.space_used, 303104U);
}

TEST(CapturedWrite, Call_CarriesItsData) {
  const Call call = decoded<Call>("linux_write_call");
  const auto& write = arg<WRITE4args>(call, 2);
  EXPECT_EQ(write.stable, FILE_SYNC4);
  EXPECT_EQ(as_string_view(write.data), "hello, rdma\n");
}

TEST(CapturedLookup, NameThatIsNotThere_EndsTheCompound) {
  const Reply reply = decoded<Reply>("linux_lookup_noent_reply");
  EXPECT_EQ(reply.body.status, NFS4ERR_NOENT);
  ASSERT_EQ(reply.body.resarray.size(), 3U);
  EXPECT_EQ(res<LOOKUP4res>(reply, 2).status, NFS4ERR_NOENT);
}

TEST(CapturedRename, Reply_TellsBothDirectories) {
  const Call call = decoded<Call>("linux_rename_call");
  const auto& rename = arg<RENAME4args>(call, 4);
  EXPECT_FALSE(rename.oldname.empty());
  EXPECT_FALSE(rename.newname.empty());
  const Reply reply = decoded<Reply>("linux_rename_reply");
  const auto& ok = res<RENAME4res>(reply, 4).resok4;
  EXPECT_NE(ok.source_cinfo.before, ok.source_cinfo.after);
}

TEST(CapturedSetattr, Call_SetsModeOnly) {
  const Call call = decoded<Call>("linux_setattr_call");
  const auto& args = arg<SETATTR4args>(call, 2);
  EXPECT_EQ(args.stateid, kAnonymousStateid);
  EXPECT_EQ(args.obj_attributes.attrmask, bitmap4::of({FATTR4_MODE}));
  EXPECT_EQ(args.obj_attributes.mode, 0600U);
}

TEST(CapturedGanesha, EveryAttribute_IsKnown) {
  const Reply reply = decoded<Reply>("ganesha_getattr_everything_reply");
  const fattr4& root = res<GETATTR4res>(reply, 2).resok4.obj_attributes;
  EXPECT_EQ(root.type, NF4DIR);
  EXPECT_EQ(root.mode, 01777U);
  EXPECT_EQ(root.fs->lease_time, 30U);
  EXPECT_EQ(root.fs->maxname, 1024U);
  EXPECT_TRUE(root.fs->supported_attrs.test(FATTR4_FS_LOCATIONS));
  EXPECT_FALSE(root.has(FATTR4_FS_LOCATIONS));  // requested and left out, because there is no other location
  EXPECT_TRUE(root.fs->suppattr_exclcreat.test(FATTR4_MODE));
}

TEST(CapturedGanesha, LockInTheWay_IsNamed) {
  for (const char* name : {"ganesha_lockt_denied_reply", "ganesha_lock_denied_reply"}) {
    const Reply reply = decoded<Reply>(name);
    EXPECT_EQ(reply.body.status, NFS4ERR_DENIED);
    const LOCK4denied& denied = reply.body.resarray.at(2).opnum() == OP_LOCKT
                                    ? res<LOCKT4res>(reply, 2).denied
                                    : res<LOCK4res>(reply, 2).denied;
    EXPECT_EQ(denied.offset, 5U);
    EXPECT_EQ(denied.length, 10U);
    EXPECT_EQ(denied.locktype, WRITE_LT);
    EXPECT_EQ(denied.owner.owner, "locker-1");
  }
}

TEST(CapturedGanesha, Stateids_AreTestedOneByOne) {
  const Reply reply = decoded<Reply>("ganesha_test_stateid_reply");
  EXPECT_EQ(res<TEST_STATEID4res>(reply, 1).resok4.tsr_status_codes,
            (std::vector<nfsstat4>{NFS4_OK, NFS4_OK, NFS4ERR_BAD_STATEID}));
}

TEST(CapturedGanesha, DirectoryWithMoreToCome_IsNotAtItsEnd) {
  const Reply part = decoded<Reply>("ganesha_readdir_part_reply");
  EXPECT_FALSE(res<READDIR4res>(part, 2).resok4.reply.eof);
  const Reply whole = decoded<Reply>("ganesha_readdir_reply");
  const dirlist4& list = res<READDIR4res>(whole, 2).resok4.reply;
  EXPECT_TRUE(list.eof);
  std::vector<std::string> names;
  for (const entry4& entry : list.entries) names.push_back(entry.name);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"dir", "fifo", "file", "null", "symlink"}));
}

TEST(CapturedGanesha, ReadAndReadlink_CarryTheirData) {
  const Reply read = decoded<Reply>("ganesha_read_reply");
  EXPECT_EQ(as_string_view(res<READ4res>(read, 2).resok4.data), "seventeen bytes!!");
  EXPECT_TRUE(res<READ4res>(read, 2).resok4.eof);
  const Reply link = decoded<Reply>("ganesha_readlink_reply");
  EXPECT_EQ(res<READLINK4res>(link, 2).resok4.link, "target/of/link");
}

TEST(CapturedGanesha, RefusedDelegation_SaysWhy) {
  const Reply reply = decoded<Reply>("ganesha_open_delegation_reply");
  EXPECT_EQ(res<OPEN4res>(reply, 2).resok4.delegation.delegation_type, OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(res<OPEN4res>(reply, 2).resok4.delegation.ond_why, WND4_NOT_SUPP_FTYPE);
}

TEST(CapturedGanesha, Refusals_AreTold) {
  EXPECT_EQ(decoded<Reply>("ganesha_garbage_args_reply").header.accepted, rpc::GARBAGE_ARGS);
  const Reply minor = decoded<Reply>("ganesha_minor_9_reply");
  EXPECT_EQ(minor.body.status, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_TRUE(minor.body.resarray.empty());
  const Reply illegal = decoded<Reply>("ganesha_illegal_reply");
  EXPECT_EQ(illegal.body.resarray.at(1).opnum(), OP_ILLEGAL);
  EXPECT_EQ(illegal.body.resarray.at(1).status(), NFS4ERR_OP_ILLEGAL);
}

}  // namespace
}  // namespace nfsrdma::golden
