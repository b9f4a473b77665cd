// SPDX-License-Identifier: Apache-2.0
// Which objects of a host's directory the server keeps open, and how it works without a descriptor.

#include <spawn.h>
#include <sys/wait.h>

#include <iterator>
#include <map>

#include "tests/unit/filer/host_fixture.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::filer::test {
namespace {

class HostDescriptors : public HostTest {
 protected:
  // Open files of the directory that have no name any more.
  std::vector<std::string> deleted() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      if (target.starts_with(inside()) && target.ends_with("(deleted)")) found.push_back(target);
    }
    return found;
  }
  // Executes the file on the host; returns 0 or an errno.
  int execute(const std::string& name) const {
    const std::string path = inside() + "/" + name;
    char* const arguments[] = {const_cast<char*>(path.c_str()), nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, path.c_str(), nullptr, nullptr, arguments, environ);
    if (error == 0) waitpid(child, nullptr, 0);
    return error;
  }
  nfsstat4 commit(const std::string& path) { return client->run_at(path, ops(COMMIT4args{0, 0})).status; }
  nfsstat4 resize(const std::string& path, uint64_t size) {
    fattr4 attributes;
    attributes.attrmask = bitmap4::of({FATTR4_SIZE});
    attributes.size = size;
    return client->run_at(path, ops(SETATTR4args{{}, attributes})).status;
  }
};

TEST_F(HostDescriptors, WhatTheHostRemoves_TakesNoRoomAnyMore) {
  for (const char* name : {"f", "asked for"}) std::ofstream(inside() + "/" + name) << "content";
  fs::create_directory(inside() + "/d");
  for (const char* name : {"f", "d"}) client->handle_of(std::string("/export/") + name);
  const nfs_fh4 handle = client->handle_of("/export/asked for");
  client->read("/export/f");
  for (const char* name : {"f", "d", "asked for"}) fs::remove(inside() + "/" + name);
  EXPECT_EQ(put(handle), NFS4ERR_STALE);
  for (const std::string& path : deleted()) EXPECT_FALSE(path.ends_with("asked for (deleted)"));
  EXPECT_TRUE(
      nfsrdma::test::eventually([&] { return deleted().empty(); }));  // without any request from a client
  EXPECT_EQ(deleted(), std::vector<std::string>{});
}

TEST_F(HostDescriptors, WhatHasADeadDelegation_TakesNoRoomWhenItIsRemoved) {
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kRead; });
  std::ofstream(inside() + "/f") << "content";
  RawClient other(*server, "other", client->user);
  ASSERT_TRUE(other.establish());
  const auto opened = client->run_at("/export", ops(client->open_args("f", OPEN4_SHARE_ACCESS_READ)));
  const OPEN4resok& open = at<OPEN4res>(opened, 0).resok4;
  ASSERT_EQ(open.delegation.delegation_type, OPEN_DELEGATE_READ);
  EXPECT_EQ(client->read("/export/f", open.stateid), "content");
  server->with_core([](nfs::Core& core) { core.revoke_delegations(); });  // the recall has timed out
  ASSERT_EQ(client->run_at("/export/f", ops(CLOSE4args{0, open.stateid})).status, NFS4_OK);
  ASSERT_EQ(other.run_at("/export", ops(REMOVE4args{"f"})).status, NFS4_OK);
  EXPECT_EQ(server->states().size(), 1u) << "it has not been acknowledged";
  EXPECT_EQ(deleted(), std::vector<std::string>{});
}

TEST_F(HostDescriptors, WhatNobodyHasOpen_CanBeExecutedByTheHost) {
  OPEN4args args = client->open_args("program", OPEN4_SHARE_ACCESS_BOTH);
  args.openhow.opentype = OPEN4_CREATE;
  args.openhow.how.mode = UNCHECKED4;
  args.openhow.how.createattrs.attrmask = bitmap4::of({FATTR4_MODE});
  args.openhow.how.createattrs.mode = 0755;
  const stateid4 id = at<OPEN4res>(client->run_at("/export", ops(args)), 0).resok4.stateid;
  std::ifstream program("/bin/true", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(program), {}};
  ASSERT_FALSE(text.empty());
  constexpr size_t kPart = 1 << 18;
  for (size_t at = 0; at < text.size(); at += kPart)
    ASSERT_EQ(client->write("/export/program", id, at, text.substr(at, kPart), UNSTABLE4).status, NFS4_OK);
  EXPECT_EQ(commit("/export/program"), NFS4_OK);
  EXPECT_EQ(execute("program"), ETXTBSY) << "it is open";
  EXPECT_EQ(client->run_at("/export/program", ops(CLOSE4args{0, id})).status, NFS4_OK);
  EXPECT_EQ(execute("program"), 0);

  EXPECT_EQ(client->write("/export/program", {}, 0, text.substr(0, 16)).status, NFS4_OK);
  EXPECT_EQ(execute("program"), 0) << "written to stable storage";
  EXPECT_EQ(client->write("/export/program", {}, 0, text.substr(0, 16), UNSTABLE4).status, NFS4_OK);
  EXPECT_EQ(execute("program"), ETXTBSY) << "the descriptor knows whether it is lost";
  EXPECT_EQ(commit("/export/program"), NFS4_OK);
  EXPECT_EQ(execute("program"), 0) << "committed";
  EXPECT_EQ(resize("/export/program", text.size()), NFS4_OK);
  EXPECT_EQ(execute("program"), 0) << "resized";
}

// As open(2) with O_TRUNC. (On tmpfs, truncate(2) of an empty file does not.)
TEST_F(HostDescriptors, TruncatingWhatIsEmpty_MovesTheTimes) {
  const std::string path = inside() + "/f";
  std::ofstream(path).close();
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(path, old);
  EXPECT_EQ(resize("/export/f", 0), NFS4_OK);
  EXPECT_GT(fs::last_write_time(path), old + std::chrono::minutes(1));
}

// The host reports a write error once, so the server must ask before it closes the last descriptor that would
// get it.
TEST_F(HostDescriptors, FailureSeenWhereItIsNotAskedFor_ChangesTheVerifier) {
  sync = true;
  begin();
  std::ofstream(inside() + "/f") << "content";
  const verifier4 before = client->write("/export/f", {}, 0, "ours", UNSTABLE4).resok4.writeverf;
  failing_fsyncs = 1;
  EXPECT_EQ(resize("/export/f", 10), NFS4_OK);
  EXPECT_EQ(failing_fsyncs, 0);
  const auto reply = client->run_at("/export/f", ops(COMMIT4args{0, 0}));
  EXPECT_EQ(reply.status, NFS4_OK);
  EXPECT_NE(at<COMMIT4res>(reply, 0).resok4.writeverf, before);
}

// More files are open than may have descriptors: the least recently used ones have none until their next use.
class HostOfFewDescriptors : public HostDescriptors {
 protected:
  static constexpr unsigned kMost = 8, kFiles = 60;
  void SetUp() override {
    most_with_descriptors = kMost;
    HostDescriptors::SetUp();
  }
  static size_t descriptors() {
    const fs::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(fs::begin(all), fs::end(all)));
  }
  // Opens and reads many files.
  void open_others() {
    for (unsigned i = 0; i < kFiles; ++i) {
      const std::string name = "other" + std::to_string(i);
      std::ofstream(inside() + "/" + name) << name;
      others[name] = client->open("/export/" + name);
      EXPECT_EQ(client->read("/export/" + name, others[name]), name);
    }
  }
  void expect_others() {
    for (const auto& [name, id] : others) {
      EXPECT_EQ(client->read("/export/" + name, id), name);
      EXPECT_EQ(client->write("/export/" + name, id, 0, name).status, NFS4_OK);
    }
  }
  // By filehandle, as a client does whatever happened to the name.
  nfsstat4 read(const nfs_fh4& handle, const stateid4& id) {
    return client->run(ops(PUTFH4args{handle}, READ4args{id, 0, 10})).status;
  }
  nfsstat4 write(const nfs_fh4& handle, const stateid4& id) {
    WRITE4args args{id, 0, FILE_SYNC4, {}};
    return client->run(ops(PUTFH4args{handle}, args)).status;
  }
  std::map<std::string, stateid4> others;
};

TEST_F(HostOfFewDescriptors, AllThatIsOpen_IsReadAndWritten) {
  const size_t before = descriptors();
  open_others();
  EXPECT_LT(descriptors(), before + 3 * kMost);
  expect_others();
  EXPECT_LT(descriptors(), before + 3 * kMost);
  for (const auto& [name, id] : others)
    EXPECT_EQ(client->run_at("/export/" + name, ops(CLOSE4args{0, id})).status, NFS4_OK);
}

TEST_F(HostOfFewDescriptors, WhatHasNoNameAnyMore_LivesUntilItsClose) {
  std::ofstream(inside() + "/removed") << "content";
  std::ofstream(inside() + "/replaced") << "content";
  std::ofstream(inside() + "/new") << "new";
  std::map<std::string, std::pair<nfs_fh4, stateid4>> open;
  for (const std::string name : {"removed", "replaced"})
    open[name] = {client->handle_of("/export/" + name), client->open("/export/" + name)};
  open_others();  // now these files have no descriptors
  EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{"removed"})).status, NFS4_OK);
  EXPECT_EQ(client->run_at("/export", ops(SAVEFH4args{}, RENAME4args{"new", "replaced"})).status, NFS4_OK);
  expect_others();
  for (const auto& [name, file] : open) {
    EXPECT_EQ(read(file.first, file.second), NFS4_OK) << name;
    EXPECT_EQ(write(file.first, file.second), NFS4_OK) << name;
    EXPECT_EQ(client->run(ops(PUTFH4args{file.first}, CLOSE4args{0, file.second})).status, NFS4_OK);
    EXPECT_EQ(put(file.first), NFS4ERR_STALE) << name;
  }
}

TEST_F(HostOfFewDescriptors, WhatHasAnotherName_IsFoundThere) {
  std::ofstream(inside() + "/first") << "content";
  const nfs_fh4 handle = client->handle_of("/export/first");
  const stateid4 id = client->open("/export/first");
  open_others();
  EXPECT_EQ(client
                ->run_at("/export/first",
                         ops(SAVEFH4args{}, PUTROOTFH4args{}, LOOKUP4args{"export"}, LINK4args{"second"}))
                .status,
            NFS4_OK);
  EXPECT_EQ(client->run_at("/export", ops(REMOVE4args{"first"})).status, NFS4_OK);
  expect_others();
  EXPECT_EQ(read(handle, id), NFS4_OK);
  EXPECT_EQ(write(handle, id), NFS4_OK);
}

// The creator may write its file whatever the mode says. A server that is not root uses the descriptor of the
// creation.
TEST_F(HostOfFewDescriptors, WhatOnlyItsMakerMayWrite_IsWritten) {
  OPEN4args args = client->open_args("made", OPEN4_SHARE_ACCESS_BOTH);
  args.openhow.opentype = OPEN4_CREATE;
  args.openhow.how.mode = UNCHECKED4;
  args.openhow.how.createattrs.attrmask = bitmap4::of({FATTR4_MODE});
  args.openhow.how.createattrs.mode = 0444;
  const stateid4 id = at<OPEN4res>(client->run_at("/export", ops(args)), 0).resok4.stateid;
  const nfs_fh4 handle = client->handle_of("/export/made");
  ASSERT_EQ(write(handle, id), NFS4_OK);
  open_others();
  EXPECT_EQ(write(handle, id), NFS4_OK);
}

// Before a file with uncommitted data loses the descriptor that would report a write error, the server asks
// for errors.
TEST_F(HostOfFewDescriptors, DataThatCouldNotBeWrittenOut_ChangesTheVerifier) {
  for (const bool is_open : {false, true}) {
    const std::string name = is_open ? "open" : "closed", path = "/export/" + name;
    std::ofstream(inside() + "/" + name) << "content";
    const stateid4 id = is_open ? client->open(path) : stateid4{};
    const verifier4 before = client->write(path, id, 0, "data", UNSTABLE4).resok4.writeverf;
    failing_fsyncs = 1;
    open_others();
    EXPECT_EQ(failing_fsyncs.exchange(0), 0) << name;
    const auto reply = client->run_at(path, ops(COMMIT4args{0, 0}));
    EXPECT_EQ(reply.status, NFS4_OK);
    EXPECT_NE(at<COMMIT4res>(reply, 0).resok4.writeverf, before) << name;
  }
}

// Files that keep their descriptors, because they were removed while open.
class HostOfRemovedFiles : public HostOfFewDescriptors {
 protected:
  void SetUp() override {
    HostOfFewDescriptors::SetUp();
    for (const char* name : {"one", "two", "three"}) {
      clients.push_back(std::make_unique<RawClient>(*server, name, client->user));
      ASSERT_TRUE(clients.back()->establish());
    }
  }
  // Creates, opens and removes a file.
  nfsstat4 open_and_remove(RawClient& c) {
    const std::string name = "removed" + std::to_string(made++);
    std::ofstream(inside() + "/" + name) << name;
    const auto reply = c.run_at("/export", ops(c.open_args(name), GETFH4args{}));
    EXPECT_EQ(c.run_at("/export", ops(REMOVE4args{name})).status, NFS4_OK);
    if (reply.status == NFS4_OK)
      open.emplace_back(at<GETFH4res>(reply, 1).resok4.object, at<OPEN4res>(reply, 0).resok4.stateid);
    return reply.status;
  }
  // Tries four times the limit; returns how many opens succeeded. The last ones must get NFS4ERR_DELAY.
  unsigned open_many(RawClient& c) {
    unsigned opened = 0;
    nfsstat4 last = NFS4_OK;
    for (unsigned i = 0; i < 4 * kMost; ++i) {
      last = open_and_remove(c);
      if (last == NFS4_OK) ++opened;
    }
    EXPECT_EQ(last, NFS4ERR_DELAY);
    return opened;
  }
  nfsstat4 create(RawClient& c, const std::string& name) {
    OPEN4args args = c.open_args(name);
    args.openhow.opentype = OPEN4_CREATE;
    args.openhow.how.mode = GUARDED4;
    return c.run_at("/export", ops(args)).status;
  }

  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<std::pair<nfs_fh4, stateid4>> open;
  unsigned made = 0;
};

TEST_F(HostOfRemovedFiles, OneClientMayHaveHalf_AndTheOthersGoOn) {
  const size_t before = descriptors();
  EXPECT_LE(open_many(*clients[0]), kMost + 2);
  EXPECT_EQ(create(*clients[0], "new"), NFS4ERR_DELAY);
  EXPECT_FALSE(fs::exists(inside() + "/new"));
  EXPECT_EQ(create(*clients[1], "new"), NFS4_OK);
  open_others();  // opened by another client; these can lose their descriptors
  expect_others();
  EXPECT_LT(descriptors(), before + 6 * kMost);
  for (const auto& [handle, id] : open)
    EXPECT_EQ(clients[0]->run(ops(PUTFH4args{handle}, READ4args{id, 0, 1})).status, NFS4_OK);
}

TEST_F(HostOfRemovedFiles, AllMayHaveSoMany_AndNamesAndDataAreStillToBeHad) {
  const size_t before = descriptors();
  std::ofstream(inside() + "/f") << "content";
  stateid4 id = client->open("/export/f");
  id.seqid = 0;  // means the current seqid
  for (const auto& c : clients) open_many(*c);
  EXPECT_LE(open.size(), 2 * kMost + 2);
  EXPECT_EQ(create(*client, "new"), NFS4ERR_DELAY);
  EXPECT_EQ(client->run_at("/export", ops(client->open_args("f", OPEN4_SHARE_ACCESS_READ))).status, NFS4_OK)
      << "it is open already";
  for (unsigned i = 0; i < kFiles; ++i) {
    const std::string path = "/export/other" + std::to_string(i);
    std::ofstream(inside() + "/other" + std::to_string(i)) << "content";
    EXPECT_EQ(client->read(path), "content");
  }
  EXPECT_EQ(client->write("/export/f", id, 0, "x").status, NFS4_OK);
  EXPECT_LT(descriptors(), before + 9 * kMost);
}

TEST_F(HostOfRemovedFiles, WhatIsClosed_MakesRoom) {
  RawClient& c = *clients[0];
  open_many(c);
  for (const auto& [handle, id] : open)
    EXPECT_EQ(c.run(ops(PUTFH4args{handle}, CLOSE4args{0, id})).status, NFS4_OK);
  EXPECT_EQ(deleted(), std::vector<std::string>{});
  EXPECT_EQ(open_and_remove(c), NFS4_OK);
}

TEST_F(HostOfRemovedFiles, WhoseLeaseIsOver_MakesRoom) {
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  for (const auto& c : clients) open_many(*c);
  ASSERT_EQ(create(*client, "new"), NFS4ERR_DELAY);
  server->expire_lease(clients[0]->clientid);
  EXPECT_EQ(create(*client, "new"), NFS4_OK);
  EXPECT_EQ(clients[0]->run({}).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(clients[1]->run({}).status, NFS4_OK);
}

}  // namespace
}  // namespace nfsrdma::filer::test
