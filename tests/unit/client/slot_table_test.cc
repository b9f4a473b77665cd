// SPDX-License-Identifier: Apache-2.0
// The fore channel's slots (RFC 8881 section 2.10.6.1).
#include "client/nfs4/session/slot_table.h"

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <random>
#include <stdexcept>

#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma::test {
namespace {

using client::nfs4::SlotTable;
using client::nfs4::SlotTicket;
using client::nfs4::SlotUse;
using Place = client::nfs4::SlotTable::Place;

nfs4::sessionid4 session(unsigned n) {
  nfs4::sessionid4 id;
  id.data.fill(static_cast<std::byte>(n));
  return id;
}

class SlotTableTest : public testing::Test {
 protected:
  std::future<std::optional<SlotTicket>> start_acquire() {
    auto ticket = start_on(*loop, table.acquire());
    call_on(*loop, [] { return 0; });  // the loop runs tasks in order, so by now it has a slot or waits
    return ticket;
  }
  SlotTicket acquire() {
    auto ticket = start_acquire();
    return got(ticket);
  }
  // The requested ticket, which is there or about to be.
  static SlotTicket got(std::future<std::optional<SlotTicket>>& ticket) {
    if (ticket.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      throw std::runtime_error("no slot is free");
    return ticket.get().value();
  }
  // As the reply to a current request.
  void set_target(uint32_t target) {
    const auto ticket = table.try_acquire_upkeep();
    ASSERT_TRUE(ticket);
    table.set_target(*ticket, target);
    table.release(*ticket, SlotUse::kNotExecuted);
  }
  static bool waits(const std::future<std::optional<SlotTicket>>& ticket) {
    return ticket.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  }

  LoopThread loop;
  SlotTable table;
};

TEST_F(SlotTableTest, SeveralSlots_AreUsedFromTheLowestAndSlotZeroIsKept) {
  table.open(1, session(1), 4, {2});
  const SlotTicket a = acquire(), b = acquire();
  EXPECT_EQ(a.slot, 1u);
  EXPECT_EQ(b.slot, 2u);
  EXPECT_EQ(a.session, session(1));
  EXPECT_EQ(a.generation, 1u);
  table.release(a, SlotUse::kExecuted);
  EXPECT_EQ(acquire().slot, 1u);
  const auto upkeep = table.try_acquire_upkeep();
  ASSERT_TRUE(upkeep);
  EXPECT_EQ(upkeep->slot, 0u);
  EXPECT_FALSE(table.try_acquire_upkeep());
}

TEST_F(SlotTableTest, OneSlot_ServesEverybody) {
  table.open(1, session(1), 1, {1});
  const SlotTicket only = acquire();
  EXPECT_EQ(only.slot, 0u);
  EXPECT_FALSE(table.try_acquire_upkeep());
  auto next = start_acquire();
  EXPECT_TRUE(waits(next));
  table.release(only, SlotUse::kExecuted);
  EXPECT_EQ(got(next).slot, 0u);
}

TEST_F(SlotTableTest, NoSlots_AreTakenForOne) {
  table.open(1, session(1), 0, {1});
  EXPECT_EQ(acquire().slot, 0u);
}

TEST_F(SlotTableTest, MoreSlotsThanTheTableHolds_AreNotAllUsed) {
  table.open(1, session(1), 0xffffffff, {1});
  EXPECT_EQ(table.counts().granted, SlotTable::kMaxSlots);
}

// "The first time a slot is used, the requester MUST specify a sequence ID of one [...]. Each time a slot is
// reused, the request MUST specify a sequence ID that is one greater than that of the previous request on the
// slot."
TEST_F(SlotTableTest, SequenceIds_BeginWithOneAndCountPerSlot) {
  table.open(1, session(1), 3, {5});
  for (uint32_t n = 1; n <= 3; ++n) {
    const SlotTicket t = acquire();
    EXPECT_EQ(t.sequence, n);
    table.release(t, SlotUse::kExecuted);
  }
  const SlotTicket held = acquire();
  EXPECT_EQ(acquire().sequence, 1u);
  EXPECT_EQ(held.sequence, 4u);
  EXPECT_EQ(table.try_acquire_upkeep()->sequence, 5u) << "recovery used slot 0 before";
}

// "If the previous sequence ID was 0xFFFFFFFF, then the next request for the slot MUST have the sequence ID
// set to zero".
TEST_F(SlotTableTest, SequenceId_WrapsToZero) {
  table.open(1, session(1), 1, {0xffffffff});
  const SlotTicket last = acquire();
  EXPECT_EQ(last.sequence, 0xffffffffu);
  table.release(last, SlotUse::kExecuted);
  EXPECT_EQ(acquire().sequence, 0u);
}

// Section 18.46.3: sr_target_highest_slotid is "the highest slot ID the server would prefer the client use on
// a future SEQUENCE operation". The session's recovery already got that target.
TEST_F(SlotTableTest, OpenedWithFewer_NoMoreAreUsed) {
  table.open(1, session(1), 8, {1}, 3);
  EXPECT_EQ(table.counts().target, 3u);
  EXPECT_EQ(table.counts().granted, 8u);
  table.open(2, session(2), 8, {1}, 0);
  EXPECT_EQ(table.counts().target, 1u);
  table.open(3, session(3), 8, {1}, 9);
  EXPECT_EQ(table.counts().target, 8u) << "what was granted, until an answer tells of more";
}

// Section 2.10.6.1.2: "Any time SEQUENCE [...] returns an error, the sequence ID of the slot MUST NOT
// change."
TEST_F(SlotTableTest, NotExecuted_KeepsTheSequenceId) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  table.release(t, SlotUse::kNotExecuted);
  const SlotTicket again = acquire();
  EXPECT_EQ(again.sequence, t.sequence);
  EXPECT_FALSE(again.uncertain);
}

TEST_F(SlotTableTest, Uncertain_StaysSoUntilTheServerHasSpoken) {
  table.open(1, session(1), 2, {1});
  table.release(acquire(), SlotUse::kUncertain);
  SlotTicket t = acquire();
  EXPECT_TRUE(t.uncertain);
  EXPECT_EQ(t.sequence, 1u);
  table.release(t, SlotUse::kNotExecuted);
  t = acquire();
  EXPECT_TRUE(t.uncertain);
  table.release(t, SlotUse::kExecuted);
  t = acquire();
  EXPECT_FALSE(t.uncertain);
  EXPECT_EQ(t.sequence, 2u);
}

// The server may still process its request, for an unlimited time.
TEST_F(SlotTableTest, Uncertain_IsTakenWhenNoOtherIsFree) {
  table.open(1, session(1), 4, {1});
  table.release(acquire(), SlotUse::kUncertain);
  const SlotTicket two = acquire(), three = acquire();
  EXPECT_EQ(two.slot, 2u);
  EXPECT_EQ(three.slot, 3u);
  const SlotTicket one = acquire();
  EXPECT_EQ(one.slot, 1u);
  EXPECT_TRUE(one.uncertain);
  table.release(one, SlotUse::kExecuted);
  EXPECT_EQ(acquire().slot, 1u) << "the lowest again";
}

// sa_highest_slotid, section 18.46.3: "the highest slot ID for which the client has a request outstanding; it
// could be equal to sa_slotid."
TEST_F(SlotTableTest, HighestSlot_IsTheHighestInUse) {
  table.open(1, session(1), 8, {1});
  const SlotTicket one = acquire(), two = acquire(), three = acquire();
  EXPECT_EQ(one.highest, 1u);
  EXPECT_EQ(two.highest, 2u);
  EXPECT_EQ(three.highest, 3u);
  table.release(one, SlotUse::kExecuted);
  EXPECT_EQ(acquire().highest, 3u);
  table.release(three, SlotUse::kExecuted);
  EXPECT_EQ(table.try_acquire_upkeep()->highest, 2u);
}

TEST_F(SlotTableTest, NoSlotFree_WaitsInOrder) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  EXPECT_TRUE(waits(first));
  table.release(t, SlotUse::kExecuted);
  const SlotTicket next = got(first);
  EXPECT_EQ(next.sequence, 2u);
  EXPECT_TRUE(waits(second));
  table.release(next, SlotUse::kExecuted);
  EXPECT_EQ(got(second).sequence, 3u);
}

TEST_F(SlotTableTest, UpkeepDone_LeavesOrdinaryRequestsWaiting) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  const auto upkeep = table.try_acquire_upkeep();
  auto waiting = start_acquire();
  table.release(*upkeep, SlotUse::kExecuted);
  call_on(*loop, [] { return 0; });
  EXPECT_TRUE(waits(waiting));
  table.release(t, SlotUse::kExecuted);
  EXPECT_EQ(got(waiting).slot, 1u);
}

// --- between the hand-over of a slot and the resumption of its new owner ---

// Calls `hand_over`, which ends with a slot for a waiting coroutine, and asks for another one before that
// coroutine's loop resumes it.
template <class F>
Task<std::optional<SlotTicket>> ask_first(SlotTable& table, F hand_over, Place place = Place::kBehind) {
  hand_over();
  co_return co_await table.acquire(place);
}

TEST_F(SlotTableTest, SlotThatComesBack_IsWhosWaitsLongest) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto waiting = start_acquire();
  auto hasty = start_on(*loop, ask_first(table, [&] { table.release(t, SlotUse::kExecuted); }));
  const SlotTicket next = got(waiting);
  EXPECT_EQ(next.sequence, 2u);
  EXPECT_TRUE(waits(hasty));
  table.release(next, SlotUse::kExecuted);
  EXPECT_EQ(got(hasty).sequence, 3u);
}

// A stream of requests, each made as soon as one is answered, uses all slots.
TEST_F(SlotTableTest, StreamThatFillsAllSlots_DelaysAnotherByOneTurn) {
  table.open(1, session(1), 3, {1});
  SlotTicket one = acquire(), two = acquire();
  auto other = start_acquire();
  auto stream = start_on(*loop, ask_first(table, [&] { table.release(one, SlotUse::kExecuted); }));
  auto more = start_on(*loop, ask_first(table, [&] { table.release(two, SlotUse::kExecuted); }));
  const SlotTicket others = got(other);
  EXPECT_EQ(others.slot, 1u);
  EXPECT_EQ(got(stream).slot, 2u);
  EXPECT_TRUE(waits(more));
  table.release(others, SlotUse::kExecuted);
  EXPECT_EQ(got(more).slot, 1u);
}

TEST_F(SlotTableTest, SlotOfNoUse_IsMadeUpForBeforeOthersAreServed) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  const auto release = [&] { table.release(t, SlotUse::kExecuted); };
  auto again = start_on(*loop, ask_first(table, release, Place::kAhead));
  const SlotTicket next = got(first);
  table.release(next, SlotUse::kExecuted);
  EXPECT_TRUE(waits(second));
  table.release(got(again), SlotUse::kExecuted);
  EXPECT_EQ(got(second).sequence, 4u);
}

TEST_F(SlotTableTest, TargetLoweredMeanwhile_TheSlotIsTakenBackAndTheNextIsHis) {
  table.open(1, session(1), 3, {1});
  const SlotTicket one = acquire(), two = acquire();
  auto first = start_acquire(), second = start_acquire();
  call_on(*loop, [&] {
    table.release(two, SlotUse::kExecuted);
    table.recall(1);
    return 0;
  });
  call_on(*loop, [] { return 0; });
  EXPECT_TRUE(waits(first)) << "slots above the target are not used again";
  EXPECT_EQ(table.counts().in_use, 1u);
  table.release(one, SlotUse::kExecuted);
  const SlotTicket his = got(first);
  EXPECT_EQ(his.slot, 1u);
  EXPECT_EQ(his.highest, 1u);
  EXPECT_FALSE(table.beyond_target(his));
  EXPECT_TRUE(waits(second));
  table.release(his, SlotUse::kExecuted);
  EXPECT_EQ(got(second).slot, 1u);
}

// Section 18.46.3: what SEQUENCE says about slots in use belongs to the time of sending.
TEST_F(SlotTableTest, TargetLoweredMeanwhile_TheRequestKnowsOfIt) {
  table.open(1, session(1), 3, {1});
  const SlotTicket one = acquire(), two = acquire();
  auto waiting = start_acquire();
  call_on(*loop, [&] {
    table.release(one, SlotUse::kExecuted);
    table.release(two, SlotUse::kExecuted);
    table.recall(1);
    return 0;
  });
  const SlotTicket his = got(waiting);
  EXPECT_EQ(his.highest, 1u);
  EXPECT_FALSE(table.beyond_target(his));
}

TEST_F(SlotTableTest, SessionReplacedMeanwhile_TheNewOnesSlotIsHis) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  call_on(*loop, [&] {
    table.release(t, SlotUse::kExecuted);
    table.close(1);
    table.open(2, session(2), 2, {1});
    return 0;
  });
  const SlotTicket his = got(first);
  EXPECT_EQ(his.session, session(2));
  EXPECT_EQ(his.sequence, 1u);
  EXPECT_TRUE(waits(second));
  EXPECT_EQ(table.counts().in_use, 1u);
  table.release(his, SlotUse::kExecuted);
  EXPECT_EQ(got(second).sequence, 2u);
}

// Recovery waits until no request is in progress.
TEST_F(SlotTableTest, ClosedMeanwhile_NothingIsInUse) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  call_on(*loop, [&] {
    table.release(t, SlotUse::kExecuted);
    table.close(1);
    return 0;
  });
  EXPECT_EQ(table.counts().in_use, 0u);
  call_on(*loop, [] { return 0; });
  EXPECT_TRUE(waits(first)) << "a slot of a closed table is no use";
  table.open(2, session(2), 2, {1});
  table.release(got(first), SlotUse::kExecuted);
  EXPECT_EQ(got(second).sequence, 2u);
}

TEST_F(SlotTableTest, ShutDownMeanwhile_EndsWithoutATicket) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  call_on(*loop, [&] {
    table.release(t, SlotUse::kExecuted);
    table.shut_down();
    return 0;
  });
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_EQ(table.counts().in_use, 0u);
}

// --- sessions ---

TEST_F(SlotTableTest, Closed_WaitsForTheNextSession) {
  EXPECT_FALSE(table.is_open());
  auto early = start_acquire();
  EXPECT_TRUE(waits(early));
  table.open(1, session(1), 2, {1});
  const SlotTicket t = got(early);
  EXPECT_TRUE(table.close(1));
  EXPECT_FALSE(table.close(1)) << "only once";
  EXPECT_FALSE(table.try_acquire_upkeep());
  auto late = start_acquire();
  table.release(t, SlotUse::kExecuted);
  call_on(*loop, [] { return 0; });
  EXPECT_TRUE(waits(late)) << "a slot of a closed table is no use";
  table.open(2, session(2), 2, {1});
  EXPECT_EQ(got(late).session, session(2));
}

TEST_F(SlotTableTest, CloseOfAnEarlierSession_DoesNothing) {
  table.open(2, session(2), 2, {1});
  EXPECT_FALSE(table.close(1));
  EXPECT_TRUE(table.is_open());
}

TEST_F(SlotTableTest, TicketOfAnEarlierSession_IsIgnored) {
  table.open(1, session(1), 2, {1});
  const SlotTicket old = acquire();
  table.open(2, session(2), 2, {1});
  const SlotTicket current = acquire();
  EXPECT_EQ(current.slot, old.slot);
  table.release(old, SlotUse::kExecuted);
  EXPECT_EQ(table.counts().in_use, 1u);
  auto next = start_acquire();
  EXPECT_TRUE(waits(next));
  table.release(current, SlotUse::kExecuted);
  EXPECT_EQ(got(next).sequence, 2u);
}

TEST_F(SlotTableTest, ShutDown_EndsEveryWaitWithoutATicket) {
  table.open(1, session(1), 2, {1});
  const SlotTicket t = acquire();
  auto first = start_acquire(), second = start_acquire();
  table.shut_down();
  EXPECT_FALSE(first.get());
  EXPECT_FALSE(second.get());
  EXPECT_FALSE(start_acquire().get());
  EXPECT_FALSE(table.try_acquire_upkeep());
  table.release(t, SlotUse::kExecuted);
}

// --- the server's target (section 2.10.6.1) ---

TEST_F(SlotTableTest, LowerTarget_FreesTheHighSlotsAsTheyComeBack) {
  table.open(1, session(1), 4, {1});
  const SlotTicket one = acquire(), two = acquire(), three = acquire();
  set_target(1);
  EXPECT_EQ(table.counts().target, 2u);
  auto waiting = start_acquire();
  table.release(three, SlotUse::kExecuted);
  table.release(two, SlotUse::kExecuted);
  call_on(*loop, [] { return 0; });
  EXPECT_TRUE(waits(waiting)) << "slots above the target are not used again";
  table.release(one, SlotUse::kExecuted);
  EXPECT_EQ(got(waiting).slot, 1u);
}

// The reply with this target may belong to the last request. Nothing else would wake the waiting coroutine.
TEST_F(SlotTableTest, TargetZero_GivesSlotZeroToWhoWaits) {
  table.open(1, session(1), 3, {1});
  const SlotTicket a = acquire(), b = acquire();
  auto waiting = start_acquire();
  EXPECT_TRUE(waits(waiting));
  table.set_target(a, 0);
  table.release(a, SlotUse::kExecuted);
  table.release(b, SlotUse::kExecuted);
  EXPECT_EQ(got(waiting).slot, 0u);
}

TEST_F(SlotTableTest, BeyondTarget_IsWhatNamedAHighSlotOrWasTakenBeforeTheTarget) {
  table.open(1, session(1), 8, {1});
  const SlotTicket a = acquire(), b = acquire();
  EXPECT_FALSE(table.beyond_target(b));
  table.set_target(a, 1);
  EXPECT_TRUE(table.beyond_target(b)) << "taken before";
  table.release(a, SlotUse::kExecuted);
  const SlotTicket c = acquire();
  EXPECT_EQ(c.highest, b.slot);
  EXPECT_TRUE(table.beyond_target(c)) << "the higher one was busy";
  table.release(b, SlotUse::kExecuted);
  table.release(c, SlotUse::kExecuted);
  const SlotTicket d = acquire();
  EXPECT_FALSE(table.beyond_target(d));
  table.set_target(d, 7);
  EXPECT_TRUE(table.beyond_target(b)) << "also when the target has risen meanwhile";
  EXPECT_FALSE(table.beyond_target(d));
}

TEST_F(SlotTableTest, TargetZero_LeavesSlotZeroToEverybody) {
  table.open(1, session(1), 4, {1});
  set_target(0);
  const SlotTicket t = acquire();
  EXPECT_EQ(t.slot, 0u);
  auto waiting = start_acquire();
  EXPECT_TRUE(waits(waiting));
  table.set_target(t, 1);
  EXPECT_EQ(got(waiting).slot, 1u);
}

TEST_F(SlotTableTest, HigherTarget_BringsSlotsBackWithTheirSequenceIds) {
  table.open(1, session(1), 3, {1});
  const SlotTicket one = acquire(), two = acquire();
  EXPECT_EQ(two.slot, 2u);
  table.release(two, SlotUse::kExecuted);
  set_target(1);
  auto waiting = start_acquire();
  EXPECT_TRUE(waits(waiting));
  set_target(2);
  const SlotTicket back = got(waiting);
  EXPECT_EQ(back.slot, 2u);
  EXPECT_EQ(back.sequence, 2u);
  table.release(one, SlotUse::kExecuted);
}

TEST_F(SlotTableTest, TargetAboveTheGrant_AddsFreshSlots) {
  table.open(1, session(1), 2, {1});
  const SlotTicket one = acquire();
  auto waiting = start_acquire();
  set_target(3);
  const SlotTicket fresh = got(waiting);
  EXPECT_EQ(fresh.slot, 2u);
  EXPECT_EQ(fresh.sequence, 1u);
  EXPECT_EQ(table.counts().granted, 4u);
  table.release(one, SlotUse::kExecuted);
}

// Several connections carry requests at once. A late reply must not bring slots back that the server has
// taken away since.
TEST_F(SlotTableTest, HigherTargetOfAnOldReply_IsIgnored) {
  table.open(1, session(1), 8, {1});
  const SlotTicket one = acquire(), two = acquire(), three = acquire();
  table.set_target(one, 3);
  table.set_target(two, 7);
  EXPECT_EQ(table.counts().target, 4u);
  table.set_target(three, 2);
  EXPECT_EQ(table.counts().target, 3u) << "a lower one is followed whatever it belongs to";
  table.release(one, SlotUse::kExecuted);
  table.set_target(acquire(), 7);
  EXPECT_EQ(table.counts().target, 8u);
}

TEST_F(SlotTableTest, ReplyFromBeforeARecall_DoesNotUndoIt) {
  table.open(1, session(1), 8, {1});
  const SlotTicket before = acquire();
  table.recall(2);
  table.set_target(before, 7);
  EXPECT_EQ(table.counts().target, 3u);
}

TEST_F(SlotTableTest, AbsurdTarget_IsBounded) {
  table.open(1, session(1), 2, {1});
  set_target(0xffffffff);
  EXPECT_EQ(table.counts().granted, SlotTable::kMaxSlots);
  EXPECT_EQ(table.counts().target, SlotTable::kMaxSlots);
}

TEST_F(SlotTableTest, TargetOfAnEarlierSession_IsIgnored) {
  table.open(1, session(1), 8, {1});
  const SlotTicket early = acquire();
  table.open(2, session(2), 8, {1});
  table.set_target(early, 0);
  EXPECT_EQ(table.counts().target, 8u);
}

TEST_F(SlotTableTest, Recall_OnlyShrinks) {
  table.open(1, session(1), 8, {1});
  table.recall(9);
  EXPECT_EQ(table.counts().target, 8u);
  table.recall(0xffffffff);
  EXPECT_EQ(table.counts().target, 8u);
  table.recall(2);
  EXPECT_EQ(table.counts().target, 3u);
  table.recall(5);
  EXPECT_EQ(table.counts().target, 3u);
}

// --- referring calls (section 2.10.6.3) ---

TEST_F(SlotTableTest, Outstanding_IsFromAcquireToRelease) {
  table.open(1, session(1), 4, {1});
  EXPECT_FALSE(table.outstanding(session(1), 1, 1));
  const SlotTicket t = acquire();
  EXPECT_TRUE(table.outstanding(session(1), 1, 1));
  EXPECT_FALSE(table.outstanding(session(2), 1, 1));
  EXPECT_FALSE(table.outstanding(session(1), 1, 2));
  EXPECT_FALSE(table.outstanding(session(1), 2, 1));
  EXPECT_FALSE(table.outstanding(session(1), 0xffffffff, 1));
  table.release(t, SlotUse::kExecuted);
  EXPECT_FALSE(table.outstanding(session(1), 1, 1));
}

// --- all loops ---

auto yield() {
  struct Awaiter {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) { Loop::current()->post(h); }
    void await_resume() const noexcept {}
  };
  return Awaiter{};
}

// Acts as the server: checks each slot's sequence IDs, and that no two requests share a slot.
struct ReplayModel {
  struct Slot {
    std::atomic<bool> busy{false};
    std::atomic<uint32_t> sequence{0};
  };
  std::array<Slot, SlotTable::kMaxSlots> slots;
  std::atomic<unsigned> faults{0}, done{0};

  void begin(const SlotTicket& t) {
    Slot& s = slots.at(t.slot);
    if (s.busy.exchange(true)) ++faults;
    if (s.sequence.load() + 1 != t.sequence) ++faults;
    if (t.highest < t.slot) ++faults;
  }
  void end(const SlotTicket& t, bool executed) {
    Slot& s = slots.at(t.slot);
    if (executed) s.sequence.store(t.sequence);
    s.busy.store(false);
    ++done;
  }
};

Task<> use_slots(SlotTable& table, ReplayModel& model, unsigned seed, unsigned requests) {
  std::minstd_rand random(seed);
  for (unsigned n = 0; n < requests; ++n) {
    const std::optional<SlotTicket> ticket = co_await table.acquire();
    if (!ticket) co_return;
    model.begin(*ticket);
    if (random() % 2 == 0) co_await yield();
    const bool executed = random() % 4 != 0;
    model.end(*ticket, executed);
    table.release(*ticket, executed ? SlotUse::kExecuted : SlotUse::kNotExecuted);
  }
}

class SlotTableLoops : public testing::TestWithParam<unsigned> {};

TEST_P(SlotTableLoops, ContentionUnderAMovingTarget_NeverSharesSkipsOrStalls) {
  constexpr unsigned kUsers = 24;
  constexpr unsigned kRequests = 300;
  SlotTable table;
  ReplayModel model;
  LoopPool loops(GetParam());
  loops.start();
  table.open(1, session(1), 8, {1});
  std::vector<std::future<void>> users;
  for (unsigned i = 0; i < kUsers; ++i) {
    users.push_back(start_on(loops[i % loops.size()], use_slots(table, model, i + 1, kRequests)));
  }
  std::minstd_rand random(99);
  const auto set_target = [&](uint32_t target) {
    const auto upkeep = table.try_acquire_upkeep();
    if (!upkeep) return false;
    table.set_target(*upkeep, target);
    table.release(*upkeep, SlotUse::kNotExecuted);
    return true;
  };
  constexpr std::chrono::microseconds kNoPause{0};
  EXPECT_TRUE(eventually(
      [&] {
        set_target(static_cast<uint32_t>(random() % 12));
        return model.done.load() >= kUsers * kRequests / 2;
      },
      kNoPause));
  ASSERT_TRUE(eventually([&] { return set_target(7); }, kNoPause));
  for (auto& user : users) user.get();
  EXPECT_EQ(model.faults.load(), 0u);
  EXPECT_EQ(model.done.load(), kUsers * kRequests);
  EXPECT_EQ(table.counts().in_use, 0u);
}

INSTANTIATE_TEST_SUITE_P(Loops, SlotTableLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
