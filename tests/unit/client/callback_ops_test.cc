// SPDX-License-Identifier: Apache-2.0
// What each callback operation does (RFC 8881 section 20).
#include "client/nfs4/state/file_state.h"
#include "tests/unit/client/support/callback_caller.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

const nfs_fh4 kFile(as_const_bytes("file"));
const nfs_fh4 kOther(as_const_bytes("other"));

stateid4 stateid(uint32_t seqid, unsigned n) {
  stateid4 s;
  s.seqid = seqid;
  s.other.fill(static_cast<std::byte>(n));
  return s;
}

nfsstat4 status_of(CallbackCaller& caller, const nfs_cb_argop4& op) {
  CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
  args.argarray.push_back(op);
  const CallbackReply reply = caller.send(args);
  EXPECT_EQ(reply.results.resarray.size(), 2u);
  EXPECT_EQ(reply.results.resarray.back().opnum(), op.opnum());
  return reply.status();
}

// Records recalls, and answers for the attributes of write delegations, like a mount.
struct Holder final : client::nfs4::DelegationHolder {
  explicit Holder(client::nfs4::Delegations& delegations) { delegations.attach(this); }
  void recalled(client::nfs4::DelegationRef delegation) override { recalls.push_back(delegation->stateid); }
  void recalled_unknown(const nfs_fh4&, const stateid4& stateid, uint64_t begun) override {
    unknown.emplace_back(stateid, begun);
  }
  std::optional<Known> delegated_attributes(const client::nfs4::Delegation&) override { return known; }
  std::vector<stateid4> recalls;
  std::vector<std::pair<stateid4, uint64_t>> unknown;
  std::optional<Known> known = Known{.size = 77, .change = 5};
};

// Section 20.1.3: "If the filehandle specified is not one for which the client holds an OPEN_DELEGATE_WRITE
// delegation, an NFS4ERR_BADHANDLE error is returned."
TEST(CallbackGetattr, OfNoWriteDelegation_IsABadHandle) {
  CallbackCaller caller;
  const Holder holder(caller.delegations);
  const client::NodeRef known = caller.nodes.get(kFile, 0);
  EXPECT_EQ(status_of(caller, {CB_GETATTR4args{kFile, bitmap4::of({FATTR4_SIZE})}}), NFS4ERR_BADHANDLE);
  caller.grant(kFile, stateid(1, 1));
  EXPECT_EQ(status_of(caller, {CB_GETATTR4args{kFile, bitmap4::of({FATTR4_SIZE})}}), NFS4ERR_BADHANDLE);
}

// Section 20.1.3: "The attributes and attribute values returned ... size and change": of what was asked for.
TEST(CallbackGetattr, OfAWriteDelegation_IsAnsweredWithSizeAndChange) {
  CallbackCaller caller;
  const Holder holder(caller.delegations);
  caller.grant(kFile, stateid(1, 1), true);
  const auto ask = [&](const bitmap4& wanted) {
    CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
    args.argarray.push_back({CB_GETATTR4args{kFile, wanted}});
    const CallbackReply reply = caller.send(args);
    EXPECT_EQ(reply.status(), NFS4_OK);
    return std::get<CB_GETATTR4res>(reply.results.resarray.at(1).op).resok4.obj_attributes;
  };
  const fattr4 both = ask(bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE, FATTR4_MODE}));
  EXPECT_EQ(both.attrmask, bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE}));
  EXPECT_EQ(both.size, 77u);
  EXPECT_EQ(both.change, 5u);
  EXPECT_EQ(ask(bitmap4::of({FATTR4_CHANGE})).attrmask, bitmap4::of({FATTR4_CHANGE}));
}

// The reply to the OPEN is not processed yet: the server must ask again.
TEST(CallbackGetattr, OfWhatIsNotKnownYet_IsDelayed) {
  CallbackCaller caller;
  Holder holder(caller.delegations);
  holder.known.reset();
  caller.grant(kFile, stateid(1, 1), true);
  EXPECT_EQ(status_of(caller, {CB_GETATTR4args{kFile, bitmap4::of({FATTR4_SIZE})}}), NFS4ERR_DELAY);
}

// Section 20.2.3: "If the handle specified is not one for which the client holds a delegation, an
// NFS4ERR_BADHANDLE error is returned."
TEST(CallbackRecall, OfNoDelegation_IsABadHandle) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 1), false, kFile}}), NFS4ERR_BADHANDLE);
  caller.grant(kFile, stateid(1, 1));
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 1), false, kOther}}), NFS4ERR_BADHANDLE);
}

// The client replies as the RFC demands. But the server believes that the client holds the delegation, so it
// is also returned.
TEST(CallbackRecall, OfNoDelegation_IsHandedOnToBeReturned) {
  CallbackCaller caller;
  Holder holder(caller.delegations);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(0, 1), false, kFile}}), NFS4ERR_BADHANDLE);
  caller.grant(kFile, stateid(1, 2));
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(0, 3), false, kFile}}), NFS4ERR_BAD_STATEID);
  const client::nfs4::Delegations::Asking asking(caller.delegations);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(0, 4), false, kOther}}), NFS4ERR_BADHANDLE);
  ASSERT_EQ(holder.unknown.size(), 3u);
  EXPECT_EQ(holder.unknown[0].first, stateid(0, 1));
  EXPECT_EQ(holder.unknown[1].first, stateid(0, 3));
  EXPECT_EQ(holder.unknown[2].first, stateid(0, 4));
  EXPECT_FALSE(caller.delegations.being_asked_for(holder.unknown[1].second));
  EXPECT_TRUE(caller.delegations.being_asked_for(holder.unknown[2].second)) << "its OPEN may be under way";
  EXPECT_TRUE(holder.recalls.empty());
}

// "If the stateid specified is not one corresponding to an OPEN delegation for the file specified by the
// filehandle, an NFS4ERR_BAD_STATEID is returned."
TEST(CallbackRecall, OfAnotherDelegationOfTheFile_IsABadStateid) {
  CallbackCaller caller;
  caller.grant(kFile, stateid(1, 1));
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 2), false, kFile}}), NFS4ERR_BAD_STATEID);
}

TEST(CallbackRecall, OfADelegationOnItsWayBack_IsAcknowledgedUntilItIsBack) {
  CallbackCaller caller;
  Holder holder(caller.delegations);
  const auto one = caller.grant(kFile, stateid(1, 1));
  caller.grant(kOther, stateid(1, 2));
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 1), true, kFile}}), NFS4_OK);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 2), false, kOther}}), NFS4_OK);
  EXPECT_EQ(holder.recalls, (std::vector<stateid4>{stateid(1, 1), stateid(1, 2)}));
  caller.returned(one);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 1), false, kFile}}), NFS4ERR_BADHANDLE);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 2), false, kOther}}), NFS4_OK);
}

TEST(CallbackRecall, ReturnedTwice_IsHarmless) {
  CallbackCaller caller;
  const auto one = caller.grant(kFile, stateid(1, 1));
  caller.returned(one);
  caller.returned(one);
  EXPECT_EQ(status_of(caller, {CB_RECALL4args{stateid(1, 1), false, kFile}}), NFS4ERR_BADHANDLE);
}

// Section 20.6.3: "The server may recall specific types of objects". The client chooses which objects: the
// least recently used ones.
TEST(CallbackRecallAny, ReturnsTheLeastRecentlyUsedOfTheTypesNamed) {
  CallbackCaller caller;
  Holder holder(caller.delegations);
  std::vector<client::nfs4::DelegationRef> reads;
  for (unsigned n = 1; n <= 4; ++n) reads.push_back(caller.grant(kFile, stateid(1, n)));
  caller.grant(kOther, stateid(1, 9), true);
  caller.delegations.used(reads[0]);
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{2, bitmap4::of({RCA4_TYPE_MASK_RDATA_DLG})}}), NFS4_OK);
  EXPECT_EQ(holder.recalls, (std::vector<stateid4>{stateid(1, 2), stateid(1, 3)}));
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{2, bitmap4::of({RCA4_TYPE_MASK_RDATA_DLG})}}), NFS4_OK);
  EXPECT_EQ(holder.recalls.size(), 2u) << "no more than asked for";
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0, bitmap4::of({RCA4_TYPE_MASK_WDATA_DLG})}}), NFS4_OK);
  EXPECT_EQ(holder.recalls.back(), stateid(1, 9));
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0, bitmap4::of({RCA4_TYPE_MASK_FILE_LAYOUT})}}), NFS4_OK);
  EXPECT_EQ(holder.recalls.size(), 3u);
}

// A recall of a delegation whose OPEN was sent with `ticket`.
ByteVector racing_recall(CallbackCaller& caller, const client::nfs4::SlotTicket& ticket) {
  CB_SEQUENCE4args sequence = caller.sequence();
  sequence.csa_referring_call_lists.push_back({ticket.session, {{ticket.sequence, ticket.slot}}});
  return CallbackCaller::call({}, CallbackCaller::encode(CallbackCaller::compound(
                                      sequence, CB_RECALL4args{stateid(1, 1), false, kFile})));
}

client::nfs4::SlotTicket take_slot(CallbackCaller& caller) {
  return *run_on(*caller.loop, caller.slots.acquire());
}

// Section 2.10.6.3: "If the client finds the request corresponding to the referring session ID, slot ID, and
// sequence ID to be currently outstanding [...] it can determine that the callback has raced the reply [...].
// If that period of time expires, it can respond to the CB_COMPOUND with NFS4ERR_DELAY."
TEST(CallbackRecall, BeforeTheReplyOfItsOpen_IsDelayed) {
  CallbackCaller caller;
  const client::nfs4::SlotTicket ticket = take_slot(caller);
  EXPECT_EQ(CallbackCaller::read(caller.send(racing_recall(caller, ticket))).status(), NFS4ERR_DELAY);
}

TEST(CallbackRecall, BeforeTheReplyOfItsOpen_WaitsForIt) {
  CallbackCaller caller;
  const client::nfs4::SlotTicket ticket = take_slot(caller);
  std::future<ByteVector> reply = start_on(*caller.loop, caller.server.serve(racing_recall(caller, ticket)));
  // The reply is processed on the loop: it frees the slot, then its reader registers the delegation.
  call_on(*caller.loop, [&] {
    caller.slots.release(ticket, client::nfs4::SlotUse::kExecuted);
    caller.grant(kFile, stateid(1, 1));
    return 0;
  });
  EXPECT_EQ(CallbackCaller::read(reply.get()).status(), NFS4_OK);
}

// "It is possible for server callbacks to arrive at the client before the reply from related fore channel
// operations." If the server names no referring call, the reply may be that of any OPEN in progress.
TEST(CallbackRecall, WithoutReferringCalls_WaitsForTheReplyOfAnOpenUnderWay) {
  CallbackCaller caller;
  const auto racing = [&] {
    return CallbackCaller::call({}, CallbackCaller::encode(CallbackCaller::compound(
                                        caller.sequence(), CB_RECALL4args{stateid(1, 1), false, kFile})));
  };
  auto asking = std::make_unique<client::nfs4::Delegations::Asking>(caller.delegations);
  EXPECT_EQ(CallbackCaller::read(caller.send(racing())).status(), NFS4ERR_BADHANDLE) << "not for ever";
  std::future<ByteVector> reply;
  call_on(*caller.loop, [&] {
    reply = start_on(*caller.loop, caller.server.serve(racing()));
    (*caller.loop).post([&] {
      caller.grant(kFile, stateid(1, 1));
      asking.reset();
    });
    return 0;
  });
  EXPECT_EQ(CallbackCaller::read(reply.get()).status(), NFS4_OK);
}

// The same for CB_GETATTR, for a file that was just opened.
TEST(CallbackGetattr, BeforeTheReplyOfItsOpen_WaitsForItOrIsDelayed) {
  CallbackCaller caller;
  const Holder holder(caller.delegations);
  const client::nfs4::SlotTicket ticket = take_slot(caller);
  const auto racing = [&] {
    CB_SEQUENCE4args sequence = caller.sequence();
    sequence.csa_referring_call_lists.push_back({ticket.session, {{ticket.sequence, ticket.slot}}});
    return CallbackCaller::call({}, CallbackCaller::encode(CallbackCaller::compound(
                                        sequence, CB_GETATTR4args{kFile, bitmap4::of({FATTR4_SIZE})})));
  };
  EXPECT_EQ(CallbackCaller::read(caller.send(racing())).status(), NFS4ERR_DELAY);
  std::future<ByteVector> reply = start_on(*caller.loop, caller.server.serve(racing()));
  call_on(*caller.loop, [&] {
    caller.slots.release(ticket, client::nfs4::SlotUse::kExecuted);
    caller.grant(kFile, stateid(1, 1), true);
    return 0;
  });
  EXPECT_EQ(CallbackCaller::read(reply.get()).status(), NFS4_OK);
}

// "If the client does not find the request corresponding to the referring triple to be outstanding (including
// the case of a session ID referring to a destroyed session), then there is no race with respect to this
// triple."
TEST(CallbackRecall, WithReferringCallsThatAreOver_IsABadHandle) {
  CallbackCaller caller;
  client::nfs4::SlotTicket ticket = take_slot(caller);
  for (int kind = 0; kind < 3; ++kind) {
    client::nfs4::SlotTicket other = ticket;
    if (kind == 0) other.session = CallbackCaller::session(9);
    if (kind == 1) ++other.sequence;
    if (kind == 2) other.slot = 5000;
    EXPECT_EQ(CallbackCaller::read(caller.send(racing_recall(caller, other))).status(), NFS4ERR_BADHANDLE)
        << kind;
  }
  caller.slots.release(ticket, client::nfs4::SlotUse::kExecuted);
  EXPECT_EQ(CallbackCaller::read(caller.send(racing_recall(caller, ticket))).status(), NFS4ERR_BADHANDLE);
}

// Section 20.3.3: "The NFS4ERR_NOMATCHING_LAYOUT error is only returned when the client does not hold
// layouts".
TEST(CallbackLayoutRecall, Always_MatchesNoLayout) {
  CallbackCaller caller;
  for (const layoutrecall_type4 type : {LAYOUTRECALL4_FILE, LAYOUTRECALL4_FSID, LAYOUTRECALL4_ALL}) {
    CB_LAYOUTRECALL4args args;
    args.clora_recall.lor_recalltype = type;
    EXPECT_EQ(status_of(caller, {args}), NFS4ERR_NOMATCHING_LAYOUT);
  }
}

TEST(CallbackNotify, NothingWasAskedFor_IsNotSupported) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_NOTIFY4args{}}), NFS4ERR_NOTSUPP);
  EXPECT_EQ(status_of(caller, {CB_NOTIFY_DEVICEID4args{}}), NFS4ERR_NOTSUPP);
}

// Section 20.5.3: "permanently rejecting the offer of the delegation by returning NFS4ERR_REJECT_DELEG".
TEST(CallbackPushDeleg, Offer_IsRejected) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_PUSH_DELEG4args{}}), NFS4ERR_REJECT_DELEG);
}

// Section 20.6.3: "When a bit is set in the type mask that corresponds to an undefined type of recallable
// object, NFS4ERR_INVAL MUST be returned. When a bit is set that corresponds to a defined type of object but
// the client does not support an object of the type, NFS4ERR_INVAL MUST NOT be returned."
TEST(CallbackRecallAny, DefinedTypes_AreNoError) {
  CallbackCaller caller;
  for (const uint32_t bit : {0u, 1u, 2u, 3u, 4u, 8u, 9u, 12u, 13u, 14u, 15u, 16u, 17u}) {
    EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0, bitmap4::of({bit})}}), NFS4_OK) << bit;
    EXPECT_EQ(status_of(caller, {CB_RECALLABLE_OBJ_AVAIL4args{0, bitmap4::of({bit})}}), NFS4_OK) << bit;
  }
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0, bitmap4{}}}), NFS4_OK);
  EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0xffffffff, bitmap4::of({0, 1, 2, 3, 4})}}), NFS4_OK);
}

TEST(CallbackRecallAny, UndefinedTypes_AreInvalid) {
  CallbackCaller caller;
  for (const uint32_t bit : {5u, 6u, 7u, 10u, 11u, 18u, 31u, 32u, 255u}) {
    EXPECT_EQ(status_of(caller, {CB_RECALL_ANY4args{0, bitmap4::of({0, bit})}}), NFS4ERR_INVAL) << bit;
    EXPECT_EQ(status_of(caller, {CB_RECALLABLE_OBJ_AVAIL4args{0, bitmap4::of({bit})}}), NFS4ERR_INVAL) << bit;
  }
}

// Section 20.8.3: "The client MUST then progress toward reducing the session's highest slot ID to the target
// value."
TEST(CallbackRecallSlot, LowerTarget_ShrinksTheForeChannel) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_RECALL_SLOT4args{3}}), NFS4_OK);
  EXPECT_EQ(caller.slots.counts().target, 4u);
  EXPECT_EQ(status_of(caller, {CB_RECALL_SLOT4args{0}}), NFS4_OK);
  EXPECT_EQ(caller.slots.counts().target, 1u);
}

// CB_RECALL_SLOT only recalls slots; it grants none.
TEST(CallbackRecallSlot, HigherTarget_GrowsNothing) {
  CallbackCaller caller;
  for (const uint32_t target : {15u, 16u, 1000u, 0xffffffffu}) {
    EXPECT_EQ(status_of(caller, {CB_RECALL_SLOT4args{target}}), NFS4_OK);
    EXPECT_EQ(caller.slots.counts().target, 16u);
    EXPECT_EQ(caller.slots.counts().granted, 16u);
  }
}

TEST(CallbackWantsCancelled, Always_IsFine) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_WANTS_CANCELLED4args{true, true}}), NFS4_OK);
}

Task<> wait_for_unlock(client::nfs4::FileState& file) {
  MutexLock lock(file.node.mutex);
  co_await file.unlocked.wait(lock);
}

TEST(CallbackNotifyLock, OfAFileWithWaiters_WakesThem) {
  CallbackCaller caller;
  const client::NodeRef node = caller.nodes.get(kFile, 0);
  const auto file = std::make_shared<client::nfs4::FileState>(client::nfs4::nfs4_node(node));
  client::nfs4::nfs4_node(node).file = file;
  std::future<void> first = start_on(*caller.loop, wait_for_unlock(*file));
  std::future<void> second = start_on(*caller.loop, wait_for_unlock(*file));
  call_on(*caller.loop, [] { return 0; });  // now both wait, because the loop runs tasks in order
  EXPECT_EQ(status_of(caller, {CB_NOTIFY_LOCK4args{kFile, {7, "owner"}}}), NFS4_OK);
  first.get();
  second.get();
  MutexLock lock(client::nfs4::nfs4_node(node).mutex);
  client::nfs4::nfs4_node(node).file.reset();
}

TEST(CallbackNotifyLock, OfAFileThatIsNotOpen_IsFine) {
  CallbackCaller caller;
  const client::NodeRef node = caller.nodes.get(kFile, 0);
  EXPECT_EQ(status_of(caller, {CB_NOTIFY_LOCK4args{kFile, {7, "owner"}}}), NFS4_OK);
}

TEST(CallbackNotifyLock, OfAnUnknownFile_IsABadHandle) {
  CallbackCaller caller;
  EXPECT_EQ(status_of(caller, {CB_NOTIFY_LOCK4args{kFile, {7, "owner"}}}), NFS4ERR_BADHANDLE);
  EXPECT_EQ(caller.nodes.size(), 0u);
}

// Section 20.13.3: "The status field of CB_ILLEGAL4res MUST be set to NFS4ERR_OP_ILLEGAL."
TEST(CallbackIllegal, UnknownOperation_EndsTheCompound) {
  CallbackCaller caller;
  for (const uint32_t number : {0u, 1u, 2u, 15u, 16u, 10044u, 0xffffffffu}) {
    const CallbackReply reply = caller.ask(CB_WANTS_CANCELLED4args{}, CB_ILLEGAL4args{nfs_cb_opnum4{number}});
    ASSERT_EQ(reply.results.resarray.size(), 3u) << number;
    EXPECT_EQ(reply.results.resarray[2].opnum(), OP_CB_ILLEGAL) << number;
    EXPECT_EQ(reply.status(), NFS4ERR_OP_ILLEGAL) << number;
  }
}

TEST(CallbackCompound, FirstError_EndsIt) {
  CallbackCaller caller;
  const CallbackReply reply = caller.ask(CB_RECALL_SLOT4args{7}, CB_GETATTR4args{}, CB_RECALL_SLOT4args{3});
  EXPECT_EQ(reply.results.resarray.size(), 3u);
  EXPECT_EQ(reply.status(), NFS4ERR_BADHANDLE);
  EXPECT_EQ(caller.slots.counts().target, 8u);
  EXPECT_EQ(caller.server.count(), 1u);
}

// Four loops call at once, each in its own slot.
TEST(CallbackCompound, FromFourLoops_IsAnsweredForEach) {
  constexpr unsigned kLoops = 4;
  constexpr unsigned kCalls = 200;
  client::nfs4::SlotTable slots;
  client::nfs4::NodeTable nodes;
  client::nfs4::Delegations delegations;
  client::nfs4::CallbackServer server(slots, nodes, delegations);
  slots.open(1, CallbackCaller::session(1), 16, {2});
  server.session_opened(CallbackCaller::session(1), client::nfs4::offered_back_channel());
  LoopPool loops(kLoops);
  loops.start();
  const client::NodeRef node = nodes.get(kFile, 0);
  const auto conversation = [](client::nfs4::CallbackServer& s, client::nfs4::Delegations& all,
                               unsigned slot) -> Task<unsigned> {
    unsigned good = 0;
    open_delegation4 granted;
    granted.delegation_type = OPEN_DELEGATE_READ;
    granted.stateid = stateid(1, slot);
    for (unsigned n = 1; n <= kCalls; ++n) {
      CB_SEQUENCE4args sequence;
      sequence.csa_sessionid = CallbackCaller::session(1);
      sequence.csa_slotid = slot;
      sequence.csa_highest_slotid = kLoops;
      sequence.csa_sequenceid = n;
      const auto delegation = std::make_shared<client::nfs4::Delegation>(kFile, granted, nullptr, 1);
      all.add(delegation, client::nfs4::Delegations::Came::kGranted);
      const CB_COMPOUND4args args =
          CallbackCaller::compound(sequence, CB_RECALL4args{stateid(1, slot), false, kFile},
                                   CB_RECALL_SLOT4args{n}, CB_NOTIFY_LOCK4args{kFile, {1, "owner"}});
      ByteVector call = CallbackCaller::call({}, CallbackCaller::encode(args));
      ByteVector reply = co_await s.serve(std::move(call));
      all.remove(delegation, client::nfs4::Delegations::Went::kReturned);
      good += CallbackCaller::read(std::move(reply)).status() == NFS4_OK;
    }
    co_return good;
  };
  std::vector<std::future<unsigned>> all;
  for (unsigned i = 0; i < kLoops; ++i)
    all.push_back(start_on(loops[i], conversation(server, delegations, i)));
  for (auto& good : all) EXPECT_EQ(good.get(), kCalls);
  EXPECT_EQ(server.count(), kLoops * kCalls);
}

}  // namespace
}  // namespace nfsrdma::test
