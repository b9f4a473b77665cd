// SPDX-License-Identifier: Apache-2.0
// All operations on objects of all types, on a removed object, and without a filehandle (RFC 8881 sections
// 15.2, 18).

#include <functional>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

constexpr const char* kObjects[] = {"file", "dir", "link", "block", "char", "socket", "fifo"};

// The status of an operation for each type of the current (or saved) filehandle.
struct Row {
  const char* what;
  std::function<Ops(const std::string& object)> request;  // the last operation is the one under test
  nfsstat4 file;
  nfsstat4 dir;
  nfsstat4 link;
  nfsstat4 special;  // devices, sockets and FIFOs

  nfsstat4 expected(const std::string& object) const {
    return object == "file" ? file : object == "dir" ? dir : object == "link" ? link : special;
  }
};

std::string path_of(const std::string& object) {
  return "/export/" + object;
}
// The operation with the object as the current filehandle.
template <class Args>
auto on_it(Args args) {
  return [args](const std::string& object) { return path_ops(path_of(object)) + ops(args); };
}
// Two filehandles: the object is saved and the directory is current, or the other way round.
template <class Args>
auto saved(Args args) {
  return [args](const std::string& object) {
    return path_ops(path_of(object)) + ops(SAVEFH4args{}) + path_ops("/export") + ops(args);
  };
}
template <class Args>
auto into(const std::string& from, Args args) {
  return [from, args](const std::string& object) {
    return path_ops(from) + ops(SAVEFH4args{}) + path_ops(path_of(object)) + ops(args);
  };
}

WRITE4args small_write() {
  static constexpr std::string_view kData = "data";
  WRITE4args args;
  args.stable = FILE_SYNC4;
  args.data = as_const_bytes(kData);
  return args;
}
SETATTR4args set_size(uint64_t size) {
  SETATTR4args args;
  args.obj_attributes.attrmask.set(FATTR4_SIZE);
  args.obj_attributes.size = size;
  return args;
}
SETATTR4args set_mode(uint32_t mode) {
  SETATTR4args args;
  args.obj_attributes.attrmask.set(FATTR4_MODE);
  args.obj_attributes.mode = mode;
  return args;
}
SETATTR4args set_times() {
  SETATTR4args args;
  args.obj_attributes.attrmask = bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET});
  args.obj_attributes.time_modify_set = {SET_TO_CLIENT_TIME4, {1'000'000, 5}};
  return args;
}
LOCK4args lock(stateid4 open) {
  LOCK4args args;
  args.locktype = WRITE_LT;
  args.length = 10;
  args.locker.new_lock_owner = true;
  args.locker.stateid = open;
  args.locker.lock_owner = {0, "locker"};
  return args;
}
LOCKT4args lock_test() {
  LOCKT4args args;
  args.locktype = WRITE_LT;
  args.length = 10;
  args.owner = {0, "locker"};
  return args;
}
LOCKU4args unlock() {
  LOCKU4args args;
  args.locktype = WRITE_LT;
  args.length = 10;
  return args;
}
OPEN4args open_by_name(const std::string& name) {
  OPEN4args args;
  args.share_access = OPEN4_SHARE_ACCESS_READ;
  args.owner = {0, "opener"};
  args.claim.file = name;
  return args;
}
OPEN4args open_by_handle() {
  OPEN4args args = open_by_name("");
  args.claim.claim = CLAIM_FH;
  return args;
}
READDIR4args list() {
  READDIR4args args;
  args.maxcount = 8192;
  return args;
}
OPEN_DOWNGRADE4args downgrade() {
  OPEN_DOWNGRADE4args args;
  args.share_access = OPEN4_SHARE_ACCESS_READ;
  return args;
}
VERIFY4args same_link_support() {
  VERIFY4args args;
  args.obj_attributes.attrmask.set(FATTR4_LINK_SUPPORT);
  args.obj_attributes.fs.edit().link_support = true;
  return args;
}

const std::vector<Row>& rows() {
  constexpr nfsstat4 OK = NFS4_OK;
  constexpr nfsstat4 NOTDIR = NFS4ERR_NOTDIR;
  constexpr nfsstat4 ISDIR = NFS4ERR_ISDIR;
  constexpr nfsstat4 SYMLINK = NFS4ERR_SYMLINK;
  constexpr nfsstat4 TYPE = NFS4ERR_WRONG_TYPE;
  constexpr nfsstat4 NOENT = NFS4ERR_NOENT;
  constexpr nfsstat4 STATEID = NFS4ERR_BAD_STATEID;
  constexpr nfsstat4 NOTSUPP = NFS4ERR_NOTSUPP;
  const createtype4 directory{NF4DIR, {}, {}};
  static const std::vector<Row> kRows = {
      {"ACCESS", on_it(ACCESS4args{0x3f}), OK, OK, OK, OK},
      {"CLOSE", on_it(CLOSE4args{}), STATEID, STATEID, STATEID, STATEID},
      {"COMMIT", on_it(COMMIT4args{}), OK, ISDIR, SYMLINK, TYPE},
      {"CREATE", on_it(CREATE4args{directory, "new", {}}), NOTDIR, OK, NOTDIR, NOTDIR},
      {"DELEGRETURN", on_it(DELEGRETURN4args{}), STATEID, STATEID, STATEID, STATEID},
      {"GETATTR", on_it(GETATTR4args{bitmap4::of({FATTR4_TYPE})}), OK, OK, OK, OK},
      {"GETFH", on_it(GETFH4args{}), OK, OK, OK, OK},
      {"LINK into", into("/export/file", LINK4args{"linked"}), NOTDIR, OK, NOTDIR, NOTDIR},
      {"LOCK", on_it(lock({})), STATEID, ISDIR, SYMLINK, TYPE},
      {"LOCKT", on_it(lock_test()), OK, ISDIR, SYMLINK, TYPE},
      {"LOCKU", on_it(unlock()), STATEID, ISDIR, SYMLINK, TYPE},
      {"LOOKUP", on_it(LOOKUP4args{"none"}), NOTDIR, NOENT, SYMLINK, NOTDIR},
      {"LOOKUPP", on_it(LOOKUPP4args{}), NOTDIR, OK, SYMLINK, NOTDIR},
      // "If the current filehandle is not a directory, the error NFS4ERR_NOTDIR will be returned."
      {"OPEN in it", on_it(open_by_name("none")), NOTDIR, NOENT, NOTDIR, NOTDIR},
      {"OPEN it", on_it(open_by_handle()), OK, ISDIR, SYMLINK, TYPE},
      {"OPENATTR", on_it(OPENATTR4args{}), NOTSUPP, NOTSUPP, NOTSUPP, NOTSUPP},
      {"OPEN_DOWNGRADE", on_it(downgrade()), STATEID, STATEID, STATEID, STATEID},
      {"READ", on_it(READ4args{{}, 0, 10}), OK, ISDIR, SYMLINK, TYPE},
      {"READDIR", on_it(list()), NOTDIR, OK, NOTDIR, NOTDIR},
      {"READLINK", on_it(READLINK4args{}), TYPE, TYPE, OK, TYPE},
      {"REMOVE", on_it(REMOVE4args{"none"}), NOTDIR, NOENT, NOTDIR, NOTDIR},
      {"RENAME from", saved(RENAME4args{"none", "other"}), NOTDIR, NOENT, NOTDIR, NOTDIR},
      {"RENAME into", into("/export", RENAME4args{"none", "other"}), NOTDIR, NOENT, NOTDIR, NOTDIR},
      {"SAVEFH", on_it(SAVEFH4args{}), OK, OK, OK, OK},
      {"SECINFO", on_it(SECINFO4args{"none"}), NOTDIR, NOENT, NOTDIR, NOTDIR},
      {"SECINFO_NO_NAME", on_it(SECINFO_NO_NAME4args{SECINFO_STYLE4_CURRENT_FH}), OK, OK, OK, OK},
      {"SECINFO_NO_NAME of the parent", on_it(SECINFO_NO_NAME4args{SECINFO_STYLE4_PARENT}), NOTDIR, OK,
       NOTDIR, NOTDIR},
      {"SETATTR size", on_it(set_size(3)), OK, TYPE, TYPE, TYPE},
      {"SETATTR mode", on_it(set_mode(0711)), OK, OK, OK, OK},
      {"SETATTR times", on_it(set_times()), OK, OK, OK, OK},
      {"VERIFY", on_it(same_link_support()), OK, OK, OK, OK},
      {"WRITE", on_it(small_write()), OK, ISDIR, SYMLINK, TYPE},
      {"GET_DIR_DELEGATION", on_it(GET_DIR_DELEGATION4args{}), NOTSUPP, NOTSUPP, NOTSUPP, NOTSUPP},
      {"WANT_DELEGATION", on_it(WANT_DELEGATION4args{}), NOTSUPP, NOTSUPP, NOTSUPP, NOTSUPP},
  };
  return kRows;
}

// Operations that this server does not implement are refused before the filehandle is checked.
nfsstat4 unless_unsupported(const nfs_argop4& op, nfsstat4 status) {
  const bool unsupported = op.opnum() == OP_GET_DIR_DELEGATION || op.opnum() == OP_WANT_DELEGATION;
  return unsupported ? NFS4ERR_NOTSUPP : status;
}

class ObjectsTest : public ::testing::TestWithParam<Kept> {
 protected:
  void SetUp() override {
    if (GetParam() == Kept::kByHost && !may_act_as_callers()) GTEST_SKIP() << "needs root";
    server = start_server(kept(GetParam(), directory));
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
    for (const char* object : kObjects) make(object);
  }
  void make(const std::string& object) {
    static const std::map<std::string, createtype4> kTypes = {
        {"dir", {NF4DIR, {}, {}}},       {"link", {NF4LNK, "file", {}}}, {"block", {NF4BLK, {}, {8, 1}}},
        {"char", {NF4CHR, {}, {4, 64}}}, {"socket", {NF4SOCK, {}, {}}},  {"fifo", {NF4FIFO, {}, {}}}};
    if (object == "file") {
      ASSERT_TRUE(server->make_file("/export/file", "content"));
    } else {
      ASSERT_EQ(client->run_at("/export", ops(CREATE4args{kTypes.at(object), object, {}})).status, NFS4_OK);
    }
  }
  nfsstat4 remove(const std::string& object) {
    return client->run_at("/export", ops(REMOVE4args{object})).status;
  }

  TempDirectory directory;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

TEST_P(ObjectsTest, EveryOperation_KnowsWhatItIsFor) {
  for (const Row& row : rows()) {
    for (const char* object : kObjects) {
      const COMPOUND4res reply = client->run(row.request(object));
      EXPECT_EQ(name_of(reply.status), name_of(row.expected(object))) << row.what << ": " << object;
    }
  }
}

// Section 2.6.3.1.1.8: "On success, the current filehandle is consumed". Section 18.45.3: SECINFO_NO_NAME
// asks about the object itself or its parent.
TEST_P(ObjectsTest, FlavorsThatWouldDo_AreToldAndTheFilehandleIsGone) {
  for (const nfs_argop4& asking : ops(SECINFO_NO_NAME4args{SECINFO_STYLE4_CURRENT_FH},
                                      SECINFO_NO_NAME4args{SECINFO_STYLE4_PARENT}, SECINFO4args{"file"})) {
    const std::string path = asking.opnum() == OP_SECINFO ? "/export" : "/export/dir";
    const COMPOUND4res res = client->run_at(path, Ops{asking} + ops(GETFH4args{}));
    EXPECT_EQ(res.status, NFS4ERR_NOFILEHANDLE);
    ASSERT_EQ(res.resarray.size(), 2u);
    const auto flavors = asking.opnum() == OP_SECINFO ? at<SECINFO4res>(res, 0).resok4
                                                      : at<SECINFO_NO_NAME4res>(res, 0).resok4;
    EXPECT_TRUE(std::ranges::any_of(flavors, [](const secinfo4& f) { return f.flavor == rpc::AUTH_SYS; }));
  }
}

// "15.1.2.5. NFS4ERR_NOFILEHANDLE: The logical current or saved filehandle value is required by the current
// operation and is not set."
TEST_P(ObjectsTest, WithoutFilehandle_NoneWorks) {
  for (const Row& row : rows()) {
    const nfs_argop4 last = row.request("file").back();
    EXPECT_EQ(client->run({last}).status, unless_unsupported(last, NFS4ERR_NOFILEHANDLE)) << row.what;
  }
  EXPECT_EQ(client->run(ops(NVERIFY4args{})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(client->run(ops(RESTOREFH4args{})).status, NFS4ERR_NOFILEHANDLE);
}

// LINK and RENAME need a saved filehandle too.
TEST_P(ObjectsTest, WithoutSavedFilehandle_LinkAndRenameDoNotWork) {
  EXPECT_EQ(client->run_at("/export", ops(LINK4args{"x"})).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(client->run_at("/export", ops(RENAME4args{"file", "x"})).status, NFS4ERR_NOFILEHANDLE);
}

// "15.1.2.8. NFS4ERR_STALE: The current or saved filehandle value designating an argument to the current
// operation is invalid. The file referred to by that filehandle no longer exists": also if it is removed
// within the COMPOUND.
TEST_P(ObjectsTest, AnObjectThatIsGone_IsStale) {
  for (const Row& row : rows()) {
    const nfs_argop4 last = row.request("dir").back();
    const COMPOUND4res reply =
        client->run(path_ops("/export/dir") + ops(SAVEFH4args{}) + path_ops("/export") +
                    ops(REMOVE4args{"dir"}, RESTOREFH4args{}) + Ops{last});
    EXPECT_EQ(name_of(reply.status), name_of(unless_unsupported(last, NFS4ERR_STALE))) << row.what;
    EXPECT_EQ(reply.resarray.back().opnum(), last.opnum()) << row.what;
    make("dir");
  }
}

// "18.19 PUTFH replaces the current filehandle with the filehandle provided as an argument": GETFH returns
// it.
TEST_P(ObjectsTest, HandlesOfEveryType_ComeBackAsTheyWere) {
  for (const char* object : kObjects) {
    const nfs_fh4 handle = client->handle_of(path_of(object));
    const COMPOUND4res reply = client->run(ops(PUTFH4args{handle}, GETFH4args{}));
    EXPECT_EQ(at<GETFH4res>(reply, 1).resok4.object, handle) << object;
  }
}

TEST_P(ObjectsTest, EveryTypeButDirectories_CanBeLinkedRenamedAndRemoved) {
  for (const std::string object : kObjects) {
    const Ops link =
        path_ops(path_of(object)) + ops(SAVEFH4args{}) + path_ops("/export") + ops(LINK4args{object + "2"});
    EXPECT_EQ(client->run(link).status, object == "dir" ? NFS4ERR_ISDIR : NFS4_OK) << object;
    const Ops rename = path_ops("/export") + ops(SAVEFH4args{}, RENAME4args{object, object + "3"});
    EXPECT_EQ(client->run(rename).status, NFS4_OK) << object;
    EXPECT_EQ(remove(object + "3"), NFS4_OK) << object;
    EXPECT_EQ(remove(object), NFS4ERR_NOENT) << object;
  }
}

// "If the source object is a directory, the target object must be ... an empty directory"; a target that
// cannot be replaced is NFS4ERR_EXIST (section 18.26.3). Renaming to the same name changes nothing.
TEST_P(ObjectsTest, Rename_ReplacesWhatFits) {
  ASSERT_EQ(client->run_at("/export/dir", ops(CREATE4args{{NF4DIR, {}, {}}, "full", {}})).status, NFS4_OK);
  ASSERT_TRUE(server->make_file("/export/dir/full/f", "x"));
  ASSERT_EQ(client->run_at("/export/dir", ops(CREATE4args{{NF4DIR, {}, {}}, "empty", {}})).status, NFS4_OK);
  const auto rename = [&](const std::string& from, const std::string& old_name, const std::string& to,
                          const std::string& new_name) {
    return client->run(path_ops(from) + ops(SAVEFH4args{}) + path_ops(to) +
                       ops(RENAME4args{old_name, new_name}));
  };
  for (const char* object : {"file", "link", "block", "char", "socket", "fifo"}) {
    EXPECT_EQ(rename("/export", object, "/export/dir", "empty").status, NFS4ERR_EXIST) << object;
    EXPECT_EQ(rename("/export", object, "/export/dir", "full").status, NFS4ERR_EXIST) << object;
    EXPECT_EQ(rename("/export/dir", "empty", "/export", object).status, NFS4ERR_EXIST) << object;
  }
  EXPECT_EQ(rename("/export/dir", "empty", "/export/dir", "full").status, NFS4ERR_EXIST);
  EXPECT_EQ(rename("/export", "dir", "/export/dir/full", "below").status, NFS4ERR_INVAL) << "into itself";
  EXPECT_EQ(rename("/export", "socket", "/export", "fifo").status, NFS4_OK);
  EXPECT_EQ(rename("/export/dir", "full", "/export/dir", "empty").status, NFS4_OK);
  const COMPOUND4res same = rename("/export", "dir", "/export", "dir");
  ASSERT_EQ(same.status, NFS4_OK);
  const auto& res = std::get<RENAME4res>(same.resarray.back().op);
  EXPECT_EQ(res.resok4.source_cinfo.before, res.resok4.source_cinfo.after);
  EXPECT_EQ(res.resok4.target_cinfo.before, res.resok4.target_cinfo.after);
}

INSTANTIATE_TEST_SUITE_P(Kept, ObjectsTest, ::testing::Values(Kept::kInMemory, Kept::kByHost), name_of);

}  // namespace
}  // namespace nfsrdma::filer::test
