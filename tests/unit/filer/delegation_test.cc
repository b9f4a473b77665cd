// SPDX-License-Identifier: Apache-2.0
// Delegations, recalls and the back channel (RFC 8881 sections 2.10.6, 10.4, 18.6, 20).

#include <future>

#include "filer/tree/memory_store.h"
#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class DelegationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server({.manual_clock = true});
    server->configure([](nfs::Switches& s) {
      s.delegations = nfs::Delegations::kReadOrWrite;
      s.conflict_wait = {};  // one thread runs both clients
    });
    server->make_file("/export/f", "content", 0666);
    holder = std::make_unique<RawClient>(*server, "holder");
    other = std::make_unique<RawClient>(*server, "other");
    ASSERT_TRUE(holder->establish());
    ASSERT_TRUE(other->establish());
  }
  OPEN4resok open(RawClient& c, uint32_t access) {
    return at<OPEN4res>(c.run_at("/export", ops(c.open_args("f", access))), 0).resok4;
  }
  nfsstat4 try_open(RawClient& c, uint32_t access) {
    return c.run_at("/export", ops(c.open_args("f", access))).status;
  }
  nfsstat4 give_back(RawClient& c, stateid4 id) {
    return c.run_at("/export/f", ops(DELEGRETURN4args{id})).status;
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> holder;
  std::unique_ptr<RawClient> other;
};

TEST_F(DelegationTest, OpensAreAnsweredWithWhatFits) {
  const OPEN4resok read = open(*holder, OPEN4_SHARE_ACCESS_READ);
  ASSERT_EQ(read.delegation.delegation_type, OPEN_DELEGATE_READ);
  EXPECT_EQ(read.delegation.stateid.seqid, 1u);
  const OPEN4resok second = open(*other, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(second.delegation.delegation_type, OPEN_DELEGATE_READ) << "readers share";
  // "the delegation stateid SHOULD be used".
  EXPECT_EQ(holder->read("/export/f", read.delegation.stateid), "content");
  EXPECT_EQ(holder->write("/export/f", read.delegation.stateid, 0, "x").status, NFS4ERR_OPENMODE);
  EXPECT_EQ(give_back(*holder, read.delegation.stateid), NFS4_OK);
  EXPECT_EQ(give_back(*holder, read.delegation.stateid), NFS4ERR_BAD_STATEID);
}

TEST_F(DelegationTest, WithoutBackChannel_NoneIsGiven) {
  RawClient deaf(*server, "deaf");
  deaf.session_request.csa_flags = 0;
  ASSERT_TRUE(deaf.establish());
  EXPECT_EQ(open(deaf, OPEN4_SHARE_ACCESS_READ).delegation.delegation_type, OPEN_DELEGATE_NONE);
}

// "If another client has a delegation of the file being opened that conflicts with open being done ..., the
// delegation(s) MUST be recalled ... one or more NFS4ERR_DELAY errors will be returned".
TEST_F(DelegationTest, ConflictingOpen_RecallsAndWaits) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  ASSERT_EQ(held.delegation.delegation_type, OPEN_DELEGATE_WRITE);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4ERR_DELAY);
  const auto callback = holder->serve_callback();
  ASSERT_TRUE(callback);
  ASSERT_EQ(callback->argarray.size(), 2u);
  const auto& sequence = std::get<CB_SEQUENCE4args>(callback->argarray[0].op);
  EXPECT_EQ(sequence.csa_sessionid, holder->session);
  EXPECT_EQ(sequence.csa_sequenceid, 1u);
  const auto& recall = std::get<CB_RECALL4args>(callback->argarray[1].op);
  EXPECT_TRUE(recall.stateid.same_state(held.delegation.stateid));
  EXPECT_EQ(recall.stateid.seqid, 0u)
      << "the seqid value for a stateid sent ... as part of a callback is required to be zero";
  EXPECT_EQ(recall.fh, holder->handle_of("/export/f"));
  // The client may not have the reply yet that granted the delegation, so the recall refers to that request
  // (section 2.10.6.3).
  ASSERT_EQ(sequence.csa_referring_call_lists.size(), 1u);
  EXPECT_EQ(sequence.csa_referring_call_lists[0].rcl_sessionid, holder->session);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4ERR_DELAY);
  ASSERT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4_OK);
  EXPECT_EQ(server->executed(OP_DELEGRETURN).succeeded, 1u);
}

// "Replying does not complete the recall except when the value of the reply's status field is neither
// NFS4ERR_DELAY nor NFS4_OK" (section 20.2.4). But the delegation still exists, and "servers SHOULD revoke
// delegations that are not returned in a period of time equal to the lease period" (section 10.4.5): until
// then the recall is repeated.
TEST_F(DelegationTest, RecallThatIsRefused_IsSentAgain) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4ERR_DELAY);
  ASSERT_TRUE(holder->serve_callback(NFS4ERR_BAD_STATEID));
  const auto again = holder->serve_callback(NFS4ERR_BADHANDLE);
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::get<CB_RECALL4args>(again->argarray[1].op).stateid.same_state(held.delegation.stateid));
  ASSERT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  EXPECT_FALSE(holder->serve_callback(NFS4_OK, 2500)) << "it is not wanted any more";
}

// "CLAIM_DELEGATE_CUR: ... as part of recalling a delegation".
TEST_F(DelegationTest, OpensUnderADelegation_AreHandedOver) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  OPEN4args args = holder->open_args("", OPEN4_SHARE_ACCESS_BOTH, 0, "local owner");
  args.claim.claim = CLAIM_DELEG_CUR_FH;
  args.claim.delegate_stateid = held.delegation.stateid;
  EXPECT_EQ(holder->run_at("/export/f", ops(args)).status, NFS4_OK);
  args.claim.delegate_stateid = held.stateid;
  EXPECT_EQ(holder->run_at("/export/f", ops(args)).status, NFS4ERR_BAD_STATEID) << "an open is no delegation";
}

TEST_F(DelegationTest, OtherConflicts_RecallToo) {
  for (const char* what : {"write", "remove", "rename", "setattr", "link", "getattr"}) {
    server->make_file("/export/x", "x", 0666);
    const auto access = std::string(what) == "getattr" ? OPEN4_SHARE_ACCESS_BOTH : OPEN4_SHARE_ACCESS_READ;
    const COMPOUND4res opened = holder->run_at("/export", ops(holder->open_args("x", access)));
    const OPEN4resok& held = at<OPEN4res>(opened, 0).resok4;
    ASSERT_TRUE(held.delegation.granted()) << what;
    const auto attempt = [&]() -> nfsstat4 {
      const std::string w = what;
      if (w == "write") return other->write("/export/x", {}, 0, "y").status;
      if (w == "remove") return other->run_at("/export", ops(REMOVE4args{"x"})).status;
      if (w == "rename") return other->run_at("/export", ops(SAVEFH4args{}, RENAME4args{"x", "z"})).status;
      if (w == "link") {
        return other
            ->run(path_ops("/export/x") + ops(SAVEFH4args{}) + path_ops("/export") + ops(LINK4args{"z"}))
            .status;
      }
      if (w == "getattr")
        return other->run_at("/export/x", ops(GETATTR4args{bitmap4::of({FATTR4_SIZE})})).status;
      fattr4 mode;
      mode.attrmask = bitmap4::of({FATTR4_MODE});
      mode.mode = 0600;
      return other->run_at("/export/x", ops(SETATTR4args{{}, mode})).status;
    };
    EXPECT_EQ(attempt(), NFS4ERR_DELAY) << what;
    EXPECT_TRUE(holder->serve_callback()) << what;
    EXPECT_EQ(holder
                  ->run(ops(PUTFH4args{server->stat("/export/x")->handle},
                            DELEGRETURN4args{held.delegation.stateid}))
                  .status,
              NFS4_OK)
        << what;
    EXPECT_EQ(attempt(), NFS4_OK) << what;
    holder->run(ops(PUTFH4args{holder->handle_of("/export")}));
    server->remove_file("/export/x");
    server->remove_file("/export/z");
  }
}

// Section 20.1.3: "The CB_GETATTR operation is used by the server to obtain the current modified state of a
// file that has been OPEN_DELEGATE_WRITE delegated." Section 10.4.3: "If the change attribute" is the one
// that the holder was given, "the file has not been modified".
class AskedHolder : public DelegationTest {
 protected:
  void SetUp() override {
    DelegationTest::SetUp();
    held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
    ASSERT_EQ(held.delegation.delegation_type, OPEN_DELEGATE_WRITE);
    given = attributes(*holder)->change;
  }
  // nullopt: NFS4ERR_DELAY.
  std::optional<fattr4> attributes(RawClient& c) {
    const COMPOUND4res res = c.run_at(
        "/export/f", ops(GETATTR4args{bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE, FATTR4_TIME_MODIFY})}));
    if (res.status == NFS4ERR_DELAY) return std::nullopt;
    EXPECT_EQ(res.status, NFS4_OK);
    return at<GETATTR4res>(res, 0).resok4.obj_attributes;
  }
  fattr4 told(uint64_t size, uint64_t change) {
    fattr4 a;
    a.attrmask = bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE});
    a.size = size;
    a.change = change;
    return a;
  }
  OPEN4resok held;
  uint64_t given = 0;
};

TEST_F(AskedHolder, WithoutModifiedData_KeepsTheDelegation) {
  EXPECT_FALSE(attributes(*other)) << "it is being asked";
  holder->delegated = told(99, given);
  const auto callback = holder->serve_callback();
  ASSERT_TRUE(callback);
  const auto& asked = std::get<CB_GETATTR4args>(callback->argarray.at(1).op);
  EXPECT_EQ(asked.fh, holder->handle_of("/export/f"));
  EXPECT_EQ(asked.attr_request, bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE}));
  const auto answer = attributes(*other);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size, 7u) << "the server's own";
  EXPECT_EQ(answer->change, given);
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK) << "it was not recalled";
}

// "the server ... updates the change attribute and time_modify", again with each answer of the holder, so
// that no value describes two contents.
TEST_F(AskedHolder, WithModifiedData_GivesTheSizeAndMovesTheChange) {
  uint64_t last = given;
  for (const uint64_t size : {20u, 30u}) {
    EXPECT_FALSE(attributes(*other));
    holder->delegated = told(size, given + 1);
    ASSERT_TRUE(holder->serve_callback());
    const auto answer = attributes(*other);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->size, size);
    EXPECT_GT(answer->change, last);
    last = answer->change;
  }
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
}

TEST_F(AskedHolder, ThatCannotAnswer_HasItRecalled) {
  EXPECT_FALSE(attributes(*other));
  ASSERT_TRUE(holder->serve_callback()) << "refused";
  EXPECT_FALSE(attributes(*other));
  const auto recall = holder->serve_callback();
  ASSERT_TRUE(recall);
  EXPECT_TRUE(std::holds_alternative<CB_RECALL4args>(recall->argarray.at(1).op));
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  EXPECT_TRUE(attributes(*other));
}

TEST_F(AskedHolder, ThatSaysNothing_HasItRecalled) {
  EXPECT_FALSE(attributes(*other));
  server->advance_clock(std::chrono::seconds(3));
  EXPECT_FALSE(attributes(*other));
  ASSERT_TRUE(holder->serve_callback()) << "the question, late";
  const auto recall = holder->serve_callback();
  ASSERT_TRUE(recall);
  EXPECT_TRUE(std::holds_alternative<CB_RECALL4args>(recall->argarray.at(1).op));
}

// RFC 8881 section 15.1.1.3: NFS4ERR_DELAY is for what "the server is not able to" do "in a timely fashion".
// If the holder answers at once, the other client does not get NFS4ERR_DELAY.
class WaitedFor : public AskedHolder {
 protected:
  void SetUp() override {
    AskedHolder::SetUp();
    server->configure([](nfs::Switches& s) { s.conflict_wait = std::chrono::seconds(60); });
  }
  size_t delayed() {
    const std::vector<nfs::ExecutedCompound> all = server->journal();
    return static_cast<size_t>(std::ranges::count(all, NFS4ERR_DELAY, &nfs::ExecutedCompound::status));
  }
};

TEST_F(WaitedFor, Open_GoesOnWhenTheDelegationIsReturned) {
  auto opened = std::async(std::launch::async, [&] { return try_open(*other, OPEN4_SHARE_ACCESS_READ); });
  const auto recall = holder->serve_callback();
  ASSERT_TRUE(recall);
  EXPECT_TRUE(std::holds_alternative<CB_RECALL4args>(recall->argarray.at(1).op));
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  EXPECT_EQ(opened.get(), NFS4_OK);
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(other->read("/export/f"), "content") << "the slot has moved by one, as if nothing had been";
}

TEST_F(WaitedFor, Attributes_AreAnsweredWithWhatTheHolderSays_ToAllWhoAsked) {
  RawClient third(*server, "third");
  ASSERT_TRUE(third.establish());
  holder->delegated = told(20, given + 1);
  auto one = std::async(std::launch::async, [&] { return attributes(*other); });
  auto two = std::async(std::launch::async, [&] { return attributes(third); });
  ASSERT_TRUE(server->wait_until([](nfs::Core& core) {
    size_t in_progress = 0;
    core.clients.each_session([&](state::Session& s) {
      for (const state::Slot& slot : s.slots) in_progress += slot.in_progress ? 1 : 0;
    });
    return in_progress == 2;
  }));
  ASSERT_TRUE(holder->serve_callback());
  for (auto* asked : {&one, &two}) {
    const auto answer = asked->get();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->size, 20u);
  }
  EXPECT_EQ(delayed(), 0u);
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK) << "it was not recalled";
}

// A client that always gets NFS4ERR_DELAY might never call while the holder's answer is valid.
TEST_F(WaitedFor, WhoeverAsksLater_HasTheHolderAskedAgain) {
  for (const uint64_t size : {20u, 30u}) {
    holder->delegated = told(size, given + 1);
    auto asked = std::async(std::launch::async, [&] { return attributes(*other); });
    ASSERT_TRUE(holder->serve_callback());
    const auto answer = asked.get();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->size, size);
  }
}

TEST_F(WaitedFor, NotForEver) {
  server->configure([](nfs::Switches& s) { s.conflict_wait = std::chrono::milliseconds(20); });
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4ERR_DELAY) << "the holder does not return it";
  ASSERT_TRUE(holder->serve_callback());
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_READ), NFS4_OK);
}

// Each waiting call keeps its message: with 256 of them, the next gets NFS4ERR_DELAY at once.
TEST_F(WaitedFor, NoMoreThanThereIsRoomFor) {
  constexpr size_t kMostHeldBack = 256;
  std::vector<std::unique_ptr<RawClient>> crowd;
  const Ops asking = path_ops("/export/f") + ops(GETATTR4args{bitmap4::of({FATTR4_SIZE})});
  for (size_t sent = 0; sent < kMostHeldBack;) {
    crowd.push_back(std::make_unique<RawClient>(*server, "waiting " + std::to_string(crowd.size())));
    ASSERT_TRUE(crowd.back()->establish());
    const uint32_t slots = crowd.back()->session_attributes.csr_fore_chan_attrs.ca_maxrequests;
    for (uint32_t slot = 0; slot < slots && sent < kMostHeldBack; ++slot, ++sent)
      crowd.back()->send(ops(crowd.back()->next_sequence(slot)) + asking);
  }
  ASSERT_TRUE(server->wait_until([](nfs::Core& core) {
    size_t in_progress = 0;
    core.clients.each_session([&](state::Session& s) {
      for (const state::Slot& slot : s.slots) in_progress += slot.in_progress ? 1 : 0;
    });
    return in_progress == kMostHeldBack;
  }));
  EXPECT_EQ(delayed(), 0u);
  EXPECT_FALSE(attributes(*other)) << "it would have to wait longer than this client does";
  EXPECT_EQ(delayed(), 1u);
}

// Earlier operations of its COMPOUND are not executed twice.
TEST_F(WaitedFor, InTheMiddleOfItsCompound) {
  const ByteVector data(1, std::byte{'x'});
  auto written = std::async(std::launch::async, [&] {
    return other->run(path_ops("/export") + ops(CREATE4args{{NF4DIR, {}, {}}, "dir", {}}) +
                      path_ops("/export/f") + ops(WRITE4args{{}, 0, FILE_SYNC4, data}, GETFH4args{}));
  });
  ASSERT_TRUE(holder->serve_callback());
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
  const COMPOUND4res res = written.get();
  EXPECT_EQ(res.status, NFS4_OK) << name_of(res.status);
  EXPECT_EQ(server->executed(OP_CREATE).succeeded, 1u);
}

TEST_F(DelegationTest, OwnOperations_DoNotRecall) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(holder->write("/export/f", {}, 0, "x").status, NFS4_OK);
  EXPECT_EQ(give_back(*holder, held.delegation.stateid), NFS4_OK);
}

// "a recallable lock ... was not returned within the lease period after having been recalled": DELEG_REVOKED
// and SEQ4_STATUS_RECALLABLE_STATE_REVOKED.
TEST_F(DelegationTest, UnheededRecall_EndsInRevocation) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_WRITE), NFS4ERR_DELAY);
  ASSERT_TRUE(holder->serve_callback());
  server->advance_clock(std::chrono::seconds(60));
  EXPECT_EQ(holder->run({}).status, NFS4_OK);
  EXPECT_EQ(other->run({}).status, NFS4_OK);
  server->advance_clock(std::chrono::seconds(60));
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_WRITE), NFS4_OK);
  EXPECT_EQ(holder->run_at("/export/f", ops(READ4args{held.delegation.stateid, 0, 1})).status,
            NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(holder->last_flags, SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  EXPECT_EQ(holder->run(ops(FREE_STATEID4args{held.delegation.stateid})).status, NFS4_OK);
}

// Another client has used the file since. The former holder may not reclaim the delegation after a restart,
// unless it has acknowledged the loss (FREE_STATEID).
TEST_F(DelegationTest, WhoDidNotHeedARecall_MayNotReclaimInTheNextRun) {
  const auto may_reclaim = [&] {
    bool may = false;
    server->with_core(
        [&](nfs::Core& core) { may = core.recovery.reclaimers(core.clients).contains("holder"); });
    return may;
  };
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_WRITE), NFS4ERR_DELAY);
  for (int times = 0; times < 2; ++times) {
    EXPECT_TRUE(may_reclaim());
    server->advance_clock(std::chrono::seconds(60));
    EXPECT_EQ(holder->run({}).status, NFS4_OK);
    EXPECT_EQ(other->run({}).status, NFS4_OK);
  }
  EXPECT_FALSE(may_reclaim());
  EXPECT_EQ(holder->run(ops(FREE_STATEID4args{held.delegation.stateid})).status, NFS4_OK);
  EXPECT_TRUE(may_reclaim());
}

// A file that the holder removes exists until DELEGRETURN, which needs its filehandle.
TEST_F(DelegationTest, OfARemovedFile_CanBeGivenBack) {
  const nfs_fh4 file = holder->handle_of("/export/f");
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  ASSERT_EQ(holder->run(ops(PUTFH4args{file}, CLOSE4args{0, held.stateid})).status, NFS4_OK);
  ASSERT_EQ(holder->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4_OK);
  EXPECT_EQ(holder->run(ops(PUTFH4args{file}, DELEGRETURN4args{held.delegation.stateid})).status, NFS4_OK);
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(holder->run(ops(PUTFH4args{file}, GETATTR4args{})).status, NFS4ERR_STALE);
}

// A revoked state stays until its client acknowledges it, but the file's data does not.
TEST_F(DelegationTest, RevokedOfARemovedFile_KeepsNoData) {
  open(*holder, OPEN4_SHARE_ACCESS_READ);
  tree::NodePtr node;
  server->with_core([&](nfs::Core& core) {
    core.states.each([&](state::State& state) {
      node = state.node;
      core.revoke(state);
    });
  });
  ASSERT_NE(static_cast<const tree::MemoryNode&>(*node).data.allocated_bytes(), 0u);
  ASSERT_EQ(other->run_at("/export", ops(REMOVE4args{"f"})).status, NFS4_OK);
  EXPECT_FALSE(server->states().empty());
  EXPECT_EQ(static_cast<const tree::MemoryNode&>(*node).data.allocated_bytes(), 0u);
}

TEST_F(DelegationTest, AFaultRecallsAll) {
  open(*holder, OPEN4_SHARE_ACCESS_READ);
  open(*other, OPEN4_SHARE_ACCESS_READ);
  server->faults().add(on::any_request(), fault::Recall{});
  EXPECT_EQ(holder->run({}).status, NFS4_OK);
  for (RawClient* c : {holder.get(), other.get()}) {
    const auto callback = c->serve_callback();
    ASSERT_TRUE(callback);
    EXPECT_TRUE(std::holds_alternative<CB_RECALL4args>(callback->argarray[1].op));
  }
}

TEST_F(DelegationTest, AFaultRevokesAll) {
  const OPEN4resok held = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  server->faults().add(on::reply_to(OP_GETATTR), fault::Revoke{});
  EXPECT_EQ(holder->run_at("/export/f", ops(GETATTR4args{})).status, NFS4_OK);
  EXPECT_EQ(holder->run_at("/export/f", ops(READ4args{held.delegation.stateid, 0, 1})).status,
            NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(holder->last_flags, SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
}

// "the server ... MUST retry the callback operation over the same session": same slot and sequence ID.
TEST_F(DelegationTest, RecallOverALostConnection_IsSentAgain) {
  open(*holder, OPEN4_SHARE_ACCESS_READ);
  EXPECT_EQ(try_open(*other, OPEN4_SHARE_ACCESS_WRITE), NFS4ERR_DELAY);
  holder->reconnect();
  ASSERT_TRUE(server->wait_until([](nfs::Core& core) {
    bool waiting = false;
    core.clients.each_session([&](state::Session& s) { waiting = waiting || core.back.waiting(s); });
    return waiting;
  }));
  ASSERT_EQ(holder->run({}).status, NFS4_OK);
  EXPECT_EQ(holder->last_flags & SEQ4_STATUS_CB_PATH_DOWN_SESSION, SEQ4_STATUS_CB_PATH_DOWN_SESSION);
  holder->call(ops(BIND_CONN_TO_SESSION4args{holder->session, CDFC4_FORE_OR_BOTH, false}));
  const auto callback = holder->serve_callback();
  ASSERT_TRUE(callback);
  EXPECT_EQ(std::get<CB_SEQUENCE4args>(callback->argarray[0].op).csa_sequenceid, 1u);
  EXPECT_TRUE(std::holds_alternative<CB_RECALL4args>(callback->argarray[1].op));
}

TEST_F(DelegationTest, DelayedAnswer_MakesTheServerAskAgain) {
  open(*holder, OPEN4_SHARE_ACCESS_READ);
  ASSERT_EQ(server->recall("/export/f"), 1u);
  const auto first = holder->serve_callback(NFS4ERR_DELAY);
  const auto second = holder->serve_callback();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(std::get<CB_SEQUENCE4args>(first->argarray[0].op).csa_sequenceid, 1u);
  EXPECT_EQ(std::get<CB_SEQUENCE4args>(second->argarray[0].op).csa_sequenceid, 2u)
      << "CB_SEQUENCE was answered with NFS4_OK, so the slot has moved";
}

// --- delegations and restart, section 10.2.1 ---

TEST_F(DelegationTest, Delegation_IsReclaimedWithItsOpen) {
  open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  server->restart();
  holder->reconnect();
  ASSERT_TRUE(holder->establish(false));
  OPEN4args args = holder->open_args("", OPEN4_SHARE_ACCESS_BOTH);
  args.claim.claim = CLAIM_PREVIOUS;
  args.claim.delegate_type = OPEN_DELEGATE_WRITE;
  const COMPOUND4res reply = holder->run_at("/export/f", ops(args));
  ASSERT_EQ(reply.status, NFS4_OK);
  // "In this case, delegation will always be granted".
  EXPECT_EQ(at<OPEN4res>(reply, 0).resok4.delegation.delegation_type, OPEN_DELEGATE_WRITE);
}

// The other client's successful reclaim shows that the delegation was gone.
TEST_F(DelegationTest, AgainstAReclaimedOpenOfAnother_IsNotReclaimed) {
  server->restart();
  // As stored records are: they name clients, not their state.
  server->with_core([](nfs::Core& core) { core.recovery.remember({"holder", "other"}); });
  for (RawClient* c : {other.get(), holder.get()}) {
    c->reconnect();
    ASSERT_TRUE(c->establish(false));
    OPEN4args args = c->open_args("", OPEN4_SHARE_ACCESS_BOTH);
    args.claim.claim = CLAIM_PREVIOUS;
    args.claim.delegate_type = c == holder.get() ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_NONE;
    const COMPOUND4res reply = c->run_at("/export/f", ops(args));
    ASSERT_EQ(reply.status, NFS4_OK);
    EXPECT_EQ(at<OPEN4res>(reply, 0).resok4.delegation.delegation_type, OPEN_DELEGATE_NONE);
  }
}

TEST_F(DelegationTest, DelegationNeverHeld_CannotBeReclaimed) {
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kNever; });
  open(*holder, OPEN4_SHARE_ACCESS_READ);
  server->restart();
  holder->reconnect();
  ASSERT_TRUE(holder->establish(false));
  OPEN4args args = holder->open_args("", OPEN4_SHARE_ACCESS_READ);
  args.claim.claim = CLAIM_PREVIOUS;
  args.claim.delegate_type = OPEN_DELEGATE_READ;
  EXPECT_EQ(holder->run_at("/export/f", ops(args)).status, NFS4ERR_RECLAIM_BAD);
}

// --- callbacks that tests make ---

TEST_F(DelegationTest, CallbacksOfTests_ReturnTheAnswer) {
  nfs::Callback slot;
  slot.ops.push_back({CB_RECALL_SLOT4args{3}});
  const auto id = server->call_back(slot, holder->clientid);
  ASSERT_TRUE(id);
  ASSERT_TRUE(holder->serve_callback());
  const nfs::CallbackResult result = server->wait_callback(*id);
  ASSERT_EQ(result.state, nfs::CallbackResult::State::kAnswered);
  EXPECT_TRUE(result.rejected.empty());
  ASSERT_EQ(result.reply.resarray.size(), 2u);
  EXPECT_EQ(std::get<CB_RECALL_SLOT4res>(result.reply.resarray[1].op).status, NFS4_OK);
}

TEST_F(DelegationTest, OverriddenSequence_DoesNotMoveTheSlot) {
  nfs::Callback wrong;
  wrong.sequence = 17;
  wrong.ops.push_back({CB_RECALL_ANY4args{0, {}}});
  const auto id = server->call_back(wrong, holder->clientid);
  const auto seen = holder->serve_callback();
  ASSERT_TRUE(id && seen);
  EXPECT_EQ(std::get<CB_SEQUENCE4args>(seen->argarray[0].op).csa_sequenceid, 17u);
  server->wait_callback(*id);
  nfs::Callback right;
  right.ops.push_back({CB_RECALL_ANY4args{0, {}}});
  server->call_back(right, holder->clientid);
  const auto next = holder->serve_callback();
  ASSERT_TRUE(next);
  EXPECT_EQ(std::get<CB_SEQUENCE4args>(next->argarray[0].op).csa_sequenceid, 1u);
}

TEST_F(DelegationTest, DeniedLock_IsAnnouncedWhenItIsFree) {
  server->configure([](nfs::Switches& s) {
    s.notify_locks = true;
    s.delegations = nfs::Delegations::kNever;
  });
  const auto lock = [](RawClient& c, stateid4 open) {
    return at<LOCK4res>(c.run_at("/export/f", ops(first_lock(open, WRITEW_LT, 0, 10, "waiter"))), 0);
  };
  const OPEN4resok mine = open(*holder, OPEN4_SHARE_ACCESS_BOTH);
  EXPECT_NE(mine.rflags & OPEN4_RESULT_MAY_NOTIFY_LOCK, 0u);
  const stateid4 theirs = open(*other, OPEN4_SHARE_ACCESS_BOTH).stateid;
  const stateid4 held = lock(*holder, mine.stateid).resok4.lock_stateid;
  EXPECT_EQ(lock(*other, theirs).status, NFS4ERR_DENIED);
  EXPECT_EQ(holder->run_at("/export/f", ops(LOCKU4args{WRITE_LT, 0, held, 0, 10})).status, NFS4_OK);
  const auto callback = other->serve_callback();
  ASSERT_TRUE(callback);
  const auto& notify = std::get<CB_NOTIFY_LOCK4args>(callback->argarray[1].op);
  EXPECT_EQ(notify.cnla_lock_owner.owner, "waiter");
  EXPECT_EQ(lock(*other, theirs).status, NFS4_OK);
}

}  // namespace
}  // namespace nfsrdma::filer::test
