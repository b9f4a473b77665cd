// SPDX-License-Identifier: Apache-2.0
// The session as a mount sees it: loss and recovery, slots, status flags, the back channel.
#include <sstream>

#include "client/nfs4/session/recovery_pace.h"
#include "tests/unit/client/support/captured_log.h"
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using filer::fault::Answer;
namespace on = filer::on;

class SessionLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_file("/export/file", "content");
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }
  void forget_sessions() {
    for (const auto& c : server->clients()) {
      for (const auto& s : c.sessions) server->forget_session(s);
    }
  }
  client::SessionStatistics session() { return mount->fs().statistics().session; }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

// RFC 8881 section 18.46.3: errors of SEQUENCE which mean that the session does not exist, or that client and
// server disagree about its slots. The client creates a new session and sends the request again in it.
TEST_P(SessionLoops, SequenceRefused_IsFollowedByANewSession) {
  for (const nfsstat4 status :
       {NFS4ERR_BADSESSION, NFS4ERR_DEADSESSION, NFS4ERR_SEQ_MISORDERED, NFS4ERR_BADSLOT,
        NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_EXPIRED, NFS4ERR_STALE_CLIENTID}) {
    const auto sessions = session().sessions_created;
    server->faults().add(on::request_with(OP_READ), Answer{OP_SEQUENCE, status});
    EXPECT_EQ(mount->read_file("file"), "content") << name_of(status);
    EXPECT_EQ(session().sessions_created, sessions + 1) << name_of(status);
    ASSERT_EQ(server->clients().size(), 1u);
    EXPECT_EQ(server->clients()[0].sessions.size(), 1u) << "the old one was destroyed";
  }
  EXPECT_EQ(session().client_ids_established, 1u);
}

// nfs-ganesha returns this error for an expired lease, until it has expired the client itself. No stateid is
// meant.
TEST_P(SessionLoops, LeaseThatIsOver_CostsNeitherDataNorLocks) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, client::LockType::kWrite, 0, 9), 0);
  ASSERT_EQ(mount->write(file, 0, "written"), 0);
  server->faults().add(on::request_with(OP_WRITE).times(3), Answer{OP_SEQUENCE, NFS4ERR_EXPIRED});
  EXPECT_EQ(mount->fsync(file), 0);
  EXPECT_EQ(server->read_file("/export/file"), "written");
  EXPECT_EQ(server->executed(OP_OPEN).executed, 1u);
  EXPECT_EQ(mount->lock(file, client::LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(session().client_ids_established, 1u);
}

TEST_P(SessionLoops, SessionForgotten_KeepsOpensAndLocks) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, client::LockType::kWrite, 0, 9), 0);
  const auto states = server->states().size();
  forget_sessions();
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(server->states().size(), states);
  EXPECT_EQ(mount->lock(file, client::LockType::kUnlock), 0);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_TRUE(server->states().empty());
}

TEST_P(SessionLoops, SessionForgottenAgainAndAgain_IsReplacedEachTime) {
  for (int n = 0; n < 10; ++n) {
    forget_sessions();
    EXPECT_EQ(mount->read_file("file"), "content");
  }
  EXPECT_EQ(session().client_ids_established, 1u);
}

// Captures the log, from "info" on.
class LogLines {
 public:
  std::string text() const { return log_.text(); }
  // The number of lines about recovery.
  long about(const std::string& what) const {
    std::istringstream lines(text());
    long n = 0;
    for (std::string line; std::getline(lines, line);) n += line.find(what) != std::string::npos ? 1 : 0;
    return n;
  }

 private:
  CapturedLog log_{spdlog::level::info};
};

// RFC 8881 section 18.46.3: the client creates a session after these errors. It does not say what to do if
// the server returns them at once, again and again.
TEST_P(SessionLoops, SessionsThatEndAtOnce_AreMadeMoreAndMoreSlowly) {
  for (const nfsstat4 status : {NFS4ERR_BADSESSION, NFS4ERR_SEQ_MISORDERED, NFS4ERR_EXPIRED}) {
    LogLines lines;
    const auto sessions = session().sessions_created;
    const TimePoint begin = Clock::now();
    const auto rule =
        server->faults().add(on::request_with(OP_SEQUENCE).always(), Answer{OP_SEQUENCE, status});
    auto found = mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent"));
    EXPECT_TRUE(eventually([&] { return session().sessions_created >= sessions + 4; })) << name_of(status);
    EXPECT_GE(Clock::now() - begin, (1 + 2 + 4) * client::nfs4::RecoveryPace::kFirst) << name_of(status);
    EXPECT_LE(lines.about("server "), 4) << lines.text();
    EXPECT_EQ(lines.about("sessions end as soon as they are made"), 1) << lines.text();
    server->faults().remove(rule);
    EXPECT_TRUE(found.get()) << name_of(status);
    mount.reset();  // the next mount starts fresh
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }
}

// The same for a client ID that is lost as soon as it exists.
TEST_P(SessionLoops, ClientIdsThatEndAtOnce_AreMadeMoreAndMoreSlowly) {
  LogLines lines;
  const auto ids = server->executed(OP_EXCHANGE_ID).executed;
  const TimePoint begin = Clock::now();
  const auto refused = server->faults().add(on::request_with(OP_CREATE_SESSION).always(),
                                            Answer{OP_CREATE_SESSION, NFS4ERR_STALE_CLIENTID});
  forget_sessions();
  auto found = mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent"));
  EXPECT_TRUE(eventually([&] { return server->executed(OP_EXCHANGE_ID).executed >= ids + 8; }));
  EXPECT_GE(Clock::now() - begin, (1 + 2 + 4 + 1 + 2) * 100ms) << "in two recoveries";
  EXPECT_LE(lines.about("server "), 4) << lines.text();
  server->faults().remove(refused);
  EXPECT_TRUE(found.get());
}

TEST_P(SessionLoops, ConnectionThatStaysUnbound_IsMadeMoreAndMoreSlowly) {
  LogLines lines;
  const TimePoint begin = Clock::now();
  const auto accepted = server->faults().add(on::accept().always(), filer::fault::Call{[] {}});
  const auto refused = server->faults().add(on::request_with(OP_LOOKUP).always(),
                                            Answer{OP_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION});
  auto found = mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent"));
  EXPECT_TRUE(server->faults().wait_fired(accepted, 4));
  // A connection that lasted for a second is replaced at once, but no other.
  EXPECT_GE(Clock::now() - begin, (1 + 2 + 4) * 100ms) << lines.text();
  EXPECT_LE(lines.about("server "), 10 * GetParam()) << lines.text();
  server->faults().remove(refused);
  EXPECT_TRUE(found.get());
}

TEST_P(SessionLoops, SessionForgottenUnderManyRequests_AnswersThemAll) {
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 300; ++i) {
    if (i % 100 == 50) forget_sessions();
    lookups.push_back(
        mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent " + std::to_string(i))));
  }
  for (auto& lookup : lookups) {
    const auto entry = lookup.get();
    ASSERT_TRUE(entry) << describe(entry.error());
    EXPECT_FALSE(entry->node);
  }
}

TEST_P(SessionLoops, ClientIdForgotten_IsEstablishedAnew) {
  server->with_core([](filer::nfs::Core& core) {
    std::vector<filer::state::Client*> all;
    core.clients.each_client([&](filer::state::Client& c) { all.push_back(&c); });
    for (filer::state::Client* c : all) core.clients.destroy_client(*c);
  });
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(session().client_ids_established, 2u);
  EXPECT_EQ(server->clients().size(), 1u);
}

// CREATE_SESSION may get the errors that every request may get.
TEST_P(SessionLoops, CreateSessionDelayed_IsAskedAgain) {
  server->faults().add(on::request_with(OP_CREATE_SESSION).times(2),
                       Answer{OP_CREATE_SESSION, NFS4ERR_DELAY});
  forget_sessions();
  EXPECT_EQ(mount->read_file("file"), "content");
}

TEST_P(SessionLoops, ConnectionCutAtEachStepOfRecovery_RecoversAllTheSame) {
  for (const nfs_opnum4 op : {OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_RECLAIM_COMPLETE}) {
    for (const bool executed : {false, true}) {
      server->faults().add(executed ? on::reply_to(op) : on::request_with(op), filer::fault::Cut{});
      server->restart();
      EXPECT_EQ(mount->read_file("file"), "content") << op_name(op) << (executed ? " executed" : "");
      EXPECT_EQ(server->clients().size(), 1u);
    }
  }
}

TEST_P(SessionLoops, ConnectionCut_IsBoundAgainWithItsBackChannel) {
  server->drop_connections();
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_TRUE(server->wait_until([&](filer::nfs::Core& core) {
    bool back = false;
    core.clients.each_session(
        [&](filer::state::Session& s) { back = back || core.back.link_of(s) != nullptr; });
    return back;
  }));
  EXPECT_EQ(session().sessions_created, 1u);
}

// Section 18.46.3: "If SEQUENCE is received on a connection not associated with the session [...] and
// connection association enforcement is enabled [...], then the server returns
// NFS4ERR_CONN_NOT_BOUND_TO_SESSION."
TEST_P(SessionLoops, ConnectionNotBound_IsBound) {
  server->configure([](filer::nfs::Switches& s) { s.enforce_connection_binding = true; });
  server->drop_connections();
  EXPECT_EQ(mount->read_file("file"), "content");
  server->faults().add(on::request_with(OP_READ), Answer{OP_SEQUENCE, NFS4ERR_CONN_NOT_BOUND_TO_SESSION});
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(session().sessions_created, 1u);
}

// Section 2.10.6.2: the server answers the retry of a request "that is still in progress" with NFS4ERR_DELAY
// in SEQUENCE. The slot belongs to that request, whatever else is sent meanwhile.
TEST_P(SessionLoops, RetryOfWhatIsStillExecuted_StaysInItsSlot) {
  server->make_file("/export/from", "text");
  const auto rule = server->faults().add(on::request_with(OP_RENAME), filer::fault::StallInProgress{});
  auto renaming =
      mount->start(mount->fs().rename(mount->user(), mount->root(), "from", mount->root(), "to", 0));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  server->drop_connections();
  // The RENAME is retried and delayed; other requests use the free slots.
  for (int n = 0; n < 20; ++n) ASSERT_EQ(mount->mkdir("d" + std::to_string(n)), 0);
  server->faults().release(rule);
  const auto renamed = renaming.get();
  EXPECT_TRUE(renamed) << describe(renamed.error());
  EXPECT_EQ(server->executed(OP_RENAME).executed, 1u);
  EXPECT_EQ(server->read_file("/export/to"), "text");
  EXPECT_EQ(session().sessions_created, 1u);
}

// Section 18.36.3: the server may cache a smaller reply than we ask for (ca_maxresponsesize_cached), and
// returns an error where it matters.
TEST_P(SessionLoops, ReplyTooBigToBeKept_IsNotAskedToBeKept) {
  server->make_file("/export/from", "text");
  server->faults().add(on::request_with(OP_RENAME), Answer{OP_RENAME, NFS4ERR_REP_TOO_BIG_TO_CACHE});
  EXPECT_EQ(mount->rename("from", "to"), 0);
  EXPECT_EQ(server->read_file("/export/to"), "text");
  EXPECT_EQ(session().sessions_created, 1u);
}

// --- slots ---

TEST_P(SessionLoops, TargetLowered_IsFollowed) {
  server->set_target_slots(2);
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(session().slots_target, 2u);
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 50; ++i) {
    lookups.push_back(
        mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent " + std::to_string(i))));
  }
  for (auto& lookup : lookups) EXPECT_TRUE(lookup.get());
  bool above = false;
  for (const auto& c : server->journal()) above = above || c.sequence.sa_slotid > 1;
  EXPECT_EQ(above, false);
  EXPECT_EQ(session().sessions_created, 1u) << "nothing was refused";
}

TEST_P(SessionLoops, TargetMovedUnderLoad_IsFollowedWithoutARefusal) {
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 400; ++i) {
    if (i % 20 == 0) server->set_target_slots(static_cast<uint32_t>(1 + i % 7));
    lookups.push_back(
        mount->start(mount->fs().lookup(mount->user(), mount->root(), "absent " + std::to_string(i))));
  }
  for (auto& lookup : lookups) EXPECT_TRUE(lookup.get());
  server->set_target_slots(64);
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(session().slots_target, 64u);
  EXPECT_EQ(session().sessions_created, 1u);
}

// Section 2.10.6.1: "the request may have been sent from the requester before the update was received". A
// request that was sent later may have arrived earlier.
TEST_P(SessionLoops, HighSlotNamedAfterItsRetirement_IsNamedNoMore) {
  std::vector<std::future<Result<client::Entry>>> held;
  const auto hold = [&](nfs_opnum4 op, const std::string& name) {
    const auto rule = server->faults().add(on::request_with(op), filer::fault::Stall{});
    if (op == OP_CREATE) {
      held.push_back(mount->start(mount->fs().mkdir(mount->user(), mount->root(), name, 0755)));
    } else {
      held.push_back(mount->start(mount->fs().lookup(mount->user(), mount->root(), name)));
    }
    EXPECT_TRUE(server->faults().wait_fired(rule));
    return rule;
  };
  const auto low = hold(OP_LOOKUP, "absent");
  const auto high = hold(OP_CREATE, "made");  // in a higher slot
  server->faults().release(low);
  EXPECT_TRUE(held[0].get());
  filer::nfs::Callback callback;
  callback.ops = {{CB_RECALL_SLOT4args{1}}};
  const auto id = server->call_back(callback);
  ASSERT_TRUE(id);
  ASSERT_EQ(server->wait_callback(*id).state, filer::nfs::CallbackResult::State::kAnswered);
  server->faults().add(on::request_with(OP_RENAME), Answer{OP_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT});
  EXPECT_EQ(mount->rename("file", "renamed"), 0);
  server->faults().release(high);
  EXPECT_TRUE(held[1].get());
  EXPECT_EQ(server->executed(OP_RENAME).executed, 1u);
  EXPECT_EQ(session().sessions_created, 1u);
}

// The same error for the second transmission of a request that was executed.
TEST_P(SessionLoops, HighSlotNamedByARetry_TheRequestMayHaveBeenExecuted) {
  const auto known = mount->lookup("file");
  ASSERT_TRUE(known);
  const auto rule = server->faults().add(on::request_with(OP_RENAME), filer::fault::Stall{});
  auto renaming =
      mount->start(mount->fs().rename(mount->user(), mount->root(), "file", mount->root(), "renamed", 0));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  filer::nfs::Callback callback;
  callback.ops = {{CB_RECALL_SLOT4args{1}}};
  const auto id = server->call_back(callback);
  ASSERT_TRUE(id);
  ASSERT_EQ(server->wait_callback(*id).state, filer::nfs::CallbackResult::State::kAnswered);
  server->faults().add(on::reply_to(OP_RENAME), filer::fault::Cut{});
  server->faults().add(on::request_with(OP_RENAME), Answer{OP_SEQUENCE, NFS4ERR_BAD_HIGH_SLOT});
  server->faults().release(rule);
  const auto renamed = renaming.get();
  EXPECT_TRUE(renamed) << describe(renamed.error());
  EXPECT_EQ(server->read_file("/export/renamed"), "content");
  EXPECT_EQ(session().sessions_created, 1u);
}

TEST_P(SessionLoops, CallbackRecallsSlots_AreGivenUp) {
  filer::nfs::Callback callback;
  callback.ops = {{CB_RECALL_SLOT4args{3}}};
  const auto id = server->call_back(callback);
  ASSERT_TRUE(id);
  const auto result = server->wait_callback(*id);
  ASSERT_EQ(result.state, filer::nfs::CallbackResult::State::kAnswered) << result.rejected;
  EXPECT_EQ(result.reply.status, NFS4_OK);
  EXPECT_EQ(session().slots_target, 4u);
  EXPECT_EQ(session().callbacks, 1u);
}

// --- the lease ---

// Two credits: one for normal requests, which are all that the server delays here, and one reserved for lease
// renewal.
TEST(LeaseOverRdma, WhileNothingElseGetsACredit_IsRenewed) {
  filer::nfs::Options options;
  options.rdma.listen = true;
  options.rdma.devices = false;
  options.lease = 2s;
  const auto server = start_filer(std::move(options));
  TestMount mount(*server, {.options = [&](client::ClientOptions& o) {
    o.transport = client::TransportKind::kSoftwareRdma;
    o.port = server->rdma_port();
    o.rdma_credits = 2;
  }});
  const auto rule = server->faults().add(on::request_with(OP_LOOKUP), filer::fault::Stall{});
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 4; ++i) {
    lookups.push_back(
        mount.start(mount.fs().lookup(mount.user(), mount.root(), "absent " + std::to_string(i))));
  }
  ASSERT_TRUE(server->faults().wait_fired(rule));
  const auto before = server->executed(OP_SEQUENCE).executed;
  EXPECT_TRUE(server->wait_until(
      [=](filer::nfs::Core& core) { return core.journal.count(OP_SEQUENCE).executed >= before + 3; }));
  server->faults().release(rule);
  for (auto& lookup : lookups) EXPECT_TRUE(lookup.get());
  EXPECT_EQ(mount.fs().statistics().session.sessions_created, 1u);
}

// --- SEQ4_STATUS flags (section 18.46.3) ---

class StatusFlags : public SessionLoops {
 protected:
  // Every SEQUENCE returns `flags` until the client has sent `op` because of it.
  void expect_leads_to(uint32_t flags, nfs_opnum4 op) {
    const auto before = server->executed(op).executed;
    server->configure([=](filer::nfs::Switches& s) { s.extra_status_flags = flags; });
    EXPECT_EQ(mount->read_file("file"), "content");
    EXPECT_TRUE(server->wait_until([=](filer::nfs::Core& core) {
      return core.journal.count(op).executed > before;
    })) << op_name(op);
    server->configure([](filer::nfs::Switches& s) { s.extra_status_flags = 0; });
    EXPECT_EQ(mount->read_file("file"), "content");
  }
};

TEST_P(StatusFlags, CallbackPathDown_BindsTheConnectionAgain) {
  expect_leads_to(SEQ4_STATUS_CB_PATH_DOWN, OP_BIND_CONN_TO_SESSION);
  EXPECT_EQ(session().sessions_created, 1u);
}

TEST_P(StatusFlags, CallbackPathOfTheSessionDown_BindsTheConnectionAgain) {
  expect_leads_to(SEQ4_STATUS_CB_PATH_DOWN_SESSION, OP_BIND_CONN_TO_SESSION);
}

// An old nfs-ganesha replies that the connection is bound, but creates a back channel only with a session.
TEST_P(StatusFlags, CallbackPathThatStaysDown_GetsANewSession_AndThenNoDelegations) {
  mount.reset();
  mount = std::make_unique<TestMount>(
      *server, TestMount::Settings{.loops = GetParam(),
                                   .options = [](client::ClientOptions& o) { o.flags_pause = 5ms; }});
  server->configure([](filer::nfs::Switches& s) {
    s.extra_status_flags = SEQ4_STATUS_CB_PATH_DOWN;
    s.delegations = filer::nfs::Delegations::kReadOrWrite;
  });
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    mount->stat("absent " + std::to_string(n++));
    return !session().back_channel;
  }));
  EXPECT_EQ(session().sessions_created, 2u);
  server->clear_journal();
  EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(mount->fs().statistics().delegations.held_read, 0u);
  EXPECT_EQ(session().sessions_created, 2u) << "not again and again";
}

TEST_P(StatusFlags, BackChannelFault_ReplacesTheSession) {
  expect_leads_to(SEQ4_STATUS_BACKCHANNEL_FAULT, OP_CREATE_SESSION);
}

TEST_P(StatusFlags, FlagsThatStay_AreActedOnMoreAndMoreSlowly) {
  mount.reset();
  mount = std::make_unique<TestMount>(
      *server, TestMount::Settings{.loops = GetParam(),
                                   .options = [](client::ClientOptions& o) { o.flags_pause = 20ms; }});
  LogLines lines;
  server->configure([](filer::nfs::Switches& s) { s.extra_status_flags = SEQ4_STATUS_BACKCHANNEL_FAULT; });
  const TimePoint begin = Clock::now();
  int n = 0;
  EXPECT_TRUE(eventually([&] {
    mount->stat("absent " + std::to_string(n++));
    return session().sessions_created >= 7;
  }));
  EXPECT_GE(Clock::now() - begin, (1 + 2 + 4 + 8 + 16) * 20ms);
  EXPECT_EQ(lines.about("SEQUENCE status flags"), 1) << lines.text();
  server->configure([](filer::nfs::Switches& s) { s.extra_status_flags = 0; });
  EXPECT_EQ(mount->read_file("file"), "content");
}

TEST_P(StatusFlags, ExpiredSome_IsLookedFor) {
  const auto file = mount->open("file");
  expect_leads_to(SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED, OP_TEST_STATEID);
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StatusFlags, ExpiredAll_IsLookedFor) {
  const auto file = mount->open("file");
  expect_leads_to(SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, OP_TEST_STATEID);
  EXPECT_EQ(*mount->read(file), "content");
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StatusFlags, AdminRevoked_IsLookedFor) {
  const auto file = mount->open("file");
  expect_leads_to(SEQ4_STATUS_ADMIN_STATE_REVOKED, OP_TEST_STATEID);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StatusFlags, RecallableRevoked_IsLookedForAmongDelegations) {
  const auto plain = mount->open("file");
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  server->make_file("/export/delegated", "content", 0666);
  const auto file = mount->open("delegated");
  ASSERT_EQ(mount->fs().statistics().delegations.held_read, 1u);
  expect_leads_to(SEQ4_STATUS_RECALLABLE_STATE_REVOKED, OP_TEST_STATEID);
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(mount->close(plain), 0);
  EXPECT_EQ(server->executed(OP_TEST_STATEID).executed, 1u) << "no open is";
}

TEST_P(StatusFlags, ReclaimNeededWithoutEnd_IsReclaimedOnceAndThenWorkedWith) {
  const auto file = mount->open("file");
  expect_leads_to(SEQ4_STATUS_RESTART_RECLAIM_NEEDED, OP_RECLAIM_COMPLETE);
  server->configure(
      [](filer::nfs::Switches& s) { s.extra_status_flags = SEQ4_STATUS_RESTART_RECLAIM_NEEDED; });
  const auto reclaimed = server->executed(OP_RECLAIM_COMPLETE).executed;
  for (int n = 0; n < 20; ++n) EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_LE(server->executed(OP_RECLAIM_COMPLETE).executed, reclaimed + 1);
  EXPECT_EQ(mount->close(file), 0);
}

TEST_P(StatusFlags, WhatConcernsOthers_IsLeftAlone) {
  const auto sessions = session().sessions_created;
  server->configure([](filer::nfs::Switches& s) {
    s.extra_status_flags = SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING | SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED |
                           SEQ4_STATUS_LEASE_MOVED | SEQ4_STATUS_DEVID_CHANGED | SEQ4_STATUS_DEVID_DELETED |
                           0x80000000U;
  });
  for (int n = 0; n < 5; ++n) EXPECT_EQ(mount->read_file("file"), "content");
  EXPECT_EQ(session().sessions_created, sessions);
  EXPECT_EQ(server->connections(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Loops, SessionLoops, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, StatusFlags, testing::Values(1u, 4u));

// --- the back channel against a real server ---

class MountedBackChannel : public testing::Test {
 protected:
  filer::nfs::CallbackResult call(filer::nfs::Callback callback) {
    const auto id = server->call_back(std::move(callback));
    EXPECT_TRUE(id);
    return server->wait_callback(*id);
  }
  filer::nfs::CallbackResult call(nfs_cb_argop4 op) {
    filer::nfs::Callback callback;
    callback.ops = {std::move(op)};
    return call(std::move(callback));
  }
  std::unique_ptr<filer::Server> server = start_filer();
  TestMount mount{*server};
};

// A mount that requests no delegations (`nodelegations`).
class WithoutDelegations : public MountedBackChannel {
 protected:
  TestMount plain{*server, {.options = [](client::ClientOptions& o) { o.delegations = false; }}};
};

TEST_F(MountedBackChannel, Calls_AreAnsweredInOrder) {
  for (int n = 0; n < 20; ++n) {
    const auto result = call({CB_RECALL_ANY4args{0, bitmap4::of({RCA4_TYPE_MASK_RDATA_DLG})}});
    ASSERT_EQ(result.state, filer::nfs::CallbackResult::State::kAnswered);
    EXPECT_EQ(result.reply.status, NFS4_OK);
  }
  EXPECT_EQ(mount.fs().statistics().session.callbacks, 20u);
}

TEST_F(MountedBackChannel, AnotherProgramOrVersion_IsRefusedByRpc) {
  filer::nfs::Callback callback;
  callback.program = 100003;
  EXPECT_NE(call(callback).rejected, "");
  callback = {};
  callback.version = 4;
  EXPECT_NE(call(callback).rejected, "");
}

TEST_F(MountedBackChannel, WithoutASequence_IsRefused) {
  filer::nfs::Callback callback;
  callback.ops = {{CB_RECALL_SLOT4args{0}}};
  callback.without_sequence = true;
  EXPECT_EQ(call(callback).reply.status, NFS4ERR_OP_NOT_IN_SESSION);
}

TEST_F(MountedBackChannel, ReplyLostWithTheConnection_IsSentAgainFromTheCache) {
  const auto compounds = mount.fs().statistics().session.callbacks;
  filer::nfs::Callback callback;
  callback.ops = {{CB_RECALL_SLOT4args{5}}};
  // The connection is lost right after the callback was sent on it. Whether the client got it or not, it is
  // answered exactly once.
  const auto id = server->call_back(callback);
  server->drop_connections();
  EXPECT_EQ(mount.mkdir("d"), 0);
  const auto result = server->wait_callback(*id);
  EXPECT_EQ(result.state, filer::nfs::CallbackResult::State::kAnswered);
  EXPECT_EQ(result.reply.status, NFS4_OK);
  EXPECT_GE(mount.fs().statistics().session.callbacks, compounds + 1);
}

// A delegation that a server grants to a client which wants none is returned at once. The server may recall
// it meanwhile.
TEST_F(WithoutDelegations, DelegationNobodyAskedFor_GoesBackAtOnce) {
  server->make_file("/export/file", "content");
  const nfs_fh4 fh = server->stat("/export/file")->handle;
  stateid4 stateid;
  stateid.seqid = 1;
  stateid.other.fill(std::byte{0xdd});
  server->faults().add(on::reply_to(OP_OPEN), filer::fault::Mangle{[stateid](ByteVector& reply) {
                         xdr::Decoder x(reply);
                         rpc::reply_header header;
                         COMPOUND4res res;
                         ASSERT_TRUE(x(header) && x(res));
                         for (nfs_resop4& op : res.resarray) {
                           if (auto* open = std::get_if<OPEN4res>(&op.op)) {
                             open->resok4.delegation.delegation_type = OPEN_DELEGATE_READ;
                             open->resok4.delegation.stateid = stateid;
                             open->resok4.delegation.permissions.who = "EVERYONE@";
                           }
                         }
                         ByteVector granted;
                         xdr::Encoder out(granted);
                         ASSERT_TRUE(out(header) && out(res));
                         reply = granted;
                       }});
  const auto returning = server->faults().add(on::request_with(OP_DELEGRETURN), filer::fault::Stall{});
  EXPECT_EQ(plain.read_file("file"), "content");
  ASSERT_TRUE(server->faults().wait_fired(returning));
  filer::nfs::Callback recall;
  recall.ops = {{CB_RECALL4args{stateid, false, fh}}};
  const auto id = server->call_back(recall, server->clients().at(1).id);
  ASSERT_TRUE(id);
  EXPECT_EQ(server->wait_callback(*id).reply.status, NFS4_OK);
  server->faults().release(returning);
  EXPECT_TRUE(server->wait_until(
      [](filer::nfs::Core& core) { return core.journal.count(OP_DELEGRETURN).executed == 1; }));
}

TEST_F(WithoutDelegations, ServerThatGrantsWhatIsWanted_IsAskedForNoDelegation) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  server->make_file("/export/read", "content");
  server->make_file("/export/written", "content");
  const std::vector<client::OpenFileRef> files = {plain.open("read"), plain.open("written", O_RDWR),
                                                  plain.create("new")};
  for (const filer::ClientFacts& c : server->clients()) EXPECT_EQ(c.delegations, 0u) << "none is held";
  server->with_core([](filer::nfs::Core& core) {
    EXPECT_EQ(core.journal.count(OP_DELEGRETURN).executed, 0u) << "nor was one given back";
  });
  for (const auto& file : files) EXPECT_EQ(plain.close(file), 0);
}

TEST_F(MountedBackChannel, Garbage_IsAnsweredAndCostsNothingElse) {
  server->make_file("/export/file", "content");
  for (size_t cut = 1; cut < 120; cut += 3) {
    filer::nfs::Callback callback;
    callback.ops = {{CB_RECALL4args{}}};
    callback.edit = [cut](ByteVector& message) {
      message.erase(message.end() - static_cast<ptrdiff_t>(std::min(message.size(), cut)), message.end());
    };
    const auto id = server->call_back(callback);
    if (!id) continue;
    EXPECT_EQ(mount.read_file("file"), "content");
  }
}

}  // namespace
}  // namespace nfsrdma::test
