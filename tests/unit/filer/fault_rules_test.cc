// SPDX-License-Identifier: Apache-2.0
// Parsing of fault rules.
#include "filer/fault_rules.h"

#include <gtest/gtest.h>

namespace nfsrdma::filer::test {
namespace {

using namespace nfs4;

TEST(FaultRules, SayWhatAndWhen) {
  const auto rule = parse_fault_rule("request WRITE nth 3 times 2: cut");
  ASSERT_TRUE(rule) << rule.error().cause;
  EXPECT_EQ(rule->trigger.kind, FaultEvent::Kind::kRequest);
  EXPECT_EQ(rule->trigger.op, OP_WRITE);
  EXPECT_EQ(rule->trigger.first, 3u);
  EXPECT_EQ(rule->trigger.count, 2u);
  EXPECT_TRUE(std::holds_alternative<fault::Cut>(rule->action));

  const auto always = parse_fault_rule("reply always : delay 50");
  ASSERT_TRUE(always);
  EXPECT_FALSE(always->trigger.op);
  EXPECT_EQ(always->trigger.count, UINT32_MAX);
  EXPECT_EQ(std::get<fault::Delay>(always->action).by, std::chrono::milliseconds(50));

  for (const char* status : {"DELAY", "NFS4ERR_DELAY"}) {
    const auto answer = parse_fault_rule(std::string("request OPEN: answer OPEN ") + status);
    ASSERT_TRUE(answer) << status;
    EXPECT_EQ(std::get<fault::Answer>(answer->action).status, NFS4ERR_DELAY);
  }
}

TEST(FaultRules, AgainAndAgain) {
  const auto rule = parse_fault_rule("request nth 20 every 50: recall");
  ASSERT_TRUE(rule) << rule.error().cause;
  EXPECT_EQ(rule->trigger.first, 20u);
  EXPECT_EQ(rule->trigger.every, 50u);
  EXPECT_EQ(rule->trigger.count, UINT32_MAX);
  EXPECT_TRUE(std::holds_alternative<fault::Recall>(rule->action));
}

TEST(FaultRules, OfDelegationsAndChangeAttributes) {
  EXPECT_TRUE(std::holds_alternative<fault::Revoke>(parse_fault_rule("reply OPEN: revoke")->action));
  for (const auto& [word, told] : {std::pair{"true", tree::ChangeTold::kTrue},
                                   {"frozen", tree::ChangeTold::kFrozen},
                                   {"restless", tree::ChangeTold::kRestless},
                                   {"backwards", tree::ChangeTold::kBackwards}}) {
    const auto rule = parse_fault_rule(std::string("request: change ") + word);
    ASSERT_TRUE(rule) << word;
    EXPECT_EQ(std::get<fault::TellChange>(rule->action).told, told) << word;
  }
}

TEST(FaultRules, OfTheTransport) {
  const auto error = parse_fault_rule("header nth 5: error WRITE_RESOURCE 1 9000");
  ASSERT_TRUE(error) << error.error().cause;
  EXPECT_EQ(error->trigger.kind, FaultEvent::Kind::kHeader);
  EXPECT_EQ(std::get<fault::RefuseHeader>(error->action).error,
            (rpcrdma::error{rpcrdma::RDMA2_ERR_WRITE_RESOURCE, 1, 9000}));
  const auto credits = parse_fault_rule("reply READ: credits 0");
  ASSERT_TRUE(credits);
  EXPECT_EQ(std::get<fault::Credits>(credits->action).granted, 0u);
  const auto slots = parse_fault_rule("request: slots 3");
  ASSERT_TRUE(slots);
  EXPECT_EQ(std::get<fault::Slots>(slots->action).target, 3u);
  const auto behind = parse_fault_rule("reply: behind 2");
  ASSERT_TRUE(behind);
  EXPECT_EQ(std::get<fault::HoldBehind>(behind->action).replies, 2u);
}

TEST(FaultRules, ActionsThatMeanNothingToAnEvent_AreRefused) {
  for (const char* line :
       {"header: delay 1", "header: answer OPEN DELAY", "request: error CHUNK", "accept: restart",
        "request: truncate 4", "reply: answer OPEN DELAY", "request: duplicate"}) {
    EXPECT_FALSE(parse_fault_rule(line)) << line;
  }
  for (const char* line : {"header: cut", "accept: garbage 9", "reply: garbage 9", "request: expire"}) {
    EXPECT_TRUE(parse_fault_rule(line)) << line;
  }
}

TEST(FaultRules, RefuseWhatTheyDoNotKnow) {
  for (const char* line : {"",
                           "reply",
                           "reply READ cut",
                           "sometimes: cut",
                           "reply REED: cut",
                           "reply nth: cut",
                           "reply nth 0: cut",
                           "reply times x: cut",
                           "reply every 0: cut",
                           "reply: recall 1",
                           "reply: change",
                           "reply: change sometimes",
                           "reply:",
                           "reply: explode",
                           "reply: delay",
                           "reply: delay x",
                           "reply: delay 1 2",
                           "reply: cut 1",
                           "reply: answer OPEN",
                           "reply: answer OPEN NONSENSE",
                           "reply: answer REED DELAY",
                           "header: error",
                           "header: error ODD",
                           "header: error CHUNK x",
                           "header: error CHUNK 1 2 3",
                           "reply: slots",
                           "reply: credits"}) {
    const auto rule = parse_fault_rule(line);
    ASSERT_FALSE(rule) << line;
    EXPECT_EQ(rule.error().errnum, EINVAL);
    EXPECT_FALSE(rule.error().cause.empty());
  }
}

TEST(FaultRules, AFileHasOneALine) {
  const auto rules = parse_fault_rules("# comment\n\naccept: cut\n  reply READ: drop # why\n");
  ASSERT_TRUE(rules) << rules.error().cause;
  ASSERT_EQ(rules->size(), 2u);
  EXPECT_EQ((*rules)[0].trigger.kind, FaultEvent::Kind::kAccept);
  const auto wrong = parse_fault_rules("reply: cut\n\nreply: explode\n");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().cause.find("line 3"), std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::filer::test
