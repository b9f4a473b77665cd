// SPDX-License-Identifier: Apache-2.0
// Stateids of all forms in all operations that take one, and edge cases of opens, locks and recalls (RFC 8881
// sections 8.2, 9, 10, 18).

#include <functional>

#include "tests/unit/filer/two_clients.h"

namespace nfsrdma::filer::test {
namespace {

using std::chrono::seconds;

struct Taker {
  const char* what;
  std::function<Ops(stateid4)> request;
  unsigned kinds;  // allowed kinds, a mask of StateKind; 0: special stateids too
};

SETATTR4args set_size(stateid4 id) {
  SETATTR4args args;
  args.stateid = id;
  args.obj_attributes.attrmask.set(FATTR4_SIZE);
  args.obj_attributes.size = 7;
  return args;
}
WRITE4args empty_write(stateid4 id) {
  WRITE4args args;
  args.stateid = id;
  args.stable = FILE_SYNC4;
  return args;
}
LOCK4args lock(stateid4 id, bool first) {
  LOCK4args args;
  args.locktype = WRITE_LT;
  args.length = 1;
  args.locker.new_lock_owner = first;
  args.locker.stateid = id;
  args.locker.lock_owner = {0, "locker"};
  return args;
}

const std::vector<Taker>& takers() {
  constexpr unsigned kOpen = mask(state::StateKind::kOpen);
  constexpr unsigned kLock = mask(state::StateKind::kLock);
  static const std::vector<Taker> kTakers = {
      {"READ",
       [](stateid4 id) {
         return ops(READ4args{id, 0, 4});
       },
       0},
      {"WRITE", [](stateid4 id) { return ops(empty_write(id)); }, 0},
      {"SETATTR", [](stateid4 id) { return ops(set_size(id)); }, 0},
      {"OPEN_DOWNGRADE",
       [](stateid4 id) {
         return ops(OPEN_DOWNGRADE4args{id, 0, OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_DENY_NONE});
       },
       kOpen},
      {"LOCK first", [](stateid4 id) { return ops(lock(id, true)); }, kOpen},
      {"LOCK more", [](stateid4 id) { return ops(lock(id, false)); }, kLock},
      {"LOCKU",
       [](stateid4 id) {
         return ops(LOCKU4args{WRITE_LT, 0, id, 5, 1});
       },
       kLock},
      {"DELEGRETURN", [](stateid4 id) { return ops(DELEGRETURN4args{id}); },
       mask(state::StateKind::kDelegation)},
      {"CLOSE",
       [](stateid4 id) {
         return ops(CLOSE4args{0, id});
       },
       kOpen},
  };
  return kTakers;
}

class StateidsTest : public TwoClientsTest {
 protected:
  static nfsstat4 at_f(RawClient& client, const Ops& request) {
    return client.run_at("/export/f", request).status;
  }
  stateid4 first_lock(RawClient& client, stateid4 open) {
    const COMPOUND4res reply = client.run_at("/export/f", ops(lock(open, true)));
    EXPECT_EQ(reply.status, NFS4_OK);
    return at<LOCK4res>(reply, 0).resok4.lock_stateid;
  }
};

// Section 8.2.3: the special stateids "have the same meaning" for READ, WRITE and SETATTR; anywhere else they
// are NFS4ERR_BAD_STATEID. Other stateids with a reserved "other" are always bad.
TEST_F(StateidsTest, SpecialOnes_AreForDataOnly) {
  for (const Taker& taker : takers()) {
    const nfsstat4 data = taker.kinds == 0 ? NFS4_OK : NFS4ERR_BAD_STATEID;
    EXPECT_EQ(at_f(*one, taker.request(kAnonymousStateid)), data) << taker.what;
    EXPECT_EQ(at_f(*one, taker.request(kReadBypassStateid)), data) << taker.what;
    for (const stateid4& bad :
         {kCurrentStateid, kInvalidStateid, stateid4{7, kAnonymousStateid.other},
          stateid4{0, kReadBypassStateid.other}, stateid4{1, kReadBypassStateid.other}}) {
      EXPECT_EQ(at_f(*one, taker.request(bad)), NFS4ERR_BAD_STATEID) << taker.what << " " << bad.seqid;
    }
  }
}

// Section 8.2.4: a stateid of another client or file, with a future seqid, unknown, or of another kind is
// NFS4ERR_BAD_STATEID; with an old seqid it is NFS4ERR_OLD_STATEID.
TEST_F(StateidsTest, OnesThatDoNotFit_AreBad) {
  for (const Taker& taker : takers()) {
    const stateid4 open = one->open("/export/f");
    const stateid4 upgraded = one->open("/export/f");
    const stateid4 elsewhere = one->open("/export/g");
    const stateid4 locked = first_lock(*one, upgraded);
    const bool takes_open = taker.kinds == 0 || (taker.kinds & mask(state::StateKind::kOpen)) != 0;
    const bool takes_lock = taker.kinds == 0 || (taker.kinds & mask(state::StateKind::kLock)) != 0;
    stateid4 future = upgraded;
    future.seqid += 5;
    stateid4 nowhere = upgraded;
    nowhere.other[11] ^= std::byte{0x55};
    EXPECT_EQ(at_f(*one, taker.request(future)), NFS4ERR_BAD_STATEID) << taker.what;
    EXPECT_EQ(at_f(*one, taker.request(nowhere)), NFS4ERR_BAD_STATEID) << taker.what;
    EXPECT_EQ(at_f(*one, taker.request(elsewhere)), NFS4ERR_BAD_STATEID) << taker.what;
    EXPECT_EQ(at_f(*two, taker.request(upgraded)), NFS4ERR_BAD_STATEID) << taker.what;
    EXPECT_EQ(at_f(*one, taker.request(open)), takes_open ? NFS4ERR_OLD_STATEID : NFS4ERR_BAD_STATEID)
        << taker.what;
    if (!takes_lock) {
      EXPECT_EQ(at_f(*one, taker.request(locked)), NFS4ERR_BAD_STATEID) << taker.what;
    }
    // "a seqid value of zero is to be treated as being the current one".
    if (takes_open) {
      EXPECT_EQ(at_f(*one, taker.request({0, upgraded.other})), NFS4_OK) << taker.what;
    }
    if (taker.what != std::string_view("CLOSE"))
      one->run_at("/export/f", ops(CLOSE4args{0, {0, upgraded.other}}));
    one->run_at("/export/g", ops(CLOSE4args{0, elsewhere}));
    EXPECT_EQ(at_f(*one, taker.request(upgraded)), NFS4ERR_BAD_STATEID) << taker.what << " after CLOSE";
    EXPECT_TRUE(server->states().empty());
  }
}

// Only operations that could have used the stateid report why it was revoked; others return
// NFS4ERR_BAD_STATEID.
TEST_F(StateidsTest, RevokedOnes_SaySoWhereTheyBelong) {
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kRead; });
  OPEN4args want = one->open_args("f", OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  const COMPOUND4res reply = one->run_at("/export", ops(want));
  const OPEN4resok held = at<OPEN4res>(reply, 0).resok4;
  ASSERT_EQ(held.delegation.delegation_type, OPEN_DELEGATE_READ);
  EXPECT_EQ(two->run_at("/export", ops(two->open_args("f"))).status, NFS4ERR_DELAY);
  server->advance_clock(seconds(50));
  one->run({});
  two->run({});
  server->advance_clock(seconds(50));
  const stateid4 lost = held.delegation.stateid;
  EXPECT_EQ(at_f(*one, ops(READ4args{lost, 0, 4})), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(at_f(*one, ops(DELEGRETURN4args{lost})), NFS4ERR_DELEG_REVOKED);
  EXPECT_EQ(at_f(*one, ops(CLOSE4args{0, lost})), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(at_f(*one, ops(lock(lost, true))), NFS4ERR_BAD_STATEID);
  const COMPOUND4res tested = one->run(ops(TEST_STATEID4args{{lost, held.stateid, kAnonymousStateid, {}}}));
  EXPECT_EQ(
      at<TEST_STATEID4res>(tested, 0).resok4.tsr_status_codes,
      (std::vector<nfsstat4>{NFS4ERR_DELEG_REVOKED, NFS4_OK, NFS4ERR_BAD_STATEID, NFS4ERR_BAD_STATEID}));
  EXPECT_EQ(one->last_flags & SEQ4_STATUS_RECALLABLE_STATE_REVOKED, SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{lost})).status, NFS4_OK);
  one->run({});
  EXPECT_EQ(one->last_flags & SEQ4_STATUS_RECALLABLE_STATE_REVOKED, 0u);
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{lost})).status, NFS4ERR_BAD_STATEID);
}

// --- data at the ends of the range ---

// "If the count is zero, the READ will succeed and return zero bytes", at any offset. A WRITE beyond the
// largest file is NFS4ERR_FBIG. COMMIT accepts any range.
TEST_F(StateidsTest, DataAtTheEndOfTheNumbers) {
  const stateid4 open = one->open("/export/f");
  for (const uint64_t offset : {uint64_t{7}, uint64_t{1} << 62, UINT64_MAX}) {
    for (const uint32_t count : {0u, 1u, UINT32_MAX}) {
      const COMPOUND4res reply = one->run_at("/export/f", ops(READ4args{open, offset, count}));
      ASSERT_EQ(reply.status, NFS4_OK) << offset;
      EXPECT_TRUE(at<READ4res>(reply, 0).resok4.eof) << offset;
      EXPECT_TRUE(at<READ4res>(reply, 0).resok4.data.empty()) << offset;
      EXPECT_EQ(at_f(*one, ops(COMMIT4args{offset, count})), NFS4_OK) << offset;
    }
  }
  EXPECT_EQ(one->write("/export/f", open, UINT64_MAX, "").status, NFS4_OK);
  EXPECT_EQ(one->write("/export/f", open, UINT64_MAX, "x").status, NFS4ERR_FBIG);
  EXPECT_EQ(one->write("/export/f", open, UINT64_MAX - 3, "content").status, NFS4ERR_FBIG);
  EXPECT_EQ(one->write("/export/f", open, 0, "").resok4.count, 0u);
  EXPECT_EQ(one->read("/export/f"), "content");
}

// --- OPEN ---

// "the client ID ... MAY be any value and the server MUST ignore it" (sections 18.16.3, 18.10.3): an owner
// belongs to the session's client. The seqid field is ignored too.
TEST_F(StateidsTest, ClientIdsAndSeqidsInOwners_AreIgnored) {
  OPEN4args open = one->open_args("f");
  open.owner.clientid = 0x4711;
  open.seqid = 99;
  const COMPOUND4res first = one->run_at("/export", ops(open));
  const COMPOUND4res second = one->run_at("/export", ops(one->open_args("f")));
  ASSERT_EQ(first.status, NFS4_OK);
  EXPECT_TRUE(at<OPEN4res>(first, 0).resok4.stateid.same_state(at<OPEN4res>(second, 0).resok4.stateid));
  EXPECT_EQ(at<OPEN4res>(second, 0).resok4.stateid.seqid, 2u);
}

TEST_F(StateidsTest, Claims_NeedWhatTheyClaim) {
  const stateid4 open = one->open("/export/f");
  OPEN4args claim = one->open_args("f", OPEN4_SHARE_ACCESS_READ);
  for (const stateid4& id : {open, kAnonymousStateid, kCurrentStateid}) {
    claim.claim.claim = CLAIM_DELEGATE_CUR;
    claim.claim.delegate_stateid = id;
    EXPECT_EQ(one->run_at("/export", ops(claim)).status, NFS4ERR_BAD_STATEID);
    claim.claim.claim = CLAIM_DELEG_CUR_FH;
    EXPECT_EQ(at_f(*one, ops(claim)), NFS4ERR_BAD_STATEID);
  }
  OPEN4args making = claim;
  making.openhow.opentype = OPEN4_CREATE;
  making.claim.claim = CLAIM_DELEGATE_CUR;
  making.claim.file = "none";
  EXPECT_EQ(one->run_at("/export", ops(making)).status, NFS4ERR_NOENT);
  EXPECT_FALSE(server->stat("/export/none")) << "a delegation is of a file that is there";
  // "A server MAY support claim types of CLAIM_DELEGATE_PREV and CLAIM_DELEG_PREV_FH".
  claim.claim.claim = CLAIM_DELEGATE_PREV;
  EXPECT_EQ(one->run_at("/export", ops(claim)).status, NFS4ERR_NOTSUPP);
  claim.claim.claim = CLAIM_DELEG_PREV_FH;
  EXPECT_EQ(at_f(*one, ops(claim)), NFS4ERR_NOTSUPP);
  claim.claim.claim = CLAIM_PREVIOUS;
  EXPECT_EQ(at_f(*one, ops(claim)), NFS4ERR_NO_GRACE);
  // "If opentype is OPEN4_CREATE, then the claim field ... MUST be" one with a name.
  claim.openhow.opentype = OPEN4_CREATE;
  for (const open_claim_type4 kind : {CLAIM_FH, CLAIM_DELEG_CUR_FH, CLAIM_PREVIOUS}) {
    claim.claim.claim = kind;
    EXPECT_EQ(at_f(*one, ops(claim)), NFS4ERR_INVAL) << kind;
  }
}

// "if the client sends one or more of the new flags, then in the event the server does not return a
// delegation, it MUST return a delegation type of OPEN_DELEGATE_NONE_EXT": any of them.
TEST_F(StateidsTest, WantFlags_AreAnsweredWithAReason) {
  for (uint32_t want = 0; want <= OPEN4_SHARE_ACCESS_WANT_CANCEL;
       want += OPEN4_SHARE_ACCESS_WANT_READ_DELEG) {
    for (const uint32_t signal : {0u, uint32_t{OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL},
                                  uint32_t{OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED}}) {
      const OPEN4args open = one->open_args("f", OPEN4_SHARE_ACCESS_READ | want | signal);
      const COMPOUND4res reply = one->run_at("/export", ops(open));
      const open_delegation4& d = at<OPEN4res>(reply, 0).resok4.delegation;
      EXPECT_EQ(d.delegation_type, (want | signal) == 0 ? OPEN_DELEGATE_NONE : OPEN_DELEGATE_NONE_EXT)
          << want << " " << signal;
    }
  }
  const OPEN4args beyond = one->open_args("f", OPEN4_SHARE_ACCESS_READ | 0x600);
  EXPECT_EQ(one->run_at("/export", ops(beyond)).status, NFS4ERR_INVAL);
}

// --- byte-range locks ---

// "If the server ... upgrade of a read lock to a write lock" conflicts with another lock, it is denied and
// nothing changes; a downgrade always succeeds (section 9.3).
TEST_F(StateidsTest, UpgradesOfLocks_AreGrantedOrLeaveThemAsTheyWere) {
  const stateid4 open1 = one->open("/export/f");
  const stateid4 open2 = two->open("/export/f");
  LOCK4args reading = lock(open1, true);
  reading.locktype = READ_LT;
  const COMPOUND4res mine = one->run_at("/export/f", ops(reading));
  LOCK4args others = lock(open2, true);
  others.locktype = READ_LT;
  const COMPOUND4res theirs = two->run_at("/export/f", ops(others));
  ASSERT_EQ(mine.status, NFS4_OK);
  ASSERT_EQ(theirs.status, NFS4_OK);
  const stateid4 id = at<LOCK4res>(mine, 0).resok4.lock_stateid;
  const COMPOUND4res upgrade = one->run_at("/export/f", ops(lock(id, false)));
  EXPECT_EQ(upgrade.status, NFS4ERR_DENIED);
  EXPECT_EQ(at<LOCK4res>(upgrade, 0).denied.locktype, READ_LT);
  const stateid4 other_id = at<LOCK4res>(theirs, 0).resok4.lock_stateid;
  EXPECT_EQ(at_f(*two, ops(LOCKU4args{READ_LT, 0, other_id, 0, 1})), NFS4_OK);
  EXPECT_EQ(at_f(*one, ops(lock(id, false))), NFS4_OK) << "the refusal did not move the seqid";
  EXPECT_EQ(at_f(*two, ops(LOCKT4args{READ_LT, 0, 1, {0, "other"}})), NFS4ERR_DENIED);
  LOCK4args down = lock({0, id.other}, false);
  down.locktype = READ_LT;
  EXPECT_EQ(at_f(*one, ops(down)), NFS4_OK);
  EXPECT_EQ(at_f(*two, ops(LOCKT4args{READ_LT, 0, 1, {0, "other"}})), NFS4_OK);
}

TEST_F(StateidsTest, UnlockingWhatIsNotLocked_IsFine) {
  const stateid4 id = first_lock(*one, one->open("/export/f"));
  EXPECT_EQ(at_f(*one, ops(LOCKU4args{WRITE_LT, 0, id, 1000, UINT64_MAX})), NFS4_OK);
  EXPECT_EQ(at_f(*two, ops(LOCKT4args{WRITE_LT, 0, 1, {0, "other"}})), NFS4ERR_DENIED);
}

// --- recalls and their sessions ---

// A recall that was lost with its session is sent on the next one: "the server ... will need to retry"
// (sections 2.10.6.3 and 2.10.11.1: the client creates a new session).
TEST_F(StateidsTest, RecallLostWithItsSession_IsSentOverTheNext) {
  server->configure([](nfs::Switches& s) { s.delegations = nfs::Delegations::kRead; });
  const OPEN4args want = one->open_args("f", OPEN4_SHARE_ACCESS_READ | OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
  const COMPOUND4res reply = one->run_at("/export", ops(want));
  const stateid4 held = at<OPEN4res>(reply, 0).resok4.delegation.stateid;
  EXPECT_EQ(two->run_at("/export", ops(two->open_args("f"))).status, NFS4ERR_DELAY);
  ASSERT_TRUE(one->connection->receive()) << "the first CB_RECALL, which nobody answers";
  EXPECT_EQ(one->call(ops(DESTROY_SESSION4args{one->session})).status, NFS4_OK);
  ASSERT_EQ(one->create_session().status, NFS4_OK);
  const auto again = one->serve_callback();
  ASSERT_TRUE(again);
  const auto& recall = std::get<CB_RECALL4args>(again->argarray.at(1).op);
  EXPECT_TRUE(recall.stateid.same_state(held));
  EXPECT_EQ(at_f(*one, ops(DELEGRETURN4args{held})), NFS4_OK);
  EXPECT_EQ(two->run_at("/export", ops(two->open_args("f"))).status, NFS4_OK);
  ASSERT_EQ(one->create_session().status, NFS4_OK);
  EXPECT_FALSE(one->serve_callback(NFS4_OK, 100)) << "what was answered is not sent again";
}

}  // namespace
}  // namespace nfsrdma::filer::test
