// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "transport/rdma/credits.h"
#include "transport/rdma/version_memory.h"

namespace nfsrdma::rdma {
namespace {

PlanLimits linux_server() {
  return {.inline_send = 4096, .inline_receive = 4096, .ddp_threshold = SIZE_MAX, .version = 1};
}

CallSizes small_call() {
  return {.head = 200, .bulk = 0, .bulks = 0, .reply = 200, .sink = 0, .segments = 1};
}

TEST(Plan, SmallCallAndReply_AreInline) {
  EXPECT_EQ(make_plan(linux_server(), small_call()), (Plan{CallForm::kInline, ReplyForm::kInline, 0}));
}

TEST(Plan, Read_IsPlaced) {
  CallSizes read = small_call();
  read.sink = 1 << 20;
  EXPECT_EQ(make_plan(linux_server(), read), (Plan{CallForm::kInline, ReplyForm::kWriteChunk, 0}));
}

TEST(Plan, ReadThatFitsInline_ComesInline) {
  CallSizes read = small_call();
  read.sink = 2048;
  EXPECT_EQ(make_plan(linux_server(), read).reply, ReplyForm::kInline);
}

// A call without a sink never offers a Write chunk, whatever the maximum length of its reply. RFC 8267
// section 6.1 would allow one for the text of READLINK, but it goes inline or with the whole reply.
TEST(Plan, CallWithoutASink_OffersNoWriteChunk) {
  for (const size_t reply : {200U, 4096U, 8192U, 1U << 20}) {
    for (const size_t threshold : {size_t{0}, size_t{1024}, SIZE_MAX}) {
      PlanLimits limits = linux_server();
      limits.ddp_threshold = threshold;
      CallSizes readlink = small_call();
      readlink.reply = reply;
      EXPECT_NE(make_plan(limits, readlink).reply, ReplyForm::kWriteChunk) << reply << " " << threshold;
    }
  }
}

// The 2003 paper, section 3.4: a "minimum chunk size", tunable.
TEST(Plan, ReadOfTheThreshold_IsPlacedAlthoughItFits) {
  PlanLimits limits = linux_server();
  limits.ddp_threshold = 1024;
  CallSizes read = small_call();
  read.sink = 1024;
  EXPECT_EQ(make_plan(limits, read).reply, ReplyForm::kWriteChunk);
  read.sink = 1023;
  EXPECT_EQ(make_plan(limits, read).reply, ReplyForm::kInline);
}

// A Responder that requires a Reply chunk gets one, whatever its length; the chunk's segments take space in
// the call.
TEST(Plan, ReplyChunkThatWasAskedFor_CountsInTheCall) {
  CallSizes call = small_call();
  call.reply_at_least = 100;
  EXPECT_EQ(make_plan(linux_server(), call), (Plan{CallForm::kInline, ReplyForm::kReplyChunk, 200}));
  call.reply_at_least = 100'000;
  EXPECT_EQ(make_plan(linux_server(), call).reply_chunk, 100'000U);
  call.head = 4096 - 28;
  EXPECT_EQ(make_plan(linux_server(), call).call, CallForm::kPositionZero);
  call.reply_at_least = 0;
  EXPECT_EQ(make_plan(linux_server(), call).call, CallForm::kInline);
}

// RFC 8166 section 8.2.2.3: "When an RPCSEC_GSS integrity or privacy service is in use, a Requester provides
// both a Read list and a Reply chunk in the same RPC-over-RDMA header to convey a Long Call and provision a
// receptacle for a Long Reply."
TEST(Plan, WrappedMessages_AreInlineOrLong) {
  CallSizes call = small_call();
  call.wrapped = true;
  EXPECT_EQ(make_plan(linux_server(), call), (Plan{CallForm::kInline, ReplyForm::kInline, 0}));
  call.bulk = 1 << 20;
  call.bulks = 1;
  EXPECT_EQ(make_plan(linux_server(), call), (Plan{CallForm::kPositionZero, ReplyForm::kInline, 0}));
  call.sink = 65'537;
  EXPECT_EQ(make_plan(linux_server(), call), (Plan{CallForm::kPositionZero, ReplyForm::kReplyChunk, 65'740}));
  call.bulk = 100;
  call.sink = 100;
  for (const size_t threshold : {size_t{0}, SIZE_MAX}) {
    PlanLimits limits = linux_server();
    limits.ddp_threshold = threshold;
    EXPECT_EQ(make_plan(limits, call), (Plan{CallForm::kInline, ReplyForm::kInline, 0})) << threshold;
  }
}

TEST(Plan, Write_IsAReadChunk) {
  CallSizes write = small_call();
  write.bulk = 1 << 20;
  write.bulks = 1;
  EXPECT_EQ(make_plan(linux_server(), write), (Plan{CallForm::kReadChunk, ReplyForm::kInline, 0}));
}

TEST(Plan, SmallWrite_IsInline) {
  CallSizes write = small_call();
  write.bulk = 1000;
  write.bulks = 1;
  EXPECT_EQ(make_plan(linux_server(), write).call, CallForm::kInline);
}

// RFC 8166 section 3.5.3: a message that no chunk makes short enough is sent as a long message.
TEST(Plan, LongCallWithoutData_IsPositionZero) {
  CallSizes call = small_call();
  call.head = 5000;
  EXPECT_EQ(make_plan(linux_server(), call).call, CallForm::kPositionZero);
}

// Linux 6.1 confuses the data of several Read chunks.
TEST(Plan, TwoDataItemsThatDoNotFit_ArePositionZero) {
  CallSizes call = small_call();
  call.bulk = 8000;
  call.bulks = 2;
  EXPECT_EQ(make_plan(linux_server(), call).call, CallForm::kPositionZero);
}

TEST(Plan, LongReply_HasAReplyChunkForAllOfIt) {
  CallSizes list = small_call();
  list.reply = 65536;
  EXPECT_EQ(make_plan(linux_server(), list), (Plan{CallForm::kInline, ReplyForm::kReplyChunk, 65536}));
}

// Never a Write list and a Reply chunk in one call: Linux' server then counts the placed data twice.
TEST(Plan, LongReplyWithData_HasAReplyChunkOnly) {
  CallSizes call = small_call();
  call.reply = 5000;
  call.sink = 10001;
  EXPECT_EQ(make_plan(linux_server(), call), (Plan{CallForm::kInline, ReplyForm::kReplyChunk, 5000 + 10004}));
}

// RFC 8166 section 3.3.2: the threshold is for the message with its transport header of 28 bytes, or 36 in
// version 2.
TEST(Plan, AtTheThreshold_EveryByteCounts) {
  PlanLimits limits{.inline_send = 1024, .inline_receive = 1024, .ddp_threshold = SIZE_MAX, .version = 1};
  CallSizes call = small_call();
  call.head = 1024 - 28;
  call.reply = 1024 - 28;
  EXPECT_EQ(make_plan(limits, call), Plan{});
  call.head += 4;
  EXPECT_EQ(make_plan(limits, call).call, CallForm::kPositionZero);
  call.head -= 4;
  call.reply += 4;
  EXPECT_EQ(make_plan(limits, call).reply, ReplyForm::kReplyChunk);
  limits.version = 2;
  call.head = call.reply = 1024 - 36;
  EXPECT_EQ(make_plan(limits, call), Plan{});
  call.head += 4;
  EXPECT_EQ(make_plan(limits, call).call, CallForm::kPositionZero);
}

// For any sizes: what goes inline fits, and every call gets a plan.
RC_GTEST_PROP(PlanProperty, EveryPlan_Fits, ()) {
  PlanLimits limits;
  limits.version = *rc::gen::element<uint32_t>(1, 2);
  limits.inline_send = *rc::gen::inRange<size_t>(1024, 16384);
  limits.inline_receive = *rc::gen::inRange<size_t>(1024, 16384);
  limits.ddp_threshold = *rc::gen::element<size_t>(0, 1024, 4096, SIZE_MAX);
  CallSizes sizes;
  sizes.head = *rc::gen::inRange<size_t>(40, 20000);
  sizes.bulks = *rc::gen::inRange<size_t>(0, 3);
  sizes.bulk = sizes.bulks == 0 ? 0 : *rc::gen::inRange<size_t>(4, 1 << 20);
  sizes.reply = *rc::gen::inRange<size_t>(24, 20000);
  sizes.sink = *rc::gen::element<size_t>(0, 1, 4096, 1 << 20);
  sizes.segments = *rc::gen::inRange<size_t>(1, 17);
  const Plan plan = make_plan(limits, sizes);
  const size_t bare = limits.version == 1 ? 28 : 36;
  const size_t reply_list = plan.reply == ReplyForm::kInline ? 0 : 8 + 16 * sizes.segments;
  if (plan.call == CallForm::kInline) {
    RC_ASSERT(bare + reply_list + sizes.head + sizes.bulk <= limits.inline_send);
  }
  if (plan.call == CallForm::kReadChunk) {
    RC_ASSERT(sizes.bulks == 1U);
    RC_ASSERT(bare + reply_list + 24 * sizes.segments + sizes.head <= limits.inline_send);
  }
  if (plan.reply == ReplyForm::kInline) {
    RC_ASSERT(bare + sizes.reply + (sizes.sink + 3) / 4 * 4 <= limits.inline_receive);
  }
  if (plan.reply == ReplyForm::kWriteChunk) {
    RC_ASSERT(sizes.sink > 0U);
    RC_ASSERT(bare + reply_list + sizes.reply <= limits.inline_receive);
  }
  if (plan.reply == ReplyForm::kReplyChunk) {
    RC_ASSERT(plan.reply_chunk >= sizes.reply + sizes.sink);
  } else {
    RC_ASSERT(plan.reply_chunk == 0U);
  }
}

// --- credits

// Nothing has been granted yet: one call may be sent.
TEST(Credits, BeforeTheFirstGrant_OneCallIsOut) {
  Credits credits(64);
  EXPECT_TRUE(credits.available(false));
  credits.take();
  EXPECT_FALSE(credits.available(false));
  EXPECT_FALSE(credits.available(true));
}

TEST(Credits, Grant_IsBoundedByTheRequest) {
  Credits credits(64);
  credits.granted(128);
  EXPECT_EQ(credits.limit(), 64U);
  credits.granted(UINT32_MAX);
  EXPECT_EQ(credits.limit(), 64U);
  credits.granted(10);
  EXPECT_EQ(credits.limit(), 10U);
}

// "The granted value MUST NOT be zero, since such a value would result in deadlock": it counts as one.
TEST(Credits, GrantOfZero_IsOne) {
  Credits credits(64);
  credits.granted(0);
  EXPECT_EQ(credits.limit(), 1U);
  EXPECT_TRUE(credits.available(false));
}

TEST(Credits, LoweredOnTheFly_NothingGoesUntilEnoughCameBack) {
  Credits credits(64);
  credits.granted(8);
  for (int i = 0; i < 7; ++i) credits.take();
  credits.granted(4);
  EXPECT_FALSE(credits.available(true));
  for (int i = 0; i < 3; ++i) credits.give_back();
  EXPECT_FALSE(credits.available(true)) << "four are out, four are granted";
  credits.give_back();
  EXPECT_TRUE(credits.available(true));
  EXPECT_FALSE(credits.available(false));
}

TEST(Credits, LastOne_IsForTheLease) {
  Credits credits(64);
  credits.granted(2);
  credits.take();
  EXPECT_FALSE(credits.available(false));
  EXPECT_TRUE(credits.available(true));
}

// --- what is remembered of a server

TEST(VersionMemory, ServerWithoutVersion2_IsAskedAgainAfterAWhile) {
  VersionMemory memory;
  const TimePoint now{std::chrono::hours(1)};
  EXPECT_FALSE(memory.lacks_version2(now));
  EXPECT_TRUE(memory.note_lacks_version2(now, "ERR_VERS"));
  EXPECT_TRUE(memory.lacks_version2(now));
  EXPECT_EQ(memory.reason(), "ERR_VERS");
  EXPECT_TRUE(memory.lacks_version2(now + VersionMemory::kExpiry - std::chrono::seconds(1)));
  EXPECT_FALSE(memory.lacks_version2(now + VersionMemory::kExpiry));
  EXPECT_FALSE(memory.note_lacks_version2(now, "ERR_VERS")) << "said already";
  EXPECT_TRUE(memory.note_lacks_version2(now, "silence"));
  memory.note_has_version2();
  EXPECT_FALSE(memory.lacks_version2(now));
  EXPECT_EQ(memory.reason(), "");
}

}  // namespace
}  // namespace nfsrdma::rdma
