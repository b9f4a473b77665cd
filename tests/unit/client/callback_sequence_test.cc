// SPDX-License-Identifier: Apache-2.0
// CB_SEQUENCE: the slots of the back channel and their reply cache (RFC 8881 sections 2.10.6, 20.9).
#include "tests/unit/client/support/callback_caller.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

constexpr uint32_t kSlots = 8;

// As the reply to a current request that carries this target.
void grow(client::nfs4::SlotTable& slots, uint32_t target) {
  const auto ticket = slots.try_acquire_upkeep();
  ASSERT_TRUE(ticket);
  slots.set_target(*ticket, target);
  slots.release(*ticket, client::nfs4::SlotUse::kNotExecuted);
}

TEST(CallbackSequence, FirstRequest_IsAnsweredWithTheSlotsThereAre) {
  CallbackCaller caller;
  const CallbackReply reply = caller.send(CallbackCaller::compound(caller.sequence(3)));
  ASSERT_EQ(reply.status(), NFS4_OK);
  const auto& ok = std::get<CB_SEQUENCE4res>(reply.results.resarray.at(0).op).resok4;
  EXPECT_EQ(ok.csr_sessionid, CallbackCaller::session(1));
  EXPECT_EQ(ok.csr_sequenceid, 1u);
  EXPECT_EQ(ok.csr_slotid, 3u);
  EXPECT_EQ(ok.csr_highest_slotid, kSlots - 1);
  EXPECT_EQ(ok.csr_target_highest_slotid, kSlots - 1);
}

// "If any other operation is in the first position of CB_COMPOUND, NFS4ERR_OP_NOT_IN_SESSION MUST be
// returned."
TEST(CallbackSequence, AnotherOperationFirst_IsNotInSession) {
  CallbackCaller caller;
  const auto refused = [&](const auto& op) {
    const CallbackReply reply = caller.send(CallbackCaller::compound(op, caller.sequence()));
    ASSERT_EQ(reply.results.resarray.size(), 1u);
    EXPECT_EQ(reply.results.resarray[0].opnum(), cb_op_of<std::decay_t<decltype(op)>>);
    EXPECT_EQ(reply.status(), NFS4ERR_OP_NOT_IN_SESSION);
  };
  refused(CB_GETATTR4args{});
  refused(CB_RECALL4args{});
  refused(CB_LAYOUTRECALL4args{});
  refused(CB_NOTIFY4args{});
  refused(CB_PUSH_DELEG4args{});
  refused(CB_RECALL_ANY4args{});
  refused(CB_RECALLABLE_OBJ_AVAIL4args{});
  refused(CB_RECALL_SLOT4args{3});
  refused(CB_WANTS_CANCELLED4args{});
  refused(CB_NOTIFY_LOCK4args{});
  refused(CB_NOTIFY_DEVICEID4args{});
  EXPECT_EQ(caller.slots.counts().target, 16u);
}

TEST(CallbackSequence, MalformedOperationFirst_IsNotInSessionEither) {
  CallbackCaller caller;
  ByteVector args = CallbackCaller::encode(CallbackCaller::compound(CB_RECALL4args{}));
  args.resize(args.size() - 4);
  EXPECT_EQ(caller.send_arguments(args).status(), NFS4ERR_OP_NOT_IN_SESSION);
}

TEST(CallbackSequence, UnknownOperationFirst_IsIllegal) {
  CallbackCaller caller;
  const CallbackReply reply = caller.send(CallbackCaller::compound(CB_ILLEGAL4args{nfs_cb_opnum4{99}}));
  ASSERT_EQ(reply.results.resarray.size(), 1u);
  EXPECT_EQ(reply.results.resarray[0].opnum(), OP_CB_ILLEGAL);
  EXPECT_EQ(reply.status(), NFS4ERR_OP_ILLEGAL);
}

// "The error NFS4ERR_SEQUENCE_POS MUST be returned when CB_SEQUENCE is found in any position in a CB_COMPOUND
// beyond the first."
TEST(CallbackSequence, NotFirst_IsAPositionError) {
  CallbackCaller caller;
  const CallbackReply reply =
      caller.ask(CB_WANTS_CANCELLED4args{}, caller.sequence(1), CB_RECALL_SLOT4args{3});
  ASSERT_EQ(reply.results.resarray.size(), 3u);
  EXPECT_EQ(reply.status(2), NFS4ERR_SEQUENCE_POS);
  EXPECT_EQ(caller.slots.counts().target, 16u);
}

TEST(CallbackSequence, AnotherSession_IsBad) {
  CallbackCaller caller;
  CB_SEQUENCE4args sequence = caller.sequence();
  sequence.csa_sessionid = CallbackCaller::session(2);
  EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_BADSESSION);
}

TEST(CallbackSequence, BeforeThereIsASession_IsBad) {
  LoopThread loop;
  client::nfs4::SlotTable slots;
  client::nfs4::NodeTable nodes;
  client::nfs4::Delegations delegations;
  client::nfs4::CallbackServer server(slots, nodes, delegations);
  CB_SEQUENCE4args sequence;  // its session ID of zeros is what a server without a session would guess
  sequence.csa_sequenceid = 1;
  const ByteVector call =
      CallbackCaller::call({}, CallbackCaller::encode(CallbackCaller::compound(sequence)));
  EXPECT_EQ(CallbackCaller::read(run_on(*loop, server.serve(call))).status(), NFS4ERR_BADSESSION);
}

TEST(CallbackSequence, SlotBeyondTheTable_IsBad) {
  CallbackCaller caller;
  for (const uint32_t slot : {kSlots, kSlots + 1, 0xffffffffu}) {
    CB_SEQUENCE4args sequence;
    sequence.csa_sessionid = CallbackCaller::session(1);
    sequence.csa_sequenceid = 1;
    sequence.csa_slotid = slot;
    EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_BADSLOT);
  }
}

// Section 15.1.11.3: "The highest_slot argument in a Sequence operation exceeds the replier's enforced
// highest_slotid."
TEST(CallbackSequence, HighestSlotBeyondTheTable_IsBad) {
  CallbackCaller caller;
  CB_SEQUENCE4args sequence = caller.sequence();
  for (const uint32_t highest : {kSlots, 0xffffffffu}) {
    sequence.csa_highest_slotid = highest;
    EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_BAD_HIGH_SLOT);
  }
  sequence.csa_highest_slotid = kSlots - 1;
  EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4_OK);
}

// "If the difference between csa_sequenceid and the client's cached sequence ID at the slot ID is two (2) or
// more, or if csa_sequenceid is less than the cached sequence ID (accounting for wraparound of the unsigned
// sequence ID value), then the client MUST return NFS4ERR_SEQ_MISORDERED."
TEST(CallbackSequence, SequenceIdOutOfOrder_IsMisordered) {
  CallbackCaller caller;
  ASSERT_EQ(caller.ask().status(), NFS4_OK);
  ASSERT_EQ(caller.ask().status(), NFS4_OK);
  CB_SEQUENCE4args sequence = caller.sequence();
  for (const uint32_t id : {0u, 1u, 4u, 5u, 0x80000000u, 0xffffffffu}) {
    sequence.csa_sequenceid = id;
    EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_SEQ_MISORDERED) << id;
  }
  sequence.csa_sequenceid = 3;
  EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4_OK);
}

// "The first time a slot is used, the requester MUST specify a sequence ID of one".
TEST(CallbackSequence, UnusedSlot_BeginsWithOne) {
  CallbackCaller caller;
  CB_SEQUENCE4args sequence = caller.sequence();
  for (const uint32_t id : {0u, 2u}) {
    sequence.csa_sequenceid = id;
    EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_SEQ_MISORDERED) << id;
  }
}

TEST(CallbackSequence, Slots_CountForThemselves) {
  CallbackCaller caller;
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    for (uint32_t n = 0; n <= slot; ++n) {
      EXPECT_EQ(caller.send(CallbackCaller::compound(caller.sequence(slot))).status(), NFS4_OK);
    }
  }
}

// "If csa_sequenceid and the cached sequence ID are the same, this is a retry, and the client returns the
// CB_COMPOUND request's cached reply."
TEST(CallbackSequence, Retry_IsAnsweredWithTheSameBytesAndNotExecuted) {
  for (const bool cache_this : {false, true}) {
    CallbackCaller caller;
    const CB_COMPOUND4args args =
        CallbackCaller::compound(caller.sequence(0, cache_this), CB_RECALL_SLOT4args{3}, CB_GETATTR4args{});
    const ByteVector first = caller.send(CallbackCaller::call({.xid = 1}, CallbackCaller::encode(args)));
    EXPECT_EQ(caller.slots.counts().target, 4u);
    grow(caller.slots, 15);
    ByteVector again = caller.send(CallbackCaller::call({.xid = 2}, CallbackCaller::encode(args)));
    EXPECT_EQ(caller.slots.counts().target, 16u);
    EXPECT_EQ(load_be32(again.data()), 2u);
    store_be32(again.data(), 1);
    EXPECT_EQ(again, first);
    // The same reply for any number of retries.
    EXPECT_EQ(caller.send(CallbackCaller::call({.xid = 1}, CallbackCaller::encode(args))), first);
  }
}

// "If CB_SEQUENCE returns an error, then the state of the slot (sequence ID, cached reply) MUST NOT change."
TEST(CallbackSequence, Errors_LeaveTheSlotAlone) {
  CallbackCaller caller;
  const CB_COMPOUND4args first = CallbackCaller::compound(caller.sequence(), CB_GETATTR4args{});
  const ByteVector reply = caller.send(CallbackCaller::call({}, CallbackCaller::encode(first)));
  for (int kind = 0; kind < 5; ++kind) {
    CB_COMPOUND4args bad = CallbackCaller::compound(caller.sequence());
    auto& sequence = std::get<CB_SEQUENCE4args>(bad.argarray[0].op);
    sequence.csa_sequenceid = 2;
    switch (kind) {
      case 0: sequence.csa_highest_slotid = 99; break;
      case 1: sequence.csa_sequenceid = 7; break;
      case 2: sequence.csa_sessionid = CallbackCaller::session(7); break;
      case 3: bad.minorversion = 0; break;
      default: bad.argarray.insert(bad.argarray.begin(), {CB_GETATTR4args{}}); break;
    }
    EXPECT_NE(caller.send(bad).status(), NFS4_OK);
    EXPECT_EQ(caller.send(CallbackCaller::call({}, CallbackCaller::encode(first))), reply);
  }
  CB_SEQUENCE4args next = caller.sequence();
  next.csa_sequenceid = 2;
  EXPECT_EQ(caller.send(CallbackCaller::compound(next)).status(), NFS4_OK);
}

TEST(CallbackSequence, NewSession_ForgetsSlotsAndReplies) {
  CallbackCaller caller;
  ASSERT_EQ(caller.ask().status(), NFS4_OK);
  caller.server.session_opened(CallbackCaller::session(2), client::nfs4::offered_back_channel());
  CB_SEQUENCE4args sequence;
  sequence.csa_sequenceid = 1;
  sequence.csa_sessionid = CallbackCaller::session(1);
  EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4ERR_BADSESSION);
  sequence.csa_sessionid = CallbackCaller::session(2);
  EXPECT_EQ(caller.send(CallbackCaller::compound(sequence)).status(), NFS4_OK);
}

TEST(CallbackSequence, FewerSlotsGranted_AreAllThatMayBeUsed) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxrequests = 2;
  caller.server.session_opened(CallbackCaller::session(1), granted);
  EXPECT_EQ(caller.send(CallbackCaller::compound(caller.sequence(2))).status(), NFS4ERR_BADSLOT);
  const CallbackReply reply = caller.send(CallbackCaller::compound(caller.sequence(1)));
  EXPECT_EQ(std::get<CB_SEQUENCE4res>(reply.results.resarray.at(0).op).resok4.csr_highest_slotid, 1u);
}

// Section 18.36.3, ca_maxrequests: "For the backchannel, the server MUST NOT change the value the client
// offers."
TEST(CallbackSequence, MoreGrantedThanOffered_IsNotBelieved) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxrequests = 0xffffffff;
  granted.ca_maxoperations = 0xffffffff;
  granted.ca_maxrequestsize = 0xffffffff;
  caller.server.session_opened(CallbackCaller::session(1), granted);
  EXPECT_EQ(caller.send(CallbackCaller::compound(caller.sequence(kSlots))).status(), NFS4ERR_BADSLOT);
}

// With a grant of no slots the back channel cannot be used.
TEST(CallbackSequence, NoSlotsGranted_MakesEverySlotBad) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxrequests = 0;
  caller.server.session_opened(CallbackCaller::session(1), granted);
  EXPECT_EQ(caller.send(CallbackCaller::compound(caller.sequence(0))).status(), NFS4ERR_BADSLOT);
}

// The size of a reply with `results` results and no tag.
size_t reply_bytes(size_t results) {
  return 24 + 12 + 40 + 8 * (results - 1);
}

CallbackReply ask_five(CallbackCaller& caller, bool cache_this) {
  return caller.send(CallbackCaller::compound(caller.sequence(0, cache_this), CB_WANTS_CANCELLED4args{},
                                              CB_WANTS_CANCELLED4args{}, CB_WANTS_CANCELLED4args{},
                                              CB_RECALL_SLOT4args{3}));
}

// Section 2.10.6.4: "If a reply exceeds ca_maxresponsesize, the reply will have the status
// NFS4ERR_REP_TOO_BIG."
TEST(CallbackSequence, ReplyLargerThanNegotiated_IsTooBigAndStaysWithinTheLimit) {
  for (size_t results = 2; results <= 5; ++results) {
    CallbackCaller caller;
    channel_attrs4 granted = client::nfs4::offered_back_channel();
    granted.ca_maxresponsesize = static_cast<count4>(reply_bytes(results));
    caller.server.session_opened(CallbackCaller::session(1), granted);
    const CallbackReply reply = ask_five(caller, false);
    EXPECT_LE(reply.bytes.size(), reply_bytes(results));
    EXPECT_EQ(reply.results.resarray.size(), results);
    EXPECT_EQ(reply.status(), results == 5 ? NFS4_OK : NFS4ERR_REP_TOO_BIG);
    // A refused operation was not executed.
    EXPECT_EQ(caller.slots.counts().target, results == 5 ? 4u : 16u);
  }
}

TEST(CallbackSequence, NoRoomForOneResult_IsTooBigInTheSequence) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxresponsesize = static_cast<count4>(reply_bytes(1)) - 1;
  caller.server.session_opened(CallbackCaller::session(1), granted);
  CallbackReply reply = caller.ask();
  ASSERT_EQ(reply.results.resarray.size(), 1u);
  EXPECT_EQ(reply.status(), NFS4ERR_REP_TOO_BIG);
}

// "If the reply exceeds ca_maxresponsesize_cached (and sa_cachethis or csa_cachethis is TRUE), then the
// server MUST return NFS4ERR_REP_TOO_BIG_TO_CACHE. Even if [that] is returned on an operation other than the
// first operation [...] then the reply MUST be cached".
TEST(CallbackSequence, ReplyLargerThanTheCache_IsRefusedWhenItMustBeCached) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxresponsesize_cached = static_cast<count4>(reply_bytes(3));
  caller.server.session_opened(CallbackCaller::session(1), granted);
  const CB_COMPOUND4args args =
      CallbackCaller::compound(caller.sequence(0, true), CB_WANTS_CANCELLED4args{}, CB_WANTS_CANCELLED4args{},
                               CB_WANTS_CANCELLED4args{}, CB_RECALL_SLOT4args{3});
  const CallbackReply reply = caller.send(args);
  EXPECT_EQ(reply.status(), NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_EQ(reply.bytes.size(), reply_bytes(3));
  EXPECT_EQ(caller.slots.counts().target, 16u);
  EXPECT_EQ(caller.send(args).bytes, reply.bytes);
}

TEST(CallbackSequence, NoRoomInTheCacheForOneResult_IsTooBigToCacheInTheSequence) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxresponsesize_cached = 0;
  caller.server.session_opened(CallbackCaller::session(1), granted);
  EXPECT_EQ(ask_five(caller, true).status(), NFS4ERR_REP_TOO_BIG_TO_CACHE);
}

// Section 2.10.6.1.3: "The replier enters into its reply cache a reply consisting of the original results to
// the SEQUENCE or CB_SEQUENCE operation, and with the next operation in COMPOUND or CB_COMPOUND having the
// error NFS4ERR_RETRY_UNCACHED_REP."
TEST(CallbackSequence, RetryOfWhatWasNotCached_SaysSoAndExecutesNothing) {
  CallbackCaller caller;
  channel_attrs4 granted = client::nfs4::offered_back_channel();
  granted.ca_maxresponsesize_cached = static_cast<count4>(reply_bytes(3));
  caller.server.session_opened(CallbackCaller::session(1), granted);
  const CB_COMPOUND4args args =
      CallbackCaller::compound(caller.sequence(), CB_WANTS_CANCELLED4args{}, CB_WANTS_CANCELLED4args{},
                               CB_WANTS_CANCELLED4args{}, CB_RECALL_SLOT4args{3});
  ASSERT_EQ(caller.send(args).status(), NFS4_OK);
  grow(caller.slots, 15);
  const CallbackReply retry = caller.send(args);
  ASSERT_EQ(retry.results.resarray.size(), 2u);
  EXPECT_EQ(retry.status(0), NFS4_OK);
  EXPECT_EQ(retry.results.resarray[1].opnum(), OP_CB_WANTS_CANCELLED);
  EXPECT_EQ(retry.status(1), NFS4ERR_RETRY_UNCACHED_REP);
  EXPECT_EQ(caller.slots.counts().target, 16u);
  EXPECT_EQ(caller.ask().status(), NFS4_OK);
}

// --- BackChannel alone: cases that serve() cannot produce at will ---

CB_SEQUENCE4args request(unsigned session, uint32_t slot, uint32_t sequence) {
  CB_SEQUENCE4args args;
  args.csa_sessionid = CallbackCaller::session(session);
  args.csa_slotid = slot;
  args.csa_sequenceid = sequence;
  return args;
}

// Section 2.10.6.2: "A retry might be sent while the original request is still in progress on the replier.
// The replier SHOULD deal with the issue by returning NFS4ERR_DELAY".
TEST(BackChannel, RetryOfARequestInProgress_IsDelayed) {
  client::nfs4::BackChannel channel;
  channel.open(CallbackCaller::session(1), client::nfs4::offered_back_channel());
  const auto first = channel.begin(request(1, 0, 1));
  ASSERT_EQ(first.status, NFS4_OK);
  EXPECT_EQ(channel.begin(request(1, 0, 1)).status, NFS4ERR_DELAY);
  // The slot cannot be used for the next request before the reply to this one was sent.
  EXPECT_EQ(channel.begin(request(1, 0, 2)).status, NFS4ERR_SEQ_MISORDERED);
  channel.finish(first.generation, 0, ByteVector(4));
  EXPECT_TRUE(channel.begin(request(1, 0, 1)).replay);
  EXPECT_EQ(channel.begin(request(1, 0, 2)).status, NFS4_OK);
}

TEST(BackChannel, RequestOfAnEarlierSession_EndsInNoSlotOfTheNewOne) {
  client::nfs4::BackChannel channel;
  channel.open(CallbackCaller::session(1), client::nfs4::offered_back_channel());
  const auto old = channel.begin(request(1, 0, 1));
  channel.open(CallbackCaller::session(2), client::nfs4::offered_back_channel());
  const auto current = channel.begin(request(2, 0, 1));
  ASSERT_EQ(current.status, NFS4_OK);
  channel.finish(old.generation, 0, ByteVector(4));
  EXPECT_EQ(channel.begin(request(2, 0, 1)).status, NFS4ERR_DELAY);
  channel.finish(current.generation, 0, ByteVector(8));
  EXPECT_EQ(channel.begin(request(2, 0, 1)).reply.size(), 8u);
}

}  // namespace
}  // namespace nfsrdma::test
