// SPDX-License-Identifier: Apache-2.0
// NFS4ERR_WRONGSEC, SECINFO and SECINFO_NO_NAME (RFC 8881 section 2.6.3.1). The caller has AUTH_SYS, which
// /export accepts and /secret does not.
#include "filer/nfs/security_policy.h"

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using tree::Flavor;
using tree::Flavors;

class SecurityPolicyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server({.exports = {"/export", "/secret"},
                           .export_flavors = {{"/secret", Flavors{Flavor::kKrb5p, Flavor::kKrb5}}}});
    server->make_file("/export/f", "content", 0666);
    server->make_directory("/export/d", 0777);
    server->make_file("/secret/f", "content", 0666);
    server->make_directory("/secret/d", 0777);
    root = handle("/");
    open = handle("/export");
    secret = handle("/secret");
    secret_file = handle("/secret/f");
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }

  nfs_fh4 handle(std::string_view path) { return server->stat(path)->handle; }
  nfsstat4 status(const Ops& list) { return client->run(list).status; }
  // The number of the operation that failed, from 0, and its status.
  std::pair<size_t, nfsstat4> failure(const Ops& list) {
    const COMPOUND4res reply = client->run(list);
    return {reply.resarray.size() - 1, reply.status};
  }
  static std::pair<size_t, nfsstat4> wrong(size_t operation) { return {operation, NFS4ERR_WRONGSEC}; }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
  nfs_fh4 root, open, secret, secret_file;
};

secinfo4 kerberos(rpc_gss_svc_t service) {
  return {rpc::RPCSEC_GSS, {std::string("\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"), 0, service}};
}

TEST_F(SecurityPolicyTest, Secinfo_ListsTriplesBestFirst) {
  const std::vector<secinfo4> secrets = {kerberos(RPC_GSS_SVC_PRIVACY), kerberos(RPC_GSS_SVC_NONE)};
  const std::vector<secinfo4> opens = {{rpc::AUTH_SYS, {}}, {rpc::AUTH_NONE, {}}};
  COMPOUND4res reply = client->run(ops(PUTROOTFH4args{}, SECINFO4args{"secret"}));
  EXPECT_EQ(at<SECINFO4res>(reply, 1).resok4, secrets);
  reply = client->run(ops(PUTROOTFH4args{}, SECINFO4args{"export"}));
  EXPECT_EQ(at<SECINFO4res>(reply, 1).resok4, opens);
  reply = client->run(ops(PUTFH4args{secret}, SECINFO4args{"f"}));
  EXPECT_EQ(at<SECINFO4res>(reply, 1).resok4, secrets);
  reply = client->run(ops(PUTFH4args{secret_file}, SECINFO_NO_NAME4args{}));
  EXPECT_EQ(at<SECINFO_NO_NAME4res>(reply, 1).resok4, secrets);
  reply = client->run(ops(PUTFH4args{handle("/secret/d")}, SECINFO_NO_NAME4args{SECINFO_STYLE4_PARENT}));
  EXPECT_EQ(at<SECINFO_NO_NAME4res>(reply, 1).resok4, secrets);
  // Up, out of the export.
  const std::vector<secinfo4> all = {opens[0], opens[1], secrets[0], secrets[1]};
  reply = client->run(ops(PUTFH4args{secret}, SECINFO_NO_NAME4args{SECINFO_STYLE4_PARENT}));
  EXPECT_EQ(at<SECINFO_NO_NAME4res>(reply, 1).resok4, all) << "the way accepts what any export accepts";
}

// Section 2.6.3.1.1.3: "MUST NOT return NFS4ERR_WRONGSEC in response to the put filehandle operation if the
// operation is immediately followed by a LOOKUP or an OPEN by component name."
TEST_F(SecurityPolicyTest, Lookup_AnswersForWhatItFinds) {
  EXPECT_EQ(failure(ops(PUTROOTFH4args{}, LOOKUP4args{"secret"}, GETFH4args{})), wrong(1));
  EXPECT_EQ(failure(ops(PUTFH4args{secret}, LOOKUP4args{"f"})), wrong(1));
  EXPECT_EQ(failure(ops(PUTFH4args{secret}, LOOKUP4args{"absent"})).second, NFS4ERR_NOENT);
  EXPECT_EQ(status(ops(PUTROOTFH4args{}, LOOKUP4args{"export"}, LOOKUP4args{"f"}, GETFH4args{})), NFS4_OK);
}

TEST_F(SecurityPolicyTest, OpenByName_AnswersForItsDirectory) {
  EXPECT_EQ(failure(ops(PUTFH4args{secret}, client->open_args("f"))), wrong(1));
  OPEN4args create = client->open_args("new");
  create.openhow.opentype = OPEN4_CREATE;
  EXPECT_EQ(failure(ops(PUTFH4args{secret}, create)), wrong(1));
  EXPECT_FALSE(server->stat("/secret/new"));
  // "'Anything Else' includes OPEN by filehandle."
  OPEN4args by_handle = client->open_args("");
  by_handle.claim = {};
  by_handle.claim.claim = CLAIM_FH;
  EXPECT_EQ(failure(ops(PUTFH4args{secret_file}, by_handle)), wrong(0));
}

// Section 2.6.3.1.1.4: "a put filehandle operation that is followed by a LOOKUPP MUST NOT return
// NFS4ERR_WRONGSEC."
TEST_F(SecurityPolicyTest, Lookupp_AnswersForTheParent) {
  EXPECT_EQ(status(ops(PUTFH4args{secret}, LOOKUPP4args{}, GETFH4args{})), NFS4_OK);
  EXPECT_EQ(failure(ops(PUTFH4args{handle("/secret/d")}, LOOKUPP4args{})), wrong(1));
}

// Section 2.6.3.1.1.7: "Therefore, the put filehandle operation MUST return NFS4ERR_WRONGSEC when there is a
// security tuple mismatch."
TEST_F(SecurityPolicyTest, AnythingElse_IsAnsweredByThePutOperation) {
  const Ops others[] = {ops(GETATTR4args{}),
                        ops(GETFH4args{}),
                        ops(ACCESS4args{ACCESS4_READ}),
                        ops(READ4args{{}, 0, 10}),
                        ops(READDIR4args{}),
                        ops(REMOVE4args{"f"}),
                        ops(TEST_STATEID4args{}),
                        ops(SAVEFH4args{}, GETATTR4args{})};
  for (const Ops& other : others) {
    EXPECT_EQ(failure(ops(PUTFH4args{secret}) + other), wrong(0)) << op_name(other[0].opnum());
    EXPECT_NE(status(ops(PUTFH4args{open}) + other), NFS4ERR_WRONGSEC) << op_name(other[0].opnum());
  }
  EXPECT_EQ(server->read_file("/secret/f"), "content");
}

// Sections 2.6.3.1.1.2, 2.6.3.1.1.6: "the server MUST NOT return NFS4ERR_WRONGSEC to the first N-1 put
// filehandle operations"; "Put Filehandle Operation + Nothing".
TEST_F(SecurityPolicyTest, PutOperationsWithoutUse_Succeed) {
  EXPECT_EQ(status(ops(PUTFH4args{secret})), NFS4_OK);
  EXPECT_EQ(status(ops(PUTFH4args{secret}, SAVEFH4args{})), NFS4_OK);
  EXPECT_EQ(status(ops(PUTFH4args{secret}, PUTROOTFH4args{}, GETATTR4args{})), NFS4_OK);
  EXPECT_EQ(status(ops(PUTFH4args{secret}, SAVEFH4args{}, PUTFH4args{open}, GETATTR4args{})), NFS4_OK);
}

TEST_F(SecurityPolicyTest, Restorefh_IsAPutOperation) {
  const Ops keep = ops(PUTFH4args{secret}, SAVEFH4args{}, PUTFH4args{open}, GETATTR4args{}, RESTOREFH4args{});
  EXPECT_EQ(failure(keep + ops(READDIR4args{})), wrong(4));
  EXPECT_EQ(failure(keep + ops(LOOKUP4args{"f"})), wrong(5));
  EXPECT_EQ(status(keep), NFS4_OK);
}

// Section 2.6.3.1.1.8: "SECINFO and SECINFO_NO_NAME consume the current filehandle".
TEST_F(SecurityPolicyTest, NothingComesPastSecinfo) {
  EXPECT_EQ(failure(ops(PUTFH4args{secret_file}, SECINFO_NO_NAME4args{}, READ4args{{}, 0, 10})),
            std::pair(size_t{2}, NFS4ERR_NOFILEHANDLE));
}

// Section 2.6.3.1.2: between file systems LINK and RENAME are NFS4ERR_XDEV, whatever their policies are.
TEST_F(SecurityPolicyTest, LinkAndRename_DoNotReachTheSaved) {
  EXPECT_EQ(status(ops(PUTFH4args{secret}, SAVEFH4args{}, PUTFH4args{open}, RENAME4args{"f", "stolen"})),
            NFS4ERR_XDEV);
  EXPECT_EQ(status(ops(PUTFH4args{secret_file}, SAVEFH4args{}, PUTFH4args{open}, LINK4args{"stolen"})),
            NFS4ERR_XDEV);
}

// READDIR must not answer NFS4ERR_WRONGSEC, and tells nothing of the root of an export with another policy.
TEST_F(SecurityPolicyTest, Readdir_TellsOfTheExportOnlyThatItIsThere) {
  READDIR4args list;
  list.dircount = list.maxcount = 8192;
  list.attr_request = bitmap4::of({FATTR4_RDATTR_ERROR, FATTR4_MODE, FATTR4_FSID});
  COMPOUND4res reply = client->run(ops(PUTROOTFH4args{}, list));
  ASSERT_EQ(reply.status, NFS4_OK);
  for (const entry4& entry : at<READDIR4res>(reply, 1).resok4.reply.entries) {
    const bool refused = entry.attrs.has(FATTR4_RDATTR_ERROR) && entry.attrs.rdattr_error != NFS4_OK;
    EXPECT_EQ(refused, entry.name == "secret") << entry.name;
    if (!refused) continue;
    EXPECT_EQ(entry.attrs.rdattr_error, NFS4ERR_WRONGSEC);
    EXPECT_FALSE(entry.attrs.has(FATTR4_MODE));
  }
  list.attr_request = bitmap4::of({FATTR4_FSID});
  reply = client->run(ops(PUTROOTFH4args{}, list, GETATTR4args{bitmap4::of({FATTR4_FSID})}));
  ASSERT_EQ(reply.status, NFS4_OK);
  const fsid4 here = at<GETATTR4res>(reply, 2).resok4.obj_attributes.fsid;
  for (const entry4& entry : at<READDIR4res>(reply, 1).resok4.reply.entries)
    EXPECT_EQ(entry.attrs.fsid == here, entry.name == "secret") << "of the covered directory";
}

TEST_F(SecurityPolicyTest, Policies_AreOfExportsAndOfTheWayToThem) {
  server->set_flavors("/secret", {Flavor::kSys});
  EXPECT_EQ(status(ops(PUTFH4args{secret}, GETATTR4args{})), NFS4_OK);
  server->set_flavors("/export", {Flavor::kKrb5i});
  EXPECT_EQ(failure(ops(PUTFH4args{open}, GETATTR4args{})), wrong(0));
  EXPECT_EQ(status(ops(PUTROOTFH4args{}, GETATTR4args{})), NFS4_OK) << "/secret accepts it";
  server->set_flavors("/secret", {Flavor::kKrb5i});
  EXPECT_EQ(failure(ops(PUTROOTFH4args{}, GETATTR4args{})), wrong(0)) << "no export does";
  EXPECT_EQ(status({}), NFS4_OK) << "SEQUENCE names no file";
}

}  // namespace
}  // namespace nfsrdma::filer::test
