// SPDX-License-Identifier: Apache-2.0
// whose_change() and decide(): every row of their tables, with every combination that a row leaves open.
#include "client/core/attributes/attribute_decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/client/support/constants.h"

namespace nfsrdma::test {
namespace {

using client::ArrivedAttributes;
using client::AttributeCache;
using client::Cause;
using client::Decision;
using client::KnownContents;
using client::OwnChanges;
using client::Ownership;
using Data = client::Decision::Data;
using Update = client::AttributeCache::Update;

constexpr uint64_t kKnown = 100, kOther = 107;
constexpr std::array kCauses{Cause::kAsked, Cause::kOwn, Cause::kOpened, Cause::kCreated};
constexpr std::array kUpdates{Update::kFirst, Update::kUnchanged, Update::kChanged, Update::kIgnored};

// All inputs of the two functions.
struct Situation {
  KnownContents known;
  ArrivedAttributes arrived;
  bool gap_before = false;  // there is a gap already: another client's change between ours
  std::string text() const {
    return "cause " + std::to_string(static_cast<int>(arrived.cause)) + ", change " +
           std::to_string(arrived.change) + ", before " +
           (arrived.before ? std::to_string(*arrived.before) : "absent") + (known.known ? ", known" : "") +
           (known.promised ? ", promised" : "") + (known.open ? ", open" : "") +
           (known.writing ? ", writing" : "") + (arrived.directory ? ", directory" : "") +
           (gap_before ? ", gap" : "") +
           (known.kernel_knows ? ", kernel knows " + std::to_string(known.kernel_change) : "");
  }
};

void for_each_situation(const std::function<void(const Situation&)>& visit) {
  for (Cause cause : kCauses)
    for (bool directory : kBooleans)
      for (bool known : kBooleans)
        for (bool promised : kBooleans)
          for (bool open : kBooleans)
            for (bool writing : kBooleans)
              for (bool gap : kBooleans)
                for (uint64_t change : {kKnown, kOther})
                  for (std::optional<uint64_t> before :
                       {std::optional<uint64_t>(), std::optional(kKnown), std::optional(kOther - 2)}) {
                    if ((open && directory) || (writing && !open) || (gap && !open)) continue;
                    Situation s;
                    s.known = {.promised = promised,
                               .known = known,
                               .contents_change = kKnown,
                               .change = kKnown,
                               .open = open,
                               .writing = writing};
                    s.arrived = {.directory = directory, .cause = cause, .change = change, .before = before};
                    s.gap_before = gap;
                    visit(s);
                  }
}

OwnChanges own_changes(const Situation& s) {
  OwnChanges own;
  if (s.gap_before) own.follow(kKnown, kOther + 10, kOther + 20);
  return own;
}

Ownership whose(const Situation& s) {
  OwnChanges own = own_changes(s);
  return client::whose_change(s.known, s.arrived, s.known.open ? &own : nullptr);
}

// A row of the table above Ownership. Absent: any.
struct WhoseRow {
  const char* name;
  std::function<bool(const Situation&)> fits;
  std::function<bool(const Situation&)> ours;
  std::function<uint64_t(const Situation&)> contents_change;
};

uint64_t stays(const Situation& s) {
  return s.known.contents_change;
}
uint64_t before_of(const Situation& s) {
  return s.arrived.before.value_or(s.arrived.change);
}

const std::vector<WhoseRow>& whose_rows() {
  static const std::vector<WhoseRow> rows{
      {"another cause, not writing",
       [](const Situation& s) { return s.arrived.cause != Cause::kOwn && !s.known.writing; },
       [](const Situation&) { return false; }, stays},
      {"contents unknown", [](const Situation& s) { return !s.known.known; },
       [](const Situation&) { return true; }, stays},
      {"promised", [](const Situation& s) { return s.known.promised; }, [](const Situation&) { return true; },
       stays},
      {"directory, before absent",
       [](const Situation& s) { return s.arrived.directory && !s.arrived.before; },
       [](const Situation&) { return true; }, stays},
      {"directory", [](const Situation& s) { return s.arrived.directory; },
       [](const Situation& s) { return s.arrived.before == s.known.contents_change; }, stays},
      {"own, before absent",
       [](const Situation& s) { return s.arrived.cause == Cause::kOwn && !s.arrived.before; },
       [](const Situation&) { return true; },
       [](const Situation& s) { return std::max(s.known.contents_change, s.arrived.change); }},
      {"file, not open", [](const Situation& s) { return !s.known.open; },
       [](const Situation& s) { return before_of(s) == s.known.contents_change; }, stays},
      {"file, open", [](const Situation&) { return true; },
       [](const Situation& s) {
         OwnChanges own = own_changes(s);
         own.follow(kKnown, before_of(s), s.arrived.change);
         return !own.gaps() ||
                (s.known.writing && s.arrived.cause != Cause::kOpened && s.arrived.cause != Cause::kCreated);
       },
       [](const Situation& s) {
         OwnChanges own = own_changes(s);
         return own.follow(kKnown, before_of(s), s.arrived.change);
       }}};
  return rows;
}

TEST(AttributeDecision, WhoseChange_IsTheFirstRowThatFits) {
  std::set<std::string> seen;
  for_each_situation([&](const Situation& s) {
    const auto row =
        std::find_if(whose_rows().begin(), whose_rows().end(), [&](const WhoseRow& r) { return r.fits(s); });
    ASSERT_NE(row, whose_rows().end());
    seen.insert(row->name);
    const Ownership answer = whose(s);
    EXPECT_EQ(answer.ours, row->ours(s)) << row->name << ": " << s.text();
    EXPECT_EQ(answer.contents_change, row->contents_change(s)) << row->name << ": " << s.text();
  });
  EXPECT_EQ(seen.size(), whose_rows().size()) << "a row that nothing reaches";
}

// A row of the table above Decision.
struct DecideRow {
  const char* name;
  std::function<bool(bool taken, bool same, bool ours, bool promised)> fits;
  Data data;
  bool moves;  // contents_change becomes the arrived value, under the conditions of (1)
  std::function<bool(const Situation&)> good;
  std::function<bool(const Situation&, const Ownership&)> outdated;
};

bool if_known(const Situation& s) {
  return s.known.known;
}
bool never(const Situation&, const Ownership&) {
  return false;
}

const std::vector<DecideRow>& decide_rows() {
  static const std::vector<DecideRow> rows{
      {"ignored", [](bool taken, bool, bool, bool) { return !taken; }, Data::kStays, false, if_known,
       [](const Situation&, const Ownership& w) { return w.gaps && !w.ours; }},
      {"same", [](bool, bool same, bool, bool) { return same; }, Data::kConfirmed, true,
       [](const Situation&) { return true; }, never},
      {"ours under a promise", [](bool, bool, bool ours, bool promised) { return ours && promised; },
       Data::kConfirmed, true, if_known, never},
      {"ours", [](bool, bool, bool ours, bool) { return ours; }, Data::kDropped, true, if_known, never},
      {"another's", [](bool, bool, bool, bool) { return true; }, Data::kDropped, true,
       [](const Situation&) { return false; },
       [](const Situation& s, const Ownership&) {
         return s.known.known && !s.arrived.directory && !s.arrived.kernel_drops;
       }}};
  return rows;
}

TEST(AttributeDecision, Contents_AreDecidedByTheFirstRowThatFits) {
  std::set<std::string> seen;
  for_each_situation([&](Situation s) {
    for (Update update : kUpdates)
      for (bool kernel_drops : kBooleans) {
        s.arrived.kernel_drops = kernel_drops;
        const bool taken = update != Update::kIgnored;
        const bool same = s.known.known && s.known.contents_change == s.arrived.change;
        const Ownership w = whose(s);
        const auto row = std::find_if(decide_rows().begin(), decide_rows().end(), [&](const DecideRow& r) {
          return r.fits(taken, same, w.ours, s.known.promised);
        });
        ASSERT_NE(row, decide_rows().end());
        seen.insert(row->name);
        const Decision d = client::decide(s.known, s.arrived, w, update);
        const bool opened = s.arrived.cause == Cause::kOpened || s.arrived.cause == Cause::kCreated;
        const bool learns = row->moves && (s.known.known || s.arrived.directory || opened);
        const bool followed =
            w.ours && s.known.known && s.known.open && !s.arrived.directory && !s.known.promised;
        EXPECT_EQ(d.data, row->data) << row->name << ": " << s.text();
        EXPECT_EQ(d.good, row->good(s)) << row->name << ": " << s.text();
        EXPECT_EQ(d.outdated, row->outdated(s, w)) << row->name << ": " << s.text();
        EXPECT_EQ(d.contents_known, s.known.known || learns) << row->name << ": " << s.text();
        EXPECT_EQ(d.contents_change, learns && !followed ? s.arrived.change : w.contents_change)
            << row->name << ": " << s.text();
        EXPECT_EQ(d.mixed, taken && w.ours && !same && s.known.known) << s.text();
        EXPECT_EQ(d.names_epoch_ends, taken && s.arrived.directory && !d.good) << s.text();
      }
  });
  EXPECT_EQ(seen.size(), decide_rows().size()) << "a row that nothing reaches";
}

TEST(AttributeDecision, WhatTheKernelKnows_MovesOrIsTakenBack) {
  for_each_situation([&](Situation s) {
    for (Update update : kUpdates)
      for (bool same_rights : kBooleans)
        for (bool withdrawn : kBooleans)
          for (uint64_t kernel_change : {kKnown, kKnown - 1}) {
            s.arrived.same_rights = same_rights;
            s.arrived.search_withdrawn = withdrawn;
            s.arrived.kernel_drops = true;  // so that only the kernel's attributes make contents outdated
            s.known.kernel_knows = true;
            s.known.kernel_change = kernel_change;
            const bool taken = update != Update::kIgnored;
            const Ownership w = whose(s);
            const Decision d = client::decide(s.known, s.arrived, w, update);
            EXPECT_EQ(d.access_moves, taken && w.ours && s.known.promised && same_rights) << s.text();
            EXPECT_EQ(d.kernel_change_moves, taken && w.ours && kernel_change == s.known.change) << s.text();
            EXPECT_EQ(d.kernel_forgets_rights, taken && w.ours && !same_rights && s.known.writing)
                << s.text();
            EXPECT_EQ(d.kernel_forgets_names, taken && withdrawn) << s.text();
            const bool opened = s.arrived.cause == Cause::kOpened || s.arrived.cause == Cause::kCreated;
            const uint64_t told = d.kernel_change_moves ? s.arrived.change : kernel_change;
            const uint64_t now = taken ? s.arrived.change : s.known.change;
            EXPECT_EQ(d.outdated, (opened && told != now) || (!taken && w.gaps && !w.ours)) << s.text();
          }
  });
}

// RFC 8881 section 10.3.1: "Revalidating means that the client fetches the change attribute from the server,
// compares it with the cached change attribute, and if different, declares the cached data (as well as the
// cached attributes) as invalid."
TEST(AttributeDecision, OpenThatFindsAnotherChangeAttribute_DropsData) {
  const KnownContents known{.known = true, .contents_change = kKnown, .change = kKnown};
  ArrivedAttributes arrived;
  arrived.cause = Cause::kOpened;
  arrived.change = kOther;
  const Ownership w = client::whose_change(known, arrived, nullptr);
  const Decision d = client::decide(known, arrived, w, Update::kChanged);
  EXPECT_EQ(d.data, Data::kDropped);
  EXPECT_TRUE(d.outdated);
  EXPECT_FALSE(d.good);
  EXPECT_EQ(d.contents_change, kOther);
}

}  // namespace
}  // namespace nfsrdma::test
