// SPDX-License-Identifier: Apache-2.0
// FileWrites: every row of its tables, and random events against a map of the file's bytes and a server that
// restarts, fails and answers in any order.
#include "client/core/write/file_writes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/client/support/constants.h"

namespace nfsrdma::test {
namespace {

using client::FileWrites;
using client::HeldExtents;
using client::IoAccount;
using client::WriteExtent;
using client::WriteExtentStates;
using client::Written;
using Extent = FileWrites::Extent;
using Gate = FileWrites::Gate;
using Join = FileWrites::Joined::Result;
using Restored = FileWrites::Restored;
using State = WriteExtent::State;

// RFC 8881 section 18.3.4: "When a response is returned from either a WRITE or a COMMIT operation and it
// contains a write verifier that differs from that previously returned by the server, the client will need to
// retransmit all of the buffers containing uncommitted data to the server."
TEST(WriteExtentStates, Lost_IsSentAgainAndNothingElse) {
  using Machine = StateMachine<WriteExtentStates>;
  constexpr std::array all{State::kNew,      State::kHeld,       State::kSent,
                           State::kUnstable, State::kCommitting, State::kLost};
  for (const State state : all) {
    EXPECT_FALSE(Machine::may(state, State::kNew));
    EXPECT_EQ(Machine::may(State::kLost, state), state == State::kSent);
    // Only a COMMIT shows a loss, and only what a WRITE left unstable is committed.
    EXPECT_EQ(Machine::may(state, State::kLost), state == State::kCommitting);
    EXPECT_EQ(Machine::may(state, State::kCommitting), state == State::kUnstable);
  }
}

constexpr size_t kKiB = 1024;
constexpr uint64_t kEpoch = 5;
constexpr TimePoint kWriteTime{std::chrono::seconds(1000)};

IoAccount account_of(uint32_t uid) {
  IoAccount account;
  account.credential = std::make_shared<rpc::Credential>("machine", uid, uid, std::vector<uint32_t>{});
  return account;
}

// A file's FileWrites with the memory that its data lies in.
class FileWritesTest : public testing::Test {
 protected:
  BufferPool pool;
  const IoAccount account = account_of(1000), other_account = account_of(1001);

  Slice data(size_t size) { return pool.slice(size); }
  // Sends a write of its own. It must not have to wait.
  Extent send(FileWrites& file, uint64_t offset, size_t size) {
    FileWrites::Place place{offset, offset + size};
    WriteExtent extent;
    extent.offset = offset;
    extent.data = data(size);
    extent.account = account;
    const auto admission = file.admit(place, extent);
    EXPECT_EQ(admission.gate, Gate::kOpen);
    return admission.extent;
  }
  bool hold(FileWrites& file, uint64_t offset, size_t size) {
    const Slice slice = data(size);
    return file.hold({account, offset, slice, 1u << 20}, kWriteTime).held;
  }
  void make_unstable(FileWrites& file, uint64_t offset, size_t size, uint64_t verifier,
                     uint64_t epoch = kEpoch) {
    const auto reply = Written{nfs4::UNSTABLE4, nfs4::verifier4::of(verifier)};
    (void)file.answered(send(file, offset, size), reply, epoch, kWriteTime);
  }
  static size_t count(const FileWrites& file, State wanted) {
    size_t n = 0;
    file.each([&](const WriteExtent& e) { n += e.state.get() == wanted ? 1 : 0; });
    return n;
  }
  static size_t size(const FileWrites::Sends& sends) {
    return static_cast<size_t>(std::distance(sends.begin(), sends.end()));
  }
};

// --- the replies ---

struct WriteReply {
  const char* name;
  Result<Written> reply;
};

std::vector<WriteReply> write_replies() {
  const auto verifier = nfs4::verifier4::of(7);
  return {{"FILE_SYNC", Written{nfs4::FILE_SYNC4, verifier}},
          {"DATA_SYNC", Written{nfs4::DATA_SYNC4, verifier}},
          {"UNSTABLE", Written{nfs4::UNSTABLE4, verifier}},
          {"ENOSPC", fail(system_error(ENOSPC, "WRITE"))},
          {"EIO", fail(system_error(EIO, "WRITE"))}};
}

TEST_F(FileWritesTest, EveryReplyToWrite_MovesTheExtentByTheTable) {
  constexpr size_t kSize = 4 * kKiB;
  for (const WriteReply& r : write_replies()) {
    for (bool unstable_before : kBooleans) {
      for (bool other_sent : kBooleans) {
        for (bool held : kBooleans) {
          SCOPED_TRACE(std::string(r.name) + (unstable_before ? ", unstable before" : "") +
                       (other_sent ? ", another is sent" : "") + (held ? ", held until an answer" : ""));
          FileWrites file;
          if (unstable_before) make_unstable(file, 0, kSize, 7, kEpoch - 1);
          const Extent extent = send(file, kSize, kSize);
          // Two large writes make the server busy, so that the third one is held until an answer.
          std::optional<Extent> other;
          if (other_sent || held) other = send(file, 1u << 20, kSize);
          if (held) {
            ASSERT_TRUE(hold(file, 2u << 20, 64 * kKiB));
          }

          const auto answered = file.answered(extent, r.reply, kEpoch, kWriteTime);

          const bool error = !r.reply, stable = !error && r.reply->committed == nfs4::FILE_SYNC4;
          const bool less = !error && !stable;
          EXPECT_EQ(answered.refused, error ? std::optional<uint64_t>(kSize) : std::nullopt);
          EXPECT_EQ(answered.freed.size(), less ? 0u : 1u);
          EXPECT_EQ(size(answered.send), held ? 1u : 0u);
          EXPECT_EQ(file.errors(), error ? 1u : 0u);
          if (error) {
            EXPECT_EQ(file.latest_error().errnum, r.reply.error().errnum);
          }
          EXPECT_EQ(count(file, State::kUnstable), (less ? 1u : 0u) + (unstable_before ? 1u : 0u));
          EXPECT_EQ(file.unstable_bytes(), kSize * ((less ? 1 : 0) + (unstable_before ? 1 : 0)));
          EXPECT_EQ(file.writing(), other_sent || held);
          EXPECT_EQ(file.uncommitted(), less || unstable_before);
          // The oldest epoch counts.
          const auto old = unstable_before ? Restored::kCommit : Restored::kYes;
          EXPECT_EQ(file.restored(kEpoch), old);
          EXPECT_TRUE(file.consistent());
        }
      }
    }
  }
}

TEST_F(FileWritesTest, TheFirstUnstableReply_SetsTheAge) {
  FileWrites file;
  make_unstable(file, 0, 100, 7);
  const auto reply = Written{nfs4::UNSTABLE4, nfs4::verifier4::of(7)};
  (void)file.answered(send(file, 100, 100), reply, kEpoch, kWriteTime + std::chrono::seconds(5));
  EXPECT_FALSE(file.unstable_since(kWriteTime - std::chrono::seconds(1)));
  EXPECT_TRUE(file.unstable_since(kWriteTime));
}

// Three unstable extents, of which some have the verifier that COMMIT returns.
TEST_F(FileWritesTest, EveryReplyToCommit_MovesTheExtentsByTheTable) {
  constexpr size_t kSize = 1000;
  for (unsigned same = 0; same < 8; ++same) {
    for (bool error : kBooleans) {
      for (bool overwritten : kBooleans) {
        SCOPED_TRACE("same verifier: " + std::to_string(same) + (error ? ", error" : "") +
                     (overwritten ? ", the second one overwritten" : ""));
        FileWrites file;
        for (unsigned i = 0; i < 3; ++i)
          make_unstable(file, 2 * i * kSize, kSize, (same >> i & 1) != 0 ? 7 : 8);
        const auto commit = file.begin_commit();
        ASSERT_TRUE(commit);
        EXPECT_EQ(commit->offset, 0u);
        EXPECT_EQ(commit->end, 5 * kSize);
        EXPECT_TRUE(commit->credential->same_user(*account.credential));
        EXPECT_FALSE(file.begin_commit()) << "nothing is unstable";
        EXPECT_EQ(file.restored(kEpoch), Restored::kYes);
        EXPECT_EQ(file.restored(kEpoch + 1), Restored::kWait);
        if (overwritten) (void)send(file, 2 * kSize, kSize);

        Result<nfs4::verifier4> reply = nfs4::verifier4::of(7);
        if (error) reply = fail(system_error(EDQUOT, "COMMIT"));
        const auto committed = file.committed(reply);

        std::set<uint64_t> lost;
        for (unsigned i = 0; i < 3; ++i) {
          if (!error && (same >> i & 1) == 0 && !(overwritten && i == 1)) lost.insert(2 * i * kSize);
        }
        const uint64_t bytes = (overwritten ? 2 : 3) * kSize;
        EXPECT_EQ(committed.refused, error ? std::optional(bytes) : std::nullopt);
        EXPECT_EQ(committed.lost, !lost.empty());
        EXPECT_EQ(file.errors(), error ? 1u : 0u);
        EXPECT_EQ(file.bytes().uncommitted, lost.size() * kSize);
        std::set<uint64_t> again;
        while (const auto extent = file.take_lost()) again.insert((*extent)->second.offset);
        EXPECT_EQ(again, lost);
        EXPECT_EQ(file.bytes().uncommitted, 0u);
        EXPECT_EQ(file.bytes().unanswered, (lost.size() + (overwritten ? 1 : 0)) * kSize);
        EXPECT_TRUE(file.uncommitted()) << "the COMMIT is not over";
        file.end_commit();
        EXPECT_FALSE(file.uncommitted());
        EXPECT_TRUE(file.consistent());
      }
    }
  }
}

TEST_F(FileWritesTest, AVerifierThatChangesEveryTime_GivesTheDataUp) {
  FileWrites file;
  EXPECT_FALSE(file.give_up_commit()) << "nothing is unstable";
  make_unstable(file, 0, 100, 7);
  make_unstable(file, 500, 100, 8);
  EXPECT_EQ(file.give_up_commit(), std::optional<uint64_t>(200));
  EXPECT_EQ(file.latest_error().errnum, EIO);
  EXPECT_FALSE(file.unsaved());
  EXPECT_TRUE(file.consistent());
}

// --- before a READ ---

TEST_F(FileWritesTest, EveryReadGate_FollowsTheTable) {
  enum class Sent { kNone, kThisEpoch, kBefore };
  for (bool overlapped : kBooleans) {
    for (Sent committing : {Sent::kNone, Sent::kThisEpoch, Sent::kBefore}) {
      for (Sent unstable : {Sent::kNone, Sent::kThisEpoch, Sent::kBefore}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(committing)) + " " +
                     std::to_string(static_cast<int>(unstable)) + (overlapped ? " overlapped" : ""));
        FileWrites file;
        const auto epoch = [](Sent d) { return d == Sent::kThisEpoch ? kEpoch : kEpoch - 1; };
        if (committing != Sent::kNone) {
          make_unstable(file, 0, 100, 7, epoch(committing));
          ASSERT_TRUE(file.begin_commit());
        }
        if (unstable != Sent::kNone) make_unstable(file, 1000, 100, 7, epoch(unstable));
        if (overlapped) (void)send(file, 2000, 100);
        const Restored restored = committing == Sent::kBefore ? Restored::kWait
                                  : unstable == Sent::kBefore ? Restored::kCommit
                                                              : Restored::kYes;
        EXPECT_EQ(file.restored(kEpoch), restored);
        EXPECT_EQ(file.readable(2050, 2060, kEpoch), restored == Restored::kYes && !overlapped);
        EXPECT_EQ(file.readable(3000, 3100, kEpoch), restored == Restored::kYes);
        EXPECT_EQ(file.clearance(2050, 2060).gate, overlapped ? Gate::kWait : Gate::kOpen);
        // What an earlier server has answered counts; unanswered data always does.
        uint64_t end = 0;
        if (committing == Sent::kBefore) end = 100;
        if (unstable == Sent::kBefore) end = 1100;
        if (overlapped) end = 2100;
        EXPECT_EQ(file.written_end(kEpoch), end);
      }
    }
  }
}

// --- where a write goes ---

struct WriteSituation {
  bool same_account, fits, waits, in_the_way, in_memory, large, room;
  std::string text() const {
    return std::string(same_account ? "same account " : "") + (fits ? "fits " : "") +
           (waits ? "a write waits " : "") + (in_the_way ? "unanswered data in the way " : "") +
           (in_memory ? "follows in memory " : "") + (large ? "large " : "") + (room ? "room" : "");
  }
};

void for_each_write_situation(const std::function<void(const WriteSituation&)>& visit) {
  for (unsigned bits = 0; bits < 128; ++bits)
    visit({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0,
           (bits & 32) != 0, (bits & 64) != 0});
}

// 4 KiB are held, and data is written behind them.
TEST_F(FileWritesTest, EveryJoin_FollowsTheTable) {
  constexpr size_t kHeld = 4 * kKiB;
  for_each_write_situation([&](const WriteSituation& s) {
    SCOPED_TRACE(s.text());
    FileWrites file;
    const Slice memory = data(512 * kKiB);
    const size_t bytes = s.large ? 64 * kKiB : 64 * kKiB - 1;
    const Slice first = memory.first(kHeld);
    ASSERT_TRUE(file.hold({account, 0, first, 1u << 20}, kWriteTime).held);
    // Something that lies behind, in the range or just outside.
    (void)send(file, s.in_the_way ? kHeld + bytes - 1 : kHeld + bytes, 10);
    FileWrites::Place place{10u << 20, 11u << 20};
    if (s.waits) {
      (void)send(file, 10u << 20, 10);
      WriteExtent waiting;
      waiting.offset = 10u << 20;
      waiting.data = data(10);
      ASSERT_EQ(file.admit(place, waiting).gate, Gate::kWait);
    }
    const Slice next = s.in_memory ? memory.subslice(kHeld, bytes) : data(bytes);
    const auto wsize = static_cast<uint32_t>(s.fits ? kHeld + bytes : kHeld + bytes - 1);
    const FileWrites::NewData arrived{s.same_account ? account : other_account, kHeld, next, wsize};
    BufferRef larger;
    if (s.room) larger = pool.get(128 * kKiB);

    const auto join = file.join(arrived, larger);

    const bool may = s.same_account && s.fits && !s.waits && !s.in_the_way;
    Join expected = Join::kApart;
    if (may && s.in_memory) expected = Join::kJoined;
    if (may && !s.in_memory && !s.large) expected = s.room ? Join::kJoined : Join::kNeedsRoom;
    EXPECT_EQ(join.result, expected);
    // Without a buffer of its own the held extent is large now, and fewer than two WRITEs are under way: it
    // does not wait for more.
    EXPECT_EQ(size(join.send), expected == Join::kJoined && s.in_memory ? 1u : 0u);
    if (expected == Join::kNeedsRoom) {
      EXPECT_GE(join.room, kHeld + bytes);
      EXPECT_LE(join.room, wsize);
    }
    size_t end = 0;
    file.each([&](const WriteExtent& e) {
      if (e.offset == 0) end = e.end();
    });
    EXPECT_EQ(end, expected == Join::kJoined ? kHeld + bytes : kHeld);
    file.leave(place);
    EXPECT_TRUE(file.consistent());
  });
}

TEST_F(FileWritesTest, EveryHold_FollowsTheTable) {
  for (size_t held = 0; held <= HeldExtents::kMax; ++held) {
    for (size_t sent = 0; sent <= 2; ++sent) {
      for (bool large : kBooleans) {
        for (bool neighbour : kBooleans) {
          for (bool waits : kBooleans) {
            for (bool overlapped : kBooleans) {
              SCOPED_TRACE(std::to_string(held) + " held, " + std::to_string(sent) + " sent" +
                           (large ? ", large" : "") + (neighbour ? ", neighbour" : "") +
                           (waits ? ", a write waits" : "") + (overlapped ? ", overlapped" : ""));
              FileWrites file;
              // Places 1 MiB apart; the new data is behind the newest one or far away.
              for (size_t i = 0; i < held; ++i) ASSERT_TRUE(hold(file, i << 20, 4 * kKiB));
              for (size_t i = 0; i < sent; ++i) (void)send(file, (100 + i) << 20, 10);
              FileWrites::Place place{100u << 20, 101u << 20};
              WriteExtent waiting;
              waiting.offset = 100u << 20;
              waiting.data = data(10);
              const bool some_wait = waits && sent != 0;
              if (some_wait) {
                ASSERT_EQ(file.admit(place, waiting).gate, Gate::kWait);
              }
              const bool next_to = neighbour && held != 0;
              const uint64_t offset = next_to ? ((held - 1) << 20) + 4 * kKiB : 50u << 20;
              const size_t bytes = large ? 64 * kKiB : 64 * kKiB - 1;
              if (overlapped) (void)send(file, offset + 1, 1);

              const Slice slice = data(bytes);
              const auto hold = file.hold({account, offset, slice, 1u << 20}, kWriteTime);

              size_t taken = next_to ? 1 : 0;
              if (held == HeldExtents::kMax) taken += 1;  // the oldest one is no neighbour here
              if (large) taken = held;
              EXPECT_EQ(size(hold.send), taken);
              const size_t under_way = sent + taken + (overlapped ? 1 : 0);
              const bool free = !some_wait && !overlapped && held - taken < HeldExtents::kMax;
              EXPECT_EQ(hold.held, free && (!large || (held == taken && under_way >= 2)));
              file.leave(place);
              EXPECT_TRUE(file.consistent());
            }
          }
        }
      }
    }
  }
}

TEST_F(FileWritesTest, TakeOnly_IsForTheOnlyDataOfTheFile) {
  for (size_t extents = 0; extents <= 2; ++extents) {
    for (bool is_held : kBooleans) {
      for (bool unstable : kBooleans) {
        for (bool committing : kBooleans) {
          for (bool with_user : kBooleans) {
            for (bool same_user : kBooleans) {
              FileWrites file;
              if (committing) {
                make_unstable(file, 1u << 20, 100, 7);
                ASSERT_TRUE(file.begin_commit());
              }
              if (unstable) make_unstable(file, 2u << 20, 100, 7);
              for (size_t i = 0; i < extents; ++i) {
                const bool is_new =
                    is_held ? hold(file, i * 1000, 100) : send(file, i * 1000, 100)->second.end() != 0;
                ASSERT_TRUE(is_new);
              }
              const IoAccount& user = same_user ? account : other_account;
              const auto only = file.take_only(with_user ? user.credential.get() : nullptr);
              EXPECT_EQ(only.has_value(),
                        extents == 1 && is_held && !unstable && (!with_user || (same_user && !committing)));
              EXPECT_TRUE(file.consistent());
            }
          }
        }
      }
    }
  }
}

// --- the order of waiting writes ---

TEST_F(FileWritesTest, AWrite_WaitsForEarlierOnesThatOverlapIt) {
  FileWrites file;
  const auto part = [&](uint64_t offset, size_t bytes) {
    WriteExtent extent;
    extent.offset = offset;
    extent.data = data(bytes);
    extent.account = account;
    return extent;
  };
  const Extent sent = send(file, 0, 100);
  FileWrites::Place second{50, 300}, third{200, 400}, fourth{500, 600};
  WriteExtent a = part(50, 250), b = part(200, 200), c = part(500, 100);
  EXPECT_EQ(file.admit(second, a).gate, Gate::kWait) << "for what is sent";
  EXPECT_EQ(file.admit(third, b).gate, Gate::kWait) << "for the second, which waits itself";
  EXPECT_EQ(file.admit(fourth, c).gate, Gate::kOpen) << "it overlaps nothing";
  const uint64_t now = file.next_serial();
  (void)file.answered(sent, Written{nfs4::FILE_SYNC4, {}}, kEpoch, kWriteTime);
  EXPECT_EQ(file.admit(third, b).gate, Gate::kWait);
  const auto first_part = file.admit(second, a);
  ASSERT_EQ(first_part.gate, Gate::kOpen);
  file.leave(second);
  EXPECT_EQ(file.admit(third, b).gate, Gate::kWait) << "now for what the second has sent";
  EXPECT_FALSE(file.answered_before(now)) << "both began before";
  (void)file.answered(first_part.extent, Written{nfs4::FILE_SYNC4, {}}, kEpoch, kWriteTime);
  ASSERT_EQ(file.admit(third, b).gate, Gate::kOpen);
  file.leave(third);
  EXPECT_TRUE(file.consistent());
}

TEST_F(FileWritesTest, AWriteOverHeldData_SendsItFirst) {
  FileWrites file;
  ASSERT_TRUE(hold(file, 0, 100));
  ASSERT_TRUE(hold(file, 1000, 100));
  FileWrites::Place place{50, 150};
  WriteExtent extent;
  extent.offset = 50;
  extent.data = data(100);
  const auto admission = file.admit(place, extent);
  EXPECT_EQ(admission.gate, Gate::kAgain);
  EXPECT_EQ(size(admission.send), 2u);
  EXPECT_EQ(file.admit(place, extent).gate, Gate::kWait);
  file.leave(place);
}

// --- random events ---

constexpr uint64_t kUnit = 16 * kKiB, kUnits = 40;
constexpr uint32_t kWsize = 8 * kUnit;
using Tag = uint32_t;  // of a write(2); 0: nothing

// The tags that lie at the beginnings of the units of `data`.
std::vector<Tag> tags_in(const Slice& data) {
  std::vector<Tag> tags(data.size() / kUnit);
  for (size_t i = 0; i < tags.size(); ++i) std::memcpy(&tags[i], &data.bytes[i * kUnit], sizeof(Tag));
  return tags;
}

// An NFS server as far as it stores data.
struct Server {
  std::array<Tag, kUnits> stable{}, cached{};
  uint64_t verifier = 100, epoch = 1;

  Tag at(size_t unit) const { return cached[unit] != 0 ? cached[unit] : stable[unit]; }
  uint64_t size() const {
    uint64_t units = kUnits;
    while (units != 0 && at(units - 1) == 0) --units;
    return units * kUnit;
  }
  Written write(uint64_t offset, const std::vector<Tag>& tags, nfs4::stable_how4 how) {
    for (size_t i = 0; i < tags.size(); ++i) {
      const size_t unit = offset / kUnit + i;
      (how == nfs4::FILE_SYNC4 ? stable : cached)[unit] = tags[i];
      if (how == nfs4::FILE_SYNC4) cached[unit] = 0;
    }
    return {how, nfs4::verifier4::of(verifier)};
  }
  nfs4::verifier4 commit(uint64_t offset, uint64_t end) {
    for (size_t unit = offset / kUnit; unit < end / kUnit; ++unit) {
      if (cached[unit] != 0) stable[unit] = std::exchange(cached[unit], 0);
    }
    return nfs4::verifier4::of(verifier);
  }
  void restart() {
    cached = {};
    ++verifier;
    ++epoch;
  }
};

// A file, its server, and what the file must be.
class Simulation {
 public:
  void step() {
    switch (*rc::gen::weightedElement<int>({{10, 0},
                                            {4, 1},
                                            {8, 2},
                                            {8, 3},
                                            {1, 4},
                                            {3, 5},
                                            {3, 6},
                                            {3, 7},
                                            {1, 8},
                                            {2, 9},
                                            {1, 10},
                                            {1, 11}})) {
      case 0: write(*rc::gen::weightedElement<bool>({{1, true}, {4, false}})); break;
      case 1: go_on(any(writers_.size())); break;
      case 2: execute(any(sent_.size())); break;
      case 3: reply(any(sent_.size())); break;
      case 4: refuse(any(sent_.size())); break;
      case 5: begin_commit(); break;
      case 6: execute_commit(); break;
      case 7: end_commit(false); break;
      case 8: server_.restart(); break;
      case 9: send(file_.take_held_since(TimePoint(Duration(any_time())))); break;
      case 10:
        if (const auto only = file_.take_only()) sent(*only, nfs4::FILE_SYNC4);
        break;
      case 11: end_commit(true); break;
      default: break;
    }
    check();
  }

  // Everything is answered and committed.
  void finish() {
    for (int i = 0; i < 1000 && (file_.unsaved() || commit_); ++i) {
      send(file_.take_held());
      while (!sent_.empty()) {
        execute(0);
        reply(0);
      }
      for (size_t w = writers_.size(); w-- > 0;) go_on(w);
      if (!commit_) begin_commit();
      execute_commit();
      end_commit(false);
      check();
    }
    RC_ASSERT(!file_.unsaved());
    RC_ASSERT(file_.bytes() == FileWrites::Bytes{});
    for (size_t unit = 0; unit < kUnits; ++unit)
      if (!refused_[unit]) RC_ASSERT(server_.stable[unit] == expected_[unit]);
  }

 private:
  struct SentWrite {
    Extent extent;
    nfs4::stable_how4 how;
    uint64_t epoch;
    std::vector<Tag> tags;
    std::optional<Written> executed;
  };
  struct Writer {
    FileWrites::Place place;
    const IoAccount& account;
    Tag tag;
    Slice data;
    uint64_t offset;
  };
  struct Committing {
    FileWrites::Commit request;
    std::optional<nfs4::verifier4> executed;
    std::optional<uint64_t> lost_sent;  // what was lost is sent again, with serials below
  };

  static size_t any(size_t size) { return size == 0 ? 0 : *rc::gen::inRange<size_t>(0, size); }
  int64_t any_time() const { return *rc::gen::inRange<int64_t>(0, now_ + 1); }

  void write(bool through) {
    const uint64_t first = *rc::gen::inRange<uint64_t>(0, kUnits);
    const uint64_t units = *rc::gen::inRange<uint64_t>(1, std::min<uint64_t>(12, kUnits - first) + 1);
    // Now and then the end of the latest write, and its memory.
    const bool stream =
        *rc::gen::arbitrary<bool>() && memory_.size() >= units * kUnit && stream_end_ + units <= kUnits;
    if (!stream) memory_ = pool_.slice(2u << 20);
    const uint64_t offset = (stream ? stream_end_ : first) * kUnit;
    const Tag tag = ++tags_;
    const Slice data = memory_.first(units * kUnit);
    memory_.bytes = memory_.bytes.subspan(data.size());
    stream_end_ = offset / kUnit + units;
    for (size_t i = 0; i < units; ++i) std::memcpy(&data.bytes[i * kUnit], &tag, sizeof tag);
    const IoAccount& account = accounts_[any(accounts_.size())];
    if (!through && gather(account, offset, data, tag)) return;
    writers_.push_back({{offset, offset + data.size()}, account, tag, data, offset});
    go_on(writers_.size() - 1);
  }

  bool gather(const IoAccount& account, uint64_t offset, const Slice& data, Tag tag) {
    if (data.size() >= kWsize) return false;
    const FileWrites::NewData arrived{account, offset, data, kWsize};
    auto join = file_.join(arrived, {});
    if (join.result == Join::kNeedsRoom) join = file_.join(arrived, pool_.get(join.room));
    send(join.send);
    RC_ASSERT(join.result != Join::kNeedsRoom);
    if (join.result == Join::kJoined) written(offset, data.size(), tag);
    if (join.result == Join::kJoined) return true;
    const auto hold = file_.hold(arrived, TimePoint(Duration(++now_)));
    send(hold.send);
    if (hold.held) written(offset, data.size(), tag);
    return hold.held;
  }

  // Until the write waits or all of it is sent.
  void go_on(size_t w) {
    if (w >= writers_.size()) return;
    Writer& writer = *std::next(writers_.begin(), static_cast<std::ptrdiff_t>(w));
    while (writer.data.size() != 0) {
      WriteExtent extent;
      extent.offset = writer.offset;
      extent.data = writer.data.first(std::min<size_t>(writer.data.size(), kWsize));
      extent.account = writer.account;
      const size_t size = extent.data.size();
      const auto admission = file_.admit(writer.place, extent);
      send(admission.send);
      if (admission.gate == Gate::kWait) return;
      if (admission.gate == Gate::kAgain) continue;
      for (auto earlier = writers_.begin(); &*earlier != &writer; ++earlier)
        RC_ASSERT(earlier->place.end <= writer.place.offset || writer.place.end <= earlier->place.offset);
      sent(admission.extent, nfs4::UNSTABLE4);
      written(writer.offset, size, writer.tag);
      writer.offset += size;
      writer.data = writer.data.subslice(size, writer.data.size() - size);
    }
    file_.leave(writer.place);
    writers_.erase(std::next(writers_.begin(), static_cast<std::ptrdiff_t>(w)));
  }

  void written(uint64_t offset, size_t size, Tag tag) {
    for (size_t unit = offset / kUnit; unit < (offset + size) / kUnit; ++unit) {
      expected_[unit] = tag;
      refused_[unit] = false;
    }
  }
  void send(const FileWrites::Sends& extents) {
    for (const Extent extent : extents) sent(extent, nfs4::UNSTABLE4);
  }
  void sent(Extent extent, nfs4::stable_how4 how) {
    sent_.push_back({extent, how, server_.epoch, tags_in(extent->second.data), std::nullopt});
  }

  void execute(size_t i) {
    if (i >= sent_.size() || sent_[i].executed) return;
    SentWrite& w = sent_[i];
    RC_ASSERT(tags_in(w.extent->second.data) == w.tags);  // data that is sent does not change
    // A server may do more than it was asked for, and a wrong one less.
    const auto how = *rc::gen::weightedElement<nfs4::stable_how4>(
        {{6, w.how}, {1, nfs4::FILE_SYNC4}, {1, nfs4::DATA_SYNC4}, {1, nfs4::UNSTABLE4}});
    w.executed = server_.write(w.extent->second.offset, w.tags, how);
  }
  void reply(size_t i) {
    if (i >= sent_.size() || !sent_[i].executed) return;
    const auto answered = file_.answered(sent_[i].extent, *sent_[i].executed, sent_[i].epoch, TimePoint());
    RC_ASSERT(!answered.refused);
    sent_.erase(sent_.begin() + static_cast<std::ptrdiff_t>(i));
    send(answered.send);
  }
  void refuse(size_t i) {
    if (i >= sent_.size() || sent_[i].executed) return;
    const WriteExtent& extent = sent_[i].extent->second;
    const uint64_t offset = extent.offset, size = extent.data.size();
    for (size_t unit = offset / kUnit; unit < (offset + size) / kUnit; ++unit) refused_[unit] = true;
    const auto answered =
        file_.answered(sent_[i].extent, fail(system_error(ENOSPC, "WRITE")), sent_[i].epoch, TimePoint());
    RC_ASSERT(answered.refused == size);
    ++errors_;
    RC_ASSERT(file_.errors() == errors_);
    sent_.erase(sent_.begin() + static_cast<std::ptrdiff_t>(i));
    send(answered.send);
  }

  void begin_commit() {
    if (commit_) return;
    if (auto request = file_.begin_commit()) commit_ = Committing{std::move(*request), {}, {}};
  }
  void execute_commit() {
    if (commit_ && !commit_->executed)
      commit_->executed = server_.commit(commit_->request.offset, commit_->request.end);
  }
  void end_commit(bool error) {
    if (!commit_) return;
    if (commit_->lost_sent) {
      if (!file_.answered_before(*commit_->lost_sent)) return;
      file_.end_commit();
      commit_.reset();
    } else if (error && !commit_->executed) {
      file_.each([this](const WriteExtent& e) {
        for (size_t unit = e.offset / kUnit; e.state.get() == State::kCommitting && unit < e.end() / kUnit;
             ++unit)
          refused_[unit] = true;
      });
      const auto committed = file_.committed(fail(system_error(EIO, "COMMIT")));
      ++errors_;
      RC_ASSERT(committed.refused && !committed.lost && file_.errors() == errors_);
      file_.end_commit();
      commit_.reset();
    } else if (commit_->executed) {
      const auto committed = file_.committed(*commit_->executed);
      RC_ASSERT(!committed.refused);
      while (const auto lost = file_.take_lost()) sent(*lost, nfs4::FILE_SYNC4);
      send(file_.take_held());
      commit_->lost_sent = file_.next_serial();
      if (committed.lost) return;
      file_.end_commit();
      commit_.reset();
    }
  }

  void check() {
    RC_ASSERT(file_.consistent());
    std::array<bool, kUnits> kept{};
    FileWrites::Bytes sum;
    file_.each([&](const WriteExtent& e) {
      const std::vector<Tag> tags = tags_in(e.data);
      for (size_t i = 0; i < tags.size(); ++i) {
        const size_t unit = e.offset / kUnit + i;
        RC_ASSERT(!kept[unit]);                 // no two extents overlap
        RC_ASSERT(tags[i] == expected_[unit]);  // and none has older bytes
        kept[unit] = true;
      }
      const State state = e.state.get();
      (state == State::kHeld || state == State::kSent ? sum.unanswered : sum.uncommitted) += e.data.size();
    });
    RC_ASSERT(sum == file_.bytes());
    uint64_t end = 0;
    for (size_t unit = 0; unit < kUnits; ++unit) {
      if (refused_[unit] || expected_[unit] == 0) continue;
      end = (unit + 1) * kUnit;
      RC_ASSERT(kept[unit] || server_.stable[unit] == expected_[unit]);  // nothing is lost
      if (file_.readable(unit * kUnit, (unit + 1) * kUnit, server_.epoch))
        RC_ASSERT(server_.at(unit) == expected_[unit]);
    }
    RC_ASSERT(std::max(server_.size(), file_.written_end(server_.epoch)) >= end);
  }

  BufferPool pool_;
  const std::array<IoAccount, 2> accounts_{account_of(1000), account_of(1001)};
  Slice memory_;
  uint64_t stream_end_ = 0;
  FileWrites file_;
  Server server_;
  std::vector<SentWrite> sent_;
  std::list<Writer> writers_;
  std::optional<Committing> commit_;
  std::array<Tag, kUnits> expected_{};
  std::array<bool, kUnits> refused_{};  // an error was reported for what was written there last
  Tag tags_ = 0;
  uint64_t errors_ = 0;
  int64_t now_ = 0;
};

RC_GTEST_PROP(FileWrites, RandomEvents_LoseNothing, ()) {
  Simulation simulation;
  const auto steps = *rc::gen::inRange<unsigned>(1, 120);
  for (unsigned i = 0; i < steps; ++i) simulation.step();
  simulation.finish();
}

}  // namespace
}  // namespace nfsrdma::test
