// SPDX-License-Identifier: Apache-2.0
// Names in all operations that take one, and the forms of a COMPOUND (RFC 8881 sections 14.5, 16.2).

#include <functional>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using Request = std::function<Ops(const std::string& name)>;

struct Taker {
  const char* what;
  Request request;
};

OPEN4args open_args(const std::string& name, opentype4 how) {
  OPEN4args args;
  args.share_access = OPEN4_SHARE_ACCESS_READ;
  args.owner = {0, "opener"};
  args.openhow.opentype = how;
  args.claim.file = name;
  return args;
}

const std::vector<Taker>& takers() {
  static const std::vector<Taker> kTakers = {
      {"LOOKUP", [](const auto& name) { return ops(LOOKUP4args{name}); }},
      {"SECINFO", [](const auto& name) { return ops(SECINFO4args{name}); }},
      {"REMOVE", [](const auto& name) { return ops(REMOVE4args{name}); }},
      {"CREATE",
       [](const auto& name) {
         return ops(CREATE4args{{NF4DIR, {}, {}}, name, {}});
       }},
      {"OPEN", [](const auto& name) { return ops(open_args(name, OPEN4_NOCREATE)); }},
      {"OPEN create", [](const auto& name) { return ops(open_args(name, OPEN4_CREATE)); }},
      {"RENAME from",
       [](const auto& name) {
         return ops(SAVEFH4args{}, RENAME4args{name, "other"});
       }},
      {"RENAME to",
       [](const auto& name) {
         return ops(SAVEFH4args{}, RENAME4args{"f", name});
       }},
      {"LINK",
       [](const auto& name) {
         return ops(LOOKUP4args{"f"}, SAVEFH4args{}) + path_ops("/export") + ops(LINK4args{name});
       }},
  };
  return kTakers;
}

class NamesTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (GetParam() == Kept::kByHost && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory));
    ASSERT_TRUE(server->make_file("/export/f", "content"));
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }
  void every_taker_answers(const std::string& name, nfsstat4 status) {
    for (const Taker& taker : takers()) {
      const COMPOUND4res reply = client->run(path_ops("/export") + taker.request(name));
      EXPECT_EQ(name_of(reply.status), name_of(status)) << taker.what << " of " << name.size() << " bytes";
    }
    EXPECT_EQ(server->list("/export"), std::vector<std::string>{"f"});
  }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

// "If the component is of zero length, NFS4ERR_INVAL will be returned."
TEST_P(NamesTest, Empty_IsInvalid) {
  every_taker_answers("", NFS4ERR_INVAL);
}

// "15.1.7.1. NFS4ERR_BADNAME: The string ... is not to be used": these two names never name an entry.
TEST_P(NamesTest, DotAndDotDot_AreBadNames) {
  every_taker_answers(".", NFS4ERR_BADNAME);
  every_taker_answers("..", NFS4ERR_BADNAME);
}

// "15.1.7.2. NFS4ERR_BADCHAR: A UTF-8 string contains a character that is not supported by the server in the
// context in which it being used."
TEST_P(NamesTest, SlashAndNul_AreBadCharacters) {
  every_taker_answers("a/b", NFS4ERR_BADCHAR);
  every_taker_answers("/", NFS4ERR_BADCHAR);
  every_taker_answers(std::string("a\0b", 3), NFS4ERR_BADCHAR);
}

TEST_P(NamesTest, Longest_IsWhatMaxnameSays) {
  const uint32_t longest = client->attributes("/export", bitmap4::of({FATTR4_MAXNAME})).fs->maxname;
  every_taker_answers(std::string(longest + 1, 'x'), NFS4ERR_NAMETOOLONG);
  every_taker_answers(std::string(1536, 'x'), NFS4ERR_NAMETOOLONG);
  EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{std::string(longest, 'x')})).status, NFS4ERR_NOENT);
}

// "FSCHARSET_CAP4_CONTAINS_NON_UTF8, which, if set to one, tells the client that the file system contains
// non- UTF-8 characters" (section 14.4): applications expect any name to work, as on Linux' server.
TEST_P(NamesTest, OtherThanUtf8_AreNamesLikeOthers) {
  constexpr uint32_t kContainsNonUtf8 = 1;
  EXPECT_EQ(client->attributes("/export", bitmap4::of({FATTR4_FS_CHARSET_CAP})).fs->fs_charset_cap,
            kContainsNonUtf8);
  for (const char* bytes :
       {"\xc0\xaf", "\xe0\x8a", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\x80", "\xff", "ok\xdf"}) {
    OPEN4args args = client->open_args(bytes);
    args.openhow.opentype = OPEN4_CREATE;
    args.openhow.how.mode = GUARDED4;
    ASSERT_EQ(client->run_at("/export", ops(args)).status, NFS4_OK);
    EXPECT_EQ(client->run_at("/export", ops(LOOKUP4args{bytes})).status, NFS4_OK);
    const auto names = server->list("/export");
    EXPECT_NE(std::find(names.begin(), names.end(), bytes), names.end());
    EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{bytes})).status, NFS4_OK);
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, NamesTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

// --- COMPOUND ---

class CompoundTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server();
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }
  COMPOUND4res call(const COMPOUND4args& args) {
    const auto reply = client->receive(client->send(args));
    return reply ? *reply : COMPOUND4res{NFS4ERR_SERVERFAULT, {}, {}};
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

TEST_F(CompoundTest, WithoutOperations_IsOk) {
  const COMPOUND4res reply = call({});
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_TRUE(reply.resarray.empty());
}

// "the value of "tag" in the response SHOULD be the same value as provided in the request"
TEST_F(CompoundTest, Tag_ComesBack) {
  for (const std::string& tag :
       {std::string(), std::string("a tag"), std::string("\xc3\xa4"), std::string(1000, 't')}) {
    EXPECT_EQ(call({.tag = tag}).tag, tag);
    EXPECT_EQ(call({.tag = tag, .minorversion = 7}).tag, tag);
  }
}

// "NFS4ERR_INVAL: The tag argument is not in UTF-8 encoding" (section 16.2.4)
TEST_F(CompoundTest, TagOtherThanUtf8_IsInvalid) {
  for (const char* tag : {"\xc0\xc1", "\xe0\x8a", "\xed\xbf\xbf", "\xff", "\xc0 "}) {
    const COMPOUND4res reply = call({.tag = tag, .argarray = ops(client->next_sequence())});
    EXPECT_EQ(reply.status, NFS4ERR_INVAL);
    EXPECT_TRUE(reply.resarray.empty());
    client->undo_sequence();
  }
  EXPECT_EQ(client->run({}).status, NFS4_OK) << "nothing was executed";
}

// "the NFS4ERR_MINOR_VERS_MISMATCH error takes precedence over all other errors", "and a zero-length
// resultdata array".
TEST_F(CompoundTest, OtherMinorVersion_ComesBeforeAnyOtherError) {
  for (const uint32_t version : {0u, 2u, 50u, 0xffffffffu}) {
    for (const Ops& list :
         {Ops{}, ops(ILLEGAL4args{}), ops(ILLEGAL4args{static_cast<nfs_opnum4>(2)}), ops(PUTROOTFH4args{})}) {
      const COMPOUND4res reply = call({.tag = "\xff", .minorversion = version, .argarray = list});
      EXPECT_EQ(reply.status, NFS4ERR_MINOR_VERS_MISMATCH) << version;
      EXPECT_TRUE(reply.resarray.empty());
    }
  }
}

// "the server's response will encode the opcode OP_ILLEGAL rather than the illegal opcode of the request": as
// the first operation and after SEQUENCE.
TEST_F(CompoundTest, UndefinedOperations_AreIllegal) {
  for (const uint32_t number : {0u, 1u, 2u, 59u, 72u, 76u, 10043u, 10044u, 0xffffffffu}) {
    const ILLEGAL4args undefined{static_cast<nfs_opnum4>(number)};
    const COMPOUND4res first = call({.argarray = ops(undefined)});
    EXPECT_EQ(first.status, NFS4ERR_OP_ILLEGAL) << number;
    ASSERT_EQ(first.resarray.size(), 1u);
    EXPECT_EQ(first.resarray[0].opnum(), OP_ILLEGAL);
    const COMPOUND4res behind = client->run(ops(PUTROOTFH4args{}, undefined));
    EXPECT_EQ(behind.status, NFS4ERR_OP_ILLEGAL) << number;
    EXPECT_EQ(behind.resarray.back().opnum(), OP_ILLEGAL);
  }
}

// Operations that "MUST NOT be implemented" in minor version 1, and pNFS, which this server lacks.
// docs/conformance/filer.md lists them.
TEST_F(CompoundTest, OperationsThatAreNotHere_AreNotSupported) {
  for (const nfs_opnum4 op :
       {OP_OPEN_CONFIRM, OP_RENEW, OP_SETCLIENTID, OP_SETCLIENTID_CONFIRM, OP_RELEASE_LOCKOWNER,
        OP_GETDEVICEINFO, OP_GETDEVICELIST, OP_LAYOUTCOMMIT, OP_LAYOUTGET, OP_LAYOUTRETURN}) {
    const COMPOUND4res reply = client->run_at("/export", ops(ILLEGAL4args{op}));
    EXPECT_EQ(reply.status, NFS4ERR_NOTSUPP) << op_name(op);
    EXPECT_EQ(reply.resarray.back().opnum(), op);
  }
  EXPECT_EQ(client->run(ops(DELEGPURGE4args{})).status, NFS4ERR_NOTSUPP);
}

// "the server continues this process until there are no more operations to be executed or until one of the
// operations has a status value other than NFS4_OK", which is then the status of the COMPOUND.
TEST_F(CompoundTest, FirstFailure_EndsIt) {
  const COMPOUND4res reply =
      client->run(ops(PUTROOTFH4args{}, LOOKUP4args{"none"}, CREATE4args{{NF4DIR, {}, {}}, "made", {}}));
  EXPECT_EQ(reply.status, NFS4ERR_NOENT);
  EXPECT_EQ(reply.resarray.size(), 2u);
}

// "If an operation sets the current filehandle but does not return a stateid, the current stateid MUST be set
// to the all-zeros special stateid"; "SAVEFH and RESTOREFH operations will save and restore both".
TEST_F(CompoundTest, CurrentStateid_GoesWithTheFilehandle) {
  server->make_file("/export/f", "content");
  const Ops open = path_ops("/export") + ops(open_args("f", OPEN4_NOCREATE));
  const CLOSE4args close{0, kCurrentStateid};
  EXPECT_EQ(client->run(open + ops(close)).status, NFS4_OK);
  EXPECT_EQ(
      client->run(open + ops(GETFH4args{}, GETATTR4args{}, READ4args{kCurrentStateid, 0, 4}, close)).status,
      NFS4_OK);
  EXPECT_EQ(client->run(open + ops(SAVEFH4args{}, PUTROOTFH4args{}, RESTOREFH4args{}, close)).status,
            NFS4_OK);
  EXPECT_EQ(client->run(open + path_ops("/export/f") + ops(close)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(client->run(path_ops("/export/f") + ops(close)).status, NFS4ERR_BAD_STATEID);
  // "If there are valid locks (of any kind) associated with the stateid in question": NFS4ERR_LOCKS_HELD.
  EXPECT_EQ(client->run(open + ops(FREE_STATEID4args{kCurrentStateid}, close)).status, NFS4ERR_LOCKS_HELD);
}

}  // namespace
}  // namespace nfsrdma::filer::test
