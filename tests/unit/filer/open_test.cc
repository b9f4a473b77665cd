// SPDX-License-Identifier: Apache-2.0
// OPEN, OPEN_DOWNGRADE, CLOSE: share reservations, create modes, stateids (RFC 8881 sections 8.2, 9.7
// to 9.9, 18.2, 18.16, 18.18).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class OpenTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (on_host() && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory, {}));
    server->make_file("/export/f", "content", 0666);
    client = std::make_unique<RawClient>(*server, "one");
    other = std::make_unique<RawClient>(*server, "two");
    ASSERT_TRUE(client->establish());
    ASSERT_TRUE(other->establish());
  }
  OPEN4args create_args(createmode4 mode, const std::string& name, uint64_t verifier = 0,
                        const fattr4& attrs = {}) {
    OPEN4args args = client->open_args(name);
    args.openhow.opentype = OPEN4_CREATE;
    args.openhow.how.mode = mode;
    args.openhow.how.createverf = verifier4::of(verifier);
    args.openhow.how.createattrs = attrs;
    return args;
  }
  OPEN4res open(RawClient& c, const OPEN4args& args) {
    return at<OPEN4res>(c.run_at("/export", ops(args)), 0);
  }
  nfsstat4 close(RawClient& c, stateid4 id) { return c.run_at("/export/f", ops(CLOSE4args{0, id})).status; }

  static bool on_host() { return GetParam() == Kept::kByHost; }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
  std::unique_ptr<RawClient> other;
};

// "When such a set of locks is first created, the server returns a stateid with seqid value of one."
TEST_P(OpenTest, FirstOpen_HasSeqidOne) {
  const OPEN4res res = open(*client, client->open_args("f"));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.stateid.seqid, 1u);
  EXPECT_EQ(res.resok4.rflags & OPEN4_RESULT_CONFIRM, 0u) << "MUST NOT be returned by an NFSv4.1 server";
  EXPECT_EQ(res.resok4.delegation.delegation_type, OPEN_DELEGATE_NONE);
}

// "represented by a single stateid whose 'other' value matches that of the original open, and whose 'seqid'
// value is incremented ... required in cases in which the 'upgrade' results in no change to the open mode".
TEST_P(OpenTest, SecondOpenOfTheOwner_Upgrades) {
  const stateid4 first = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH);
  const stateid4 second = client->open("/export/f", OPEN4_SHARE_ACCESS_READ);
  EXPECT_TRUE(first.same_state(second));
  EXPECT_EQ(second.seqid, 2u);
  // "returns NFS4ERR_OLD_STATEID if the seqid is lower than the most current value and NFS4ERR_BAD_STATEID if
  // the seqid is greater".
  EXPECT_EQ(close(*client, first), NFS4ERR_OLD_STATEID);
  stateid4 future = second;
  ++future.seqid;
  EXPECT_EQ(close(*client, future), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(close(*client, second), NFS4_OK) << "only a single CLOSE need be done";
  EXPECT_EQ(close(*client, second), NFS4ERR_BAD_STATEID);
}

TEST_P(OpenTest, OtherOwner_HasItsOwnState) {
  const stateid4 a = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_NONE, "a");
  const stateid4 b = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_NONE, "b");
  EXPECT_FALSE(a.same_state(b));
}

// "the server MUST derive the client ID from the session ID": stateids "are implicitly qualified by the
// current client ID".
TEST_P(OpenTest, StateidOfAnotherClient_IsBad) {
  const stateid4 mine = client->open("/export/f");
  EXPECT_EQ(close(*other, mine), NFS4ERR_BAD_STATEID);
}

// "If the selected table entry does not match the current filehandle, return NFS4ERR_BAD_STATEID."
TEST_P(OpenTest, StateidOfAnotherFile_IsBad) {
  server->make_file("/export/g", "x");
  const stateid4 f = client->open("/export/f");
  EXPECT_EQ(client->run_at("/export/g", ops(READ4args{f, 0, 10})).status, NFS4ERR_BAD_STATEID);
}

// NFS4ERR_SHARE_DENIED for all pairs of access and deny that overlap, in either direction.
TEST_P(OpenTest, ShareReservations_ConflictExactlyWhereTheyMeet) {
  for (uint32_t access1 = 1; access1 <= 3; ++access1) {
    for (uint32_t deny1 = 0; deny1 <= 3; ++deny1) {
      const stateid4 held = client->open("/export/f", access1, deny1);
      for (uint32_t access2 = 1; access2 <= 3; ++access2) {
        for (uint32_t deny2 = 0; deny2 <= 3; ++deny2) {
          const bool conflict = (access1 & deny2) != 0 || (access2 & deny1) != 0;
          const OPEN4res res = open(*other, other->open_args("f", access2, deny2));
          EXPECT_EQ(res.status, conflict ? NFS4ERR_SHARE_DENIED : NFS4_OK)
              << access1 << deny1 << " then " << access2 << deny2;
          if (res.status == NFS4_OK) {
            EXPECT_EQ(close(*other, res.resok4.stateid), NFS4_OK);
          }
        }
      }
      EXPECT_EQ(close(*client, held), NFS4_OK);
    }
  }
}

// "checking of share reservations for the new OPEN proceeds normally, with no exception for the existing OPEN
// held by the same open-owner."
TEST_P(OpenTest, OwnReservation_DeniesTheOwnerToo) {
  client->open("/export/f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE);
  EXPECT_EQ(open(*client, client->open_args("f", OPEN4_SHARE_ACCESS_WRITE)).status, NFS4ERR_SHARE_DENIED);
}

TEST_P(OpenTest, BadShareBits_AreInvalid) {
  for (const uint32_t access : {0u, 4u, 8u, 0x601u, 0x80001u}) {
    EXPECT_EQ(open(*client, client->open_args("f", access)).status, NFS4ERR_INVAL) << access;
  }
  EXPECT_EQ(open(*client, client->open_args("f", 1, 4)).status, NFS4ERR_INVAL);
}

// "in the event the server does not return a delegation, it MUST return a delegation type of
// OPEN_DELEGATE_NONE_EXT".
TEST_P(OpenTest, UnwantedDelegation_IsExplained) {
  const OPEN4res res =
      open(*client, client->open_args("f", OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_NO_DELEG));
  EXPECT_EQ(res.resok4.delegation.delegation_type, OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(res.resok4.delegation.ond_why, WND4_NOT_WANTED);
}

// "If the component provided to OPEN is a symbolic link, the error NFS4ERR_SYMLINK ..., while if it is a
// directory the error NFS4ERR_ISDIR ... neither of those but not an ordinary file, the error
// NFS4ERR_WRONG_TYPE".
TEST_P(OpenTest, OtherTypes_HaveTheirErrors) {
  server->make_symlink("/export/link", "f");
  server->make_directory("/export/dir");
  ASSERT_EQ(client->run_at("/export", ops(CREATE4args{{NF4FIFO, {}, {}}, "fifo", {}})).status, NFS4_OK);
  EXPECT_EQ(open(*client, client->open_args("link")).status, NFS4ERR_SYMLINK);
  EXPECT_EQ(open(*client, client->open_args("dir")).status, NFS4ERR_ISDIR);
  EXPECT_EQ(open(*client, client->open_args("fifo")).status, NFS4ERR_WRONG_TYPE);
  EXPECT_EQ(open(*client, client->open_args("none")).status, NFS4ERR_NOENT);
  EXPECT_EQ(client->run_at("/export/f", ops(client->open_args("x"))).status, NFS4ERR_NOTDIR);
}

TEST_P(OpenTest, ClaimFh_OpensTheCurrentFile) {
  OPEN4args args = client->open_args("");
  args.claim.claim = CLAIM_FH;
  const COMPOUND4res reply = client->run_at("/export/f", ops(args, READ4args{kCurrentStateid, 0, 100}));
  ASSERT_EQ(reply.status, NFS4_OK);
  EXPECT_EQ(as_string_view(at<READ4res>(reply, 1).resok4.data), "content");
  args.openhow.opentype = OPEN4_CREATE;
  EXPECT_EQ(client->run_at("/export/f", ops(args)).status, NFS4ERR_INVAL)
      << "the claim MUST be one that includes a component of a file name";
}

TEST_P(OpenTest, ClaimPreviousOutsideOfGrace_IsNoGrace) {
  OPEN4args args = client->open_args("");
  args.claim.claim = CLAIM_PREVIOUS;
  EXPECT_EQ(client->run_at("/export/f", ops(args)).status, NFS4ERR_NO_GRACE);
  args.claim.claim = CLAIM_DELEG_PREV_FH;
  EXPECT_EQ(client->run_at("/export/f", ops(args)).status, NFS4ERR_NOTSUPP);
}

// --- creating ---

TEST_P(OpenTest, UncheckedCreate_MakesOrTakesAndOnlyTruncates) {
  fattr4 attrs;
  attrs.attrmask = bitmap4::of({FATTR4_MODE});
  attrs.mode = 0640;
  OPEN4res res = open(*client, create_args(UNCHECKED4, "new", 0, attrs));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.attrset, attrs.attrmask);
  EXPECT_EQ(res.resok4.cinfo.atomic, !on_host());
  EXPECT_GT(res.resok4.cinfo.after, res.resok4.cinfo.before);
  EXPECT_EQ(server->stat("/export/new")->mode, 0640u);

  // "the attributes specified by createattrs are not used, except that ... size of zero, the existing file is
  // truncated."
  attrs.mode = 0777;
  res = open(*client, create_args(UNCHECKED4, "f", 0, attrs));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->mode, 0666u);
  EXPECT_EQ(server->stat("/export/f")->size, 7u);
  EXPECT_EQ(res.resok4.cinfo.after, res.resok4.cinfo.before) << "the directory did not change";
  attrs.attrmask.set(FATTR4_SIZE);
  attrs.size = 0;
  EXPECT_EQ(open(*client, create_args(UNCHECKED4, "f", 0, attrs)).status, NFS4_OK);
  EXPECT_EQ(server->stat("/export/f")->size, 0u);
}

// "If a duplicate exists, NFS4ERR_EXIST is returned."
TEST_P(OpenTest, GuardedCreate_RefusesWhatExists) {
  EXPECT_EQ(open(*client, create_args(GUARDED4, "f")).status, NFS4ERR_EXIST);
  EXPECT_EQ(open(*client, create_args(GUARDED4, "g")).status, NFS4_OK);
}

// "If the object does exist and the stored verifier matches the client provided verifier, the server uses the
// existing object as the newly created object. If the stored verifier does not match, then an error of
// NFS4ERR_EXIST is returned."
TEST_P(OpenTest, ExclusiveCreate_IsKnownByItsVerifier) {
  for (const createmode4 mode : {EXCLUSIVE4, EXCLUSIVE4_1}) {
    const std::string name = mode == EXCLUSIVE4 ? "old" : "new";
    const OPEN4res first = open(*client, create_args(mode, name, 42));
    ASSERT_EQ(first.status, NFS4_OK);
    const tree::NodeId fileid = server->stat("/export/" + name)->fileid;
    EXPECT_EQ(open(*client, create_args(mode, name, 42)).status, NFS4_OK);
    EXPECT_EQ(server->stat("/export/" + name)->fileid, fileid);
    EXPECT_EQ(open(*client, create_args(mode, name, 43)).status, NFS4ERR_EXIST);
    EXPECT_EQ(open(*client, create_args(mode, "f", 42)).status, NFS4ERR_EXIST) << "made without a verifier";
  }
}

// "The verifier MUST be stored in stable storage": it survives a restart.
TEST_P(OpenTest, ExclusiveCreateVerifier_SurvivesARestart) {
  ASSERT_EQ(open(*client, create_args(EXCLUSIVE4_1, "x", 42)).status, NFS4_OK);
  server->restart();
  server->end_grace();
  client->reconnect();
  ASSERT_TRUE(client->establish());
  EXPECT_EQ(open(*client, create_args(EXCLUSIVE4_1, "x", 42)).status, NFS4_OK);
  EXPECT_EQ(open(*client, create_args(EXCLUSIVE4_1, "x", 7)).status, NFS4ERR_EXIST);
}

// "If the client attempts to set in cva_attrs an attribute that is not in suppattr_exclcreat, the server MUST
// return NFS4ERR_INVAL."
TEST_P(OpenTest, ExclusiveCreateWithForbiddenAttribute_IsInvalid) {
  const fattr4 facts = client->attributes("/export", bitmap4::of({FATTR4_SUPPATTR_EXCLCREAT}));
  ASSERT_FALSE(facts.fs->suppattr_exclcreat.test(FATTR4_TIME_MODIFY_SET));
  fattr4 attrs;
  attrs.attrmask = bitmap4::of({FATTR4_TIME_MODIFY_SET});
  EXPECT_EQ(open(*client, create_args(EXCLUSIVE4_1, "x", 1, attrs)).status, NFS4ERR_INVAL);
  EXPECT_FALSE(server->stat("/export/x"));
  attrs = {};
  attrs.attrmask = bitmap4::of({FATTR4_MODE});
  attrs.mode = 0604;
  const OPEN4res res = open(*client, create_args(EXCLUSIVE4_1, "x", 1, attrs));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.attrset, attrs.attrmask);
  EXPECT_EQ(server->stat("/export/x")->mode, 0604u);
}

// The creator of a read-only file may write through the open that created it.
TEST_P(OpenTest, CreateWithModeZero_StillOpensForWriting) {
  RawClient user(*server, "user", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(user.establish());
  server->make_directory("/export/tmp", 0777);
  fattr4 attrs;
  attrs.attrmask = bitmap4::of({FATTR4_MODE});
  attrs.mode = 0400;
  const COMPOUND4res reply = user.run_at("/export/tmp", ops(create_args(GUARDED4, "r", 0, attrs)));
  ASSERT_EQ(reply.status, NFS4_OK);
  const stateid4 id = at<OPEN4res>(reply, 0).resok4.stateid;
  EXPECT_EQ(user.write("/export/tmp/r", id, 0, "data").status, NFS4_OK);
  EXPECT_EQ(user.run_at("/export/tmp", ops(user.open_args("r", OPEN4_SHARE_ACCESS_WRITE, 0, "later"))).status,
            NFS4ERR_ACCESS);
}

TEST_P(OpenTest, Names_AreChecked) {
  const std::pair<std::string, nfsstat4> cases[] = {{"", NFS4ERR_INVAL},
                                                    {".", NFS4ERR_BADNAME},
                                                    {"..", NFS4ERR_BADNAME},
                                                    {"a/b", NFS4ERR_BADCHAR},
                                                    {std::string("a\0b", 3), NFS4ERR_BADCHAR},
                                                    {"\xff\xfe", NFS4_OK},  // any bytes are a valid name
                                                    {std::string(256, 'n'), NFS4ERR_NAMETOOLONG},
                                                    {std::string(255, 'n'), NFS4_OK},
                                                    {"\xc3\xa4\xe2\x82\xac", NFS4_OK}};
  for (const auto& [name, status] : cases) {
    EXPECT_EQ(open(*client, create_args(UNCHECKED4, name)).status, status)
        << name.size() << " bytes: " << name;
  }
}

// --- OPEN_DOWNGRADE ---

// "The bits in share_access SHOULD equal the union of the share_access bits ... specified for some subset of
// the OPENs in effect"; otherwise INVAL.
TEST_P(OpenTest, Downgrade_OnlyToASubsetOfTheOpens) {
  const auto downgrade = [&](stateid4 id, uint32_t access, uint32_t deny) {
    return at<OPEN_DOWNGRADE4res>(client->run_at("/export/f", ops(OPEN_DOWNGRADE4args{id, 0, access, deny})),
                                  0);
  };
  const stateid4 both = client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH);
  EXPECT_EQ(downgrade(both, OPEN4_SHARE_ACCESS_READ, 0).status, NFS4ERR_INVAL)
      << "no OPEN was for reading alone";
  const stateid4 upgraded = client->open("/export/f", OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(downgrade(both, OPEN4_SHARE_ACCESS_READ, 0).status, NFS4ERR_OLD_STATEID);
  const OPEN_DOWNGRADE4res res = downgrade(upgraded, OPEN4_SHARE_ACCESS_READ, 0);
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_TRUE(res.resok4.open_stateid.same_state(both));
  EXPECT_EQ(res.resok4.open_stateid.seqid, 3u);
  EXPECT_EQ(client->write("/export/f", res.resok4.open_stateid, 0, "x").status, NFS4ERR_OPENMODE);
  EXPECT_EQ(open(*other, other->open_args("f", OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_DENY_WRITE)).status,
            NFS4_OK);
}

// --- current and special stateids, section 8.2.3, 16.2.3.1.2 ---

TEST_P(OpenTest, CurrentStateid_IsThatOfTheOpen) {
  const COMPOUND4res reply =
      client->run_at("/export", ops(client->open_args("f"), READ4args{kCurrentStateid, 0, 10}, SAVEFH4args{},
                                    PUTROOTFH4args{}, RESTOREFH4args{}, CLOSE4args{0, kCurrentStateid}));
  EXPECT_EQ(reply.status, NFS4_OK);
  // "the server SHOULD return the invalid special stateid".
  EXPECT_EQ(at<CLOSE4res>(reply, 5).open_stateid, kInvalidStateid);
}

// "PUTFH fh1; READ (1, 0) -> NFS4ERR_BAD_STATEID" (Figure 6).
TEST_P(OpenTest, CurrentStateidWithoutOne_IsBad) {
  EXPECT_EQ(client->run_at("/export/f", ops(READ4args{kCurrentStateid, 0, 10})).status, NFS4ERR_BAD_STATEID);
  // "If an operation sets the current filehandle but does not return a stateid, the current stateid MUST be
  // set to the all-zeros special stateid".
  const COMPOUND4res reply = client->run_at(
      "/export", ops(client->open_args("f"), GETFH4args{}, PUTROOTFH4args{}, LOOKUP4args{"export"},
                     LOOKUP4args{"f"}, READ4args{kCurrentStateid, 0, 10}));
  EXPECT_EQ(reply.status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(reply.resarray.size(), 6u);
}

// "If a stateid value is used that has all zeros or all ones in the 'other' field but does not match one of
// the cases above, the server MUST return the error NFS4ERR_BAD_STATEID."
TEST_P(OpenTest, SpecialStateids_OnlyTheDefinedOnes) {
  stateid4 ones;
  ones.other = kAllOnes;
  ones.seqid = 5;
  for (const stateid4& bad : {kInvalidStateid, stateid4{2, {}}, ones}) {
    EXPECT_EQ(client->run_at("/export/f", ops(READ4args{bad, 0, 1})).status, NFS4ERR_BAD_STATEID);
  }
  EXPECT_EQ(client->read("/export/f", kAnonymousStateid), "content");
  EXPECT_EQ(client->read("/export/f", kReadBypassStateid), "content");
  EXPECT_EQ(close(*client, kAnonymousStateid), NFS4ERR_BAD_STATEID) << "not appropriate to the context";
}

// "When an anonymous stateid value is used and an existing open denies the form of access requested, then
// access will be denied"; "rejected with error NFS4ERR_LOCKED". The READ bypass stateid may read
// nevertheless; for a WRITE it counts as anonymous.
TEST_P(OpenTest, AnonymousIo_RespectsDenyModes) {
  client->open("/export/f", OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_BOTH);
  EXPECT_EQ(other->run_at("/export/f", ops(READ4args{kAnonymousStateid, 0, 1})).status, NFS4ERR_LOCKED);
  EXPECT_EQ(other->read("/export/f", kReadBypassStateid), "content");
  EXPECT_EQ(other->write("/export/f", kAnonymousStateid, 0, "x").status, NFS4ERR_LOCKED);
  EXPECT_EQ(other->write("/export/f", kReadBypassStateid, 0, "x").status, NFS4ERR_LOCKED);
}

// Section 8.2.2: "It may set the seqid to zero".
TEST_P(OpenTest, SeqidZero_MeansTheCurrentOne) {
  client->open("/export/f");
  stateid4 id = client->open("/export/f");
  id.seqid = 0;
  EXPECT_EQ(client->read("/export/f", id), "content");
  EXPECT_EQ(close(*client, id), NFS4_OK);
}

TEST_P(OpenTest, Seqid_WrapsToOne) {
  const stateid4 id = client->open("/export/f");
  server->with_core([&](nfs::Core& core) { core.states.find(id)->id.seqid = NFS4_UINT32_MAX; });
  const stateid4 next = client->open("/export/f");
  EXPECT_EQ(next.seqid, 1u);
  stateid4 before = next;
  before.seqid = NFS4_UINT32_MAX;
  EXPECT_EQ(close(*client, before), NFS4ERR_OLD_STATEID) << "numerically greater, and older";
}

// --- TEST_STATEID, FREE_STATEID, revocation ---

TEST_P(OpenTest, RevokedOpen_IsReportedTestedAndFreed) {
  const stateid4 id = client->open("/export/f");
  ASSERT_TRUE(server->revoke(id));
  EXPECT_EQ(client->run_at("/export/f", ops(READ4args{id, 0, 1})).status, NFS4ERR_ADMIN_REVOKED);
  EXPECT_EQ(client->last_flags, SEQ4_STATUS_ADMIN_STATE_REVOKED);
  const COMPOUND4res reply = client->run(ops(TEST_STATEID4args{{id, kAnonymousStateid, stateid4{7, {}}}}));
  EXPECT_EQ(at<TEST_STATEID4res>(reply, 0).resok4.tsr_status_codes,
            (std::vector<nfsstat4>{NFS4ERR_ADMIN_REVOKED, NFS4ERR_BAD_STATEID, NFS4ERR_BAD_STATEID}));
  // "This status bit remains set on all SEQUENCE replies until the loss of all such locks has been
  // acknowledged by use of FREE_STATEID."
  EXPECT_EQ(client->last_flags, SEQ4_STATUS_ADMIN_STATE_REVOKED);
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{id})).status, NFS4_OK);
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{id})).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(client->last_flags, 0u);
}

// "If there are valid locks (of any kind) associated with the stateid in question, the error
// NFS4ERR_LOCKS_HELD".
TEST_P(OpenTest, FreeingALiveOpen_IsRefused) {
  const stateid4 id = client->open("/export/f");
  EXPECT_EQ(client->run(ops(FREE_STATEID4args{id})).status, NFS4ERR_LOCKS_HELD);
}

// --- permissions ---

TEST_P(OpenTest, Permissions_AreThoseOfTheMode) {
  server->make_file("/export/private", "x", 0600, 1000, 1000);
  server->make_file("/export/group", "x", 0040, 1, 2000);
  RawClient user(*server, "user", {.uid = 3000, .gid = 3000, .groups = {2000}});
  ASSERT_TRUE(user.establish());
  EXPECT_EQ(open(user, user.open_args("private", OPEN4_SHARE_ACCESS_READ)).status, NFS4ERR_ACCESS);
  EXPECT_EQ(open(user, user.open_args("group", OPEN4_SHARE_ACCESS_READ)).status, NFS4_OK);
  EXPECT_EQ(open(user, user.open_args("group", OPEN4_SHARE_ACCESS_WRITE)).status, NFS4ERR_ACCESS);
  user.user = {.uid = 1000, .gid = 1000};
  EXPECT_EQ(open(user, user.open_args("private", OPEN4_SHARE_ACCESS_BOTH)).status, NFS4_OK);
}

INSTANTIATE_TEST_SUITE_P(Kept, OpenTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

}  // namespace
}  // namespace nfsrdma::filer::test
