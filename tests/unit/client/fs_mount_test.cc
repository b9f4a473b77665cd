// SPDX-License-Identifier: Apache-2.0
// Mount and unmount: what they establish, and that nothing remains.
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using namespace nfs4;  // NOLINT: operations

class MountLoops : public testing::TestWithParam<unsigned> {
 protected:
  TestMount::Settings settings() const { return {.loops = GetParam()}; }
  std::unique_ptr<filer::Server> server = start_filer();
};

TEST_P(MountLoops, Mount_EstablishesOneClientOneSessionAndABackChannel) {
  TestMount mount(*server, settings());
  const auto clients = server->clients();
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].sessions.size(), 1u);
  EXPECT_TRUE(clients[0].back_channel);
  EXPECT_TRUE(clients[0].reclaim_complete);
  EXPECT_EQ(server->connections(), GetParam());
  EXPECT_EQ(server->executed(OP_EXCHANGE_ID).succeeded, 1u);
  EXPECT_EQ(server->executed(OP_CREATE_SESSION).succeeded, 1u);
  EXPECT_EQ(server->executed(OP_RECLAIM_COMPLETE).succeeded, 1u);
  const auto statistics = mount.fs().statistics();
  EXPECT_TRUE(statistics.session.back_channel);
  EXPECT_EQ(statistics.session.lease_seconds, 90u);
  EXPECT_EQ(statistics.session.slots, 64u);
  EXPECT_EQ(statistics.transports.size(), GetParam());
}

TEST_P(MountLoops, Statistics_CountEveryAnswer) {
  TestMount mount(*server, settings());
  server->faults().add(filer::on::request_with(OP_OPEN).times(2),
                       filer::fault::Answer{OP_OPEN, NFS4ERR_DELAY});
  EXPECT_EQ(mount.write_file("file", "content"), 0);
  const auto open = mount.open("file");
  server->restart();
  EXPECT_EQ(mount.read(open).value_or("error"), "content");
  EXPECT_EQ(mount.close(open), 0);

  const auto statistics = mount.fs().statistics();
  uint64_t requests = 0, replies = 0, opens_refused = 0;
  for (const auto& operation : statistics.operations) {
    requests += operation.requests;
    if (operation.name == "OPEN") opens_refused = operation.errors;
  }
  for (const auto& transport : statistics.transports) replies += transport.replies;
  EXPECT_EQ(requests, replies);
  EXPECT_EQ(opens_refused, 2u);
  EXPECT_EQ(mount.requests("EXCHANGE_ID"), 2u);
  EXPECT_GE(mount.requests("CREATE_SESSION"), 2u);
}

TEST_P(MountLoops, Unmount_LeavesNothingOnTheServer) {
  {
    TestMount mount(*server, settings());
    EXPECT_EQ(mount.write_file("file", "content"), 0);
    const auto left_open = mount.create("left open");
    EXPECT_EQ(mount.write(left_open, 0, "unwritten"), 0);
    EXPECT_EQ(mount.lock(left_open, client::LockType::kWrite), 0);
    EXPECT_TRUE(mount.unmount());
    EXPECT_TRUE(server->clients().empty());
    EXPECT_TRUE(server->states().empty());
    EXPECT_TRUE(server->wait_until([](filer::nfs::Core&) { return true; }));
    EXPECT_EQ(server->executed(OP_DESTROY_SESSION).succeeded, 1u);
    EXPECT_EQ(server->executed(OP_DESTROY_CLIENTID).succeeded, 1u);
  }
  EXPECT_EQ(server->read_file("/export/file"), "content");
  EXPECT_EQ(server->read_file("/export/left open"), "unwritten");
  EXPECT_FALSE(server->stat("/export/left open")->unstable);
}

TEST_P(MountLoops, AnotherMountAfterwards_BeginsAnew) {
  for (int n = 0; n < 3; ++n) {
    TestMount mount(*server, settings());
    EXPECT_EQ(mount.write_file("file", std::to_string(n)), 0);
    EXPECT_EQ(mount.read_file("file"), std::to_string(n));
  }
}

TEST_P(MountLoops, TwoMountsOfOneHost_AreTwoClients) {
  TestMount one(*server, settings()), two(*server, settings());
  EXPECT_EQ(server->clients().size(), 2u);
  EXPECT_EQ(one.write_file("file", "from one"), 0);
  EXPECT_EQ(two.read_file("file"), "from one");
}

TEST_P(MountLoops, UnmountWhileRequestsRun_EndsThemAll) {
  TestMount mount(*server, settings());
  EXPECT_EQ(mount.write_file("file", "content"), 0);
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 100; ++i) {
    lookups.push_back(
        mount.start(mount.fs().lookup(mount.user(), mount.root(), "no such " + std::to_string(i))));
  }
  EXPECT_TRUE(mount.unmount());
  for (auto& lookup : lookups) {
    const auto answer = lookup.get();
    if (!answer) {
      EXPECT_EQ(answer.error().recovery, Recovery::kInterrupted);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Loops, MountLoops, testing::Values(1u, 4u));

class MountTest : public testing::Test {
 protected:
  std::unique_ptr<filer::Server> server = start_filer();
};

TEST_F(MountTest, AbsentExport_NamesWhatIsMissing) {
  TestMount mount(*server, {.export_path = "/export/no/such", .mount = false});
  const auto mounted = mount.mount();
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().errnum, ENOENT);
  EXPECT_TRUE(mounted.error().is_status(NFS4ERR_NOENT));
  EXPECT_NE(mounted.error().cause.find("\"no\""), std::string::npos) << mounted.error().cause;
  EXPECT_TRUE(mount.unmount());
  EXPECT_TRUE(server->clients().empty());
}

// Section 2.6.3.1.1: for the root, which has no name, SECINFO_NO_NAME returns the accepted flavors.
TEST_F(MountTest, RootThatWantsAnotherFlavor_IsAskedWhich) {
  server->faults().add(filer::on::request_with(OP_PUTROOTFH),
                       filer::fault::Answer{OP_PUTROOTFH, NFS4ERR_WRONGSEC});
  TestMount mount(*server, {.export_path = "/", .mount = false});
  const auto refused = mount.mount();
  EXPECT_EQ(errno_of(refused), EPERM);
  EXPECT_NE(describe(refused.error()).find("the server wants sec=sys"), std::string::npos)
      << describe(refused.error());
  EXPECT_EQ(server->executed(OP_SECINFO_NO_NAME).executed, 1u);
  EXPECT_TRUE(mount.unmount());
}

// Linux' server includes the NUL at the end of its name. The field is opaque, so a server may send any bytes.
TEST_F(MountTest, ServersNames_AreShownWithoutTheNulBehindThem) {
  server->with_core([](filer::nfs::Core& core) {
    auto& identity = core.clients.identity();
    identity.scope = std::string("scope\0\0", 7);
    identity.owner_major = std::string("ow\0ner\0", 7);
  });
  TestMount mount(*server);
  const auto session = mount.fs().statistics().session;
  EXPECT_EQ(session.server_scope, "scope");
  EXPECT_EQ(session.server_owner, std::string("ow\0ner", 6)) << "one within is made visible by who prints it";
}

TEST_F(MountTest, ExportThatIsAFile_IsNoDirectory) {
  server->make_file("/export/file", "");
  TestMount mount(*server, {.export_path = "/export/file", .mount = false});
  EXPECT_EQ(errno_of(mount.mount()), ENOTDIR);
  EXPECT_TRUE(mount.unmount());
}

TEST_F(MountTest, DeepPath_IsWalkedInPieces) {
  std::string path = "/export";
  for (int i = 0; i < 30; ++i) {
    path += "/d" + std::to_string(i);
    ASSERT_TRUE(server->make_directory(path));
  }
  server->make_file(path + "/here", "content");
  TestMount mount(*server, {.export_path = path});
  EXPECT_EQ(mount.read_file("here"), "content");
}

TEST_F(MountTest, OddlySpelledPath_IsTheSame) {
  server->make_directory("/export/d");
  server->make_file("/export/d/here", "content");
  for (const char* path : {"export/d", "//export//d", "/export/d/", "/export/d///"}) {
    TestMount mount(*server, {.export_path = path});
    EXPECT_EQ(mount.read_file("here"), "content") << path;
  }
}

// RFC 8881 section 7.3: "Servers limit namespace access to portions of their file systems [...] the server
// provides a pseudo file system that bridges this gap".
TEST_F(MountTest, Root_ShowsExportsThroughThePseudoFileSystem) {
  auto exporting = start_filer({.exports = {"/one/a", "/two"}, .manual_clock = true});
  exporting->make_file("/one/a/file", "in one");
  exporting->make_file("/two/file", "in two");
  TestMount mount(*exporting, {.export_path = "/"});
  EXPECT_EQ(mount.list(""), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(mount.read_file("one/a/file"), "in one");
  EXPECT_EQ(mount.read_file("two/file"), "in two");
  // Inode numbers of different file systems do not collide.
  std::set<uint64_t> inodes;
  for (const char* path : {"one", "one/a", "one/a/file", "two", "two/file"}) {
    EXPECT_TRUE(inodes.insert(mount.stat(path)->ino).second) << path;
  }
  EXPECT_NE(mount.mkdir("not in the pseudo file system"), 0);
}

// Section 5.8.2: maxread, maxwrite and maxname belong to "the file system", so each one below the mount has
// its own.
TEST_F(MountTest, CrossedExport_HasLimitsOfItsOwn) {
  auto exporting = start_filer({.exports = {"/big", "/small"}, .manual_clock = true});
  exporting->set_limits("/small", 4096, 10);
  TestMount mount(*exporting, {.export_path = "/"});
  const std::string text(20'000, 'x');
  ASSERT_EQ(mount.write_file("big/file", text), 0);
  EXPECT_EQ(mount.requests("WRITE"), 1u);
  ASSERT_EQ(mount.write_file("small/file", text), 0);
  EXPECT_EQ(mount.requests("WRITE"), 6u) << "five of at most 4096 bytes";
  const auto file = mount.open("small/file");
  EXPECT_EQ(mount.read(file, 0, text.size()).value_or("error"), text);
  EXPECT_EQ(mount.requests("READ"), 5u);
  mount.close(file);
  EXPECT_EQ(exporting->read_file("/small/file"), text);
  const uint64_t asked = mount.requests("OPEN");
  EXPECT_EQ(errno_of(mount.try_create("small/longer name")), ENAMETOOLONG);
  EXPECT_EQ(mount.requests("OPEN"), asked) << "known without asking";
  EXPECT_EQ(mount.write_file("big/longer name", "x"), 0);
  EXPECT_EQ(mount.run(mount.fs().statfs(mount.user(), mount.node("small")))->name_max, 10u);
}

TEST_F(MountTest, ServerThatIsDown_IsAnErrorOfTheFirstAttempt) {
  server->go_down();
  TestMount mount(*server, {.mount = false});
  EXPECT_EQ(errno_of(mount.mount()), ECONNREFUSED);
  mount.unmount(50ms);
}

TEST_F(MountTest, ServerWithoutTheProtocol_IsAnError) {
  server->faults().add(filer::on::request_with(OP_EXCHANGE_ID), filer::fault::RefuseRpc{[] {
                         rpc::reply_header h;
                         h.accepted = rpc::PROG_MISMATCH;
                         h.mismatch = {2, 3};
                         return h;
                       }()});
  TestMount mount(*server, {.mount = false});
  const auto mounted = mount.mount();
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().errnum, EPROTONOSUPPORT);
  EXPECT_EQ(mounted.error().layer, Layer::kRpc);
  EXPECT_NE(mounted.error().cause.find("2 to 3"), std::string::npos) << mounted.error().cause;
  mount.unmount(50ms);
}

TEST_F(MountTest, ServerOfAnotherMinorVersion_IsAnError) {
  server->faults().add(filer::on::reply_to(OP_EXCHANGE_ID), filer::fault::Mangle{[](ByteVector& reply) {
                         reply.resize(24);
                         xdr::Encoder x(reply);
                         x(COMPOUND4res{NFS4ERR_MINOR_VERS_MISMATCH, {}, {}});
                       }});
  TestMount mount(*server, {.mount = false});
  const auto mounted = mount.mount();
  ASSERT_FALSE(mounted);
  EXPECT_EQ(mounted.error().errnum, EPROTONOSUPPORT) << describe(mounted.error());
  mount.unmount(50ms);
}

TEST_F(MountTest, DeadServer_IsLeftWithinThePatience) {
  TestMount mount(*server);
  EXPECT_EQ(mount.write_file("file", "content"), 0);
  server->go_down();
  mount.abandon_server();
  const TimePoint before = Clock::now();
  EXPECT_FALSE(mount.unmount(200ms));
  EXPECT_LT(Clock::now() - before, 10s);
}

TEST_F(MountTest, DeadServerAndUnwrittenData_IsLeftWithinThePatience) {
  TestMount mount(*server);
  const auto file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, std::string(100'000, 'x')), 0);
  server->go_down();
  mount.abandon_server();
  EXPECT_FALSE(mount.unmount(200ms));
}

// After unmount() the caller may destroy the file system and mount again on the same loops.
TEST_F(MountTest, FarewellThatIsCut_LeavesNothingRunning) {
  server->faults().add(filer::on::request_with(OP_CREATE_SESSION).always(),
                       filer::fault::Answer{OP_CREATE_SESSION, NFS4ERR_SERVERFAULT});
  server->faults().add(filer::on::request_with(OP_DESTROY_CLIENTID).always(), filer::fault::Cut{});
  TestMount mount(*server, {.mount = false});
  EXPECT_FALSE(mount.mount());
  EXPECT_FALSE(mount.unmount(std::chrono::milliseconds(70)));
  Loop& loop = mount.loops()[0];
  EXPECT_EQ(call_on(loop, [&] { return loop.live_tasks(); }), 1u) << "besides the one that asks";
}

TEST_F(MountTest, SmallestGrant_IsEnough) {
  filer::nfs::Options options{.manual_clock = true};
  options.limits.max_slots = 1;
  options.limits.max_request_bytes = 8192;
  options.limits.max_response_bytes = 8192;
  options.limits.max_operations = 8;
  auto small = start_filer(options);
  TestMount mount(*small);
  const std::string text(20'000, 'x');
  EXPECT_EQ(mount.write_file("file", text), 0);
  EXPECT_EQ(mount.read_file("file"), text);
  EXPECT_EQ(mount.mkdir("d"), 0);
  EXPECT_EQ(mount.rename("file", "d/file"), 0);
  EXPECT_EQ(mount.list("d"), std::vector<std::string>{"file"});
  EXPECT_EQ(mount.link("d/file", "second"), 0);
  EXPECT_EQ(mount.stat("second")->nlink, 2u);
}

TEST_F(MountTest, GrantThatIsTooSmall_IsRefusedWithItsNumbers) {
  filer::nfs::Options options{.manual_clock = true};
  options.limits.max_operations = 4;
  auto small = start_filer(options);
  TestMount mount(*small, {.mount = false});
  const auto mounted = mount.mount();
  ASSERT_FALSE(mounted);
  EXPECT_NE(mounted.error().cause.find("4 operations"), std::string::npos) << describe(mounted.error());
  mount.unmount(1s);
}

// An idle mount renews its lease (section 8.3): it sends SEQUENCE within the lease period without any
// request.
TEST_F(MountTest, Idle_RenewsItsLease) {
  auto impatient = start_filer({.lease = 1s, .grace = 1s});
  TestMount mount(*impatient);
  impatient->clear_journal();
  EXPECT_TRUE(impatient->wait_until([](filer::nfs::Core& core) {
    unsigned renewals = 0;
    for (const auto& c : core.journal.log()) renewals += c.ops.size() == 1 && c.has(OP_SEQUENCE);
    return renewals >= 3;
  }));
  EXPECT_EQ(impatient->clients().at(0).lease_expired, false);
}

}  // namespace
}  // namespace nfsrdma::test
