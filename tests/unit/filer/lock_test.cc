// SPDX-License-Identifier: Apache-2.0
// LOCK, LOCKT, LOCKU (RFC 8881 sections 9, 18.10 to 18.12).

#include "filer/state/byte_locks.h"
#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class LockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server();
    server->make_file("/export/f", std::string(1000, 'x'), 0666);
    one = std::make_unique<RawClient>(*server, "one");
    two = std::make_unique<RawClient>(*server, "two");
    ASSERT_TRUE(one->establish());
    ASSERT_TRUE(two->establish());
    open1 = one->open("/export/f");
    open2 = two->open("/export/f");
  }
  static LOCK4args more(stateid4 lock, nfs_lock_type4 type, uint64_t offset, uint64_t length) {
    LOCK4args args;
    args.locktype = type;
    args.offset = offset;
    args.length = length;
    args.locker.stateid = lock;
    return args;
  }
  static LOCK4res lock(RawClient& c, const LOCK4args& args) {
    return at<LOCK4res>(c.run_at("/export/f", ops(args)), 0);
  }
  static LOCKU4res unlock(RawClient& c, stateid4 id, uint64_t offset, uint64_t length) {
    return at<LOCKU4res>(c.run_at("/export/f", ops(LOCKU4args{WRITE_LT, 0, id, offset, length})), 0);
  }
  static LOCKT4res test(RawClient& c, nfs_lock_type4 type, uint64_t offset, uint64_t length,
                        const std::string& owner = "process") {
    return at<LOCKT4res>(c.run_at("/export/f", ops(LOCKT4args{type, offset, length, {0, owner}})), 0);
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> one;
  std::unique_ptr<RawClient> two;
  stateid4 open1;
  stateid4 open2;
};

TEST_F(LockTest, FirstLock_HasItsOwnStateid) {
  const LOCK4res res = lock(*one, first_lock(open1, WRITE_LT, 0, 100));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.resok4.lock_stateid.seqid, 1u);
  EXPECT_FALSE(res.resok4.lock_stateid.same_state(open1));
  const LOCK4res next = lock(*one, more(res.resok4.lock_stateid, WRITE_LT, 200, 10));
  EXPECT_TRUE(next.resok4.lock_stateid.same_state(res.resok4.lock_stateid));
  EXPECT_EQ(next.resok4.lock_stateid.seqid, 2u);
  // A LOCK as a new lock-owner by an existing one gets the existing state.
  EXPECT_EQ(lock(*one, first_lock(open1, WRITE_LT, 300, 1)).resok4.lock_stateid.seqid, 3u);
}

// "If the server returns NFS4ERR_DENIED, the owner, offset, and length of a conflicting lock are returned";
// "it MUST set the clientid field of the owner".
TEST_F(LockTest, Conflict_NamesTheHolder) {
  ASSERT_EQ(lock(*one, first_lock(open1, WRITE_LT, 100, 50)).status, NFS4_OK);
  const LOCK4res res = lock(*two, first_lock(open2, READ_LT, 140, 100));
  ASSERT_EQ(res.status, NFS4ERR_DENIED);
  EXPECT_EQ(res.denied.offset, 100u);
  EXPECT_EQ(res.denied.length, 50u);
  EXPECT_EQ(res.denied.locktype, WRITE_LT);
  EXPECT_EQ(res.denied.owner, (lock_owner4{one->clientid, "process"}));
  EXPECT_EQ(test(*two, READ_LT, 149, 1).status, NFS4ERR_DENIED);
  EXPECT_EQ(test(*two, READ_LT, 150, 1).status, NFS4_OK);
  EXPECT_EQ(test(*one, WRITE_LT, 149, 1).status, NFS4_OK)
      << "SHOULD exclude locks for the current lock-owner";
  EXPECT_EQ(test(*one, WRITE_LT, 149, 1, "another process").status, NFS4ERR_DENIED);
}

TEST_F(LockTest, ReadLocks_AreShared) {
  EXPECT_EQ(lock(*one, first_lock(open1, READ_LT, 0, 100)).status, NFS4_OK);
  const LOCK4res res = lock(*two, first_lock(open2, READ_LT, 0, 100));
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(lock(*two, more(res.resok4.lock_stateid, WRITE_LT, 50, 10)).status, NFS4ERR_DENIED) << "upgrade";
}

// "To lock the file from a specific offset through the end-of-file ... use a length field equal to
// NFS4_UINT64_MAX".
TEST_F(LockTest, LockToTheEnd_CoversWhatIsNotThereYet) {
  ASSERT_EQ(lock(*one, first_lock(open1, WRITE_LT, 10, NFS4_UINT64_MAX)).status, NFS4_OK);
  const LOCKT4res res = test(*two, READ_LT, uint64_t{1} << 60, 1);
  ASSERT_EQ(res.status, NFS4ERR_DENIED);
  EXPECT_EQ(res.denied.length, NFS4_UINT64_MAX);
  EXPECT_EQ(test(*two, READ_LT, 0, 10).status, NFS4_OK);
}

// "The server MUST return NFS4ERR_INVAL": length zero; "the sum of length and offset exceeds
// NFS4_UINT64_MAX".
TEST_F(LockTest, BadRanges_AreInvalid) {
  EXPECT_EQ(lock(*one, first_lock(open1, WRITE_LT, 0, 0)).status, NFS4ERR_INVAL);
  EXPECT_EQ(lock(*one, first_lock(open1, WRITE_LT, 10, NFS4_UINT64_MAX - 5)).status, NFS4ERR_INVAL);
  EXPECT_EQ(lock(*one, first_lock(open1, WRITE_LT, 10, NFS4_UINT64_MAX - 10)).status, NFS4_OK);
  EXPECT_EQ(test(*one, WRITE_LT, 0, 0).status, NFS4ERR_INVAL);
}

TEST_F(LockTest, UnlockInTheMiddle_Splits) {
  const stateid4 id = lock(*one, first_lock(open1, WRITE_LT, 0, 100)).resok4.lock_stateid;
  const LOCKU4res res = unlock(*one, id, 40, 20);
  ASSERT_EQ(res.status, NFS4_OK);
  EXPECT_EQ(res.lock_stateid.seqid, 2u);
  EXPECT_EQ(test(*two, WRITE_LT, 39, 1).status, NFS4ERR_DENIED);
  EXPECT_EQ(test(*two, WRITE_LT, 40, 20).status, NFS4_OK);
  EXPECT_EQ(test(*two, WRITE_LT, 60, 1).status, NFS4ERR_DENIED);
  EXPECT_EQ(unlock(*one, res.lock_stateid, 0, NFS4_UINT64_MAX).status, NFS4_OK);
  EXPECT_EQ(test(*two, WRITE_LT, 0, NFS4_UINT64_MAX).status, NFS4_OK);
}

// "They remain valid even if a LOCKU frees all remaining locks, so long as the open file ... remains open,
// unless the client frees the stateids via the FREE_STATEID operation."
TEST_F(LockTest, EmptyLockStateid_StaysUntilFreed) {
  const stateid4 id = lock(*one, first_lock(open1, WRITE_LT, 0, 100)).resok4.lock_stateid;
  stateid4 any = id;
  any.seqid = 0;
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{any})).status, NFS4ERR_LOCKS_HELD);
  ASSERT_EQ(unlock(*one, id, 0, 100).status, NFS4_OK);
  EXPECT_EQ(lock(*one, more(any, READ_LT, 5, 5)).status, NFS4_OK);
  ASSERT_EQ(unlock(*one, any, 0, 100).status, NFS4_OK);
  EXPECT_EQ(one->run(ops(FREE_STATEID4args{any})).status, NFS4_OK);
  EXPECT_EQ(lock(*one, more(any, READ_LT, 5, 5)).status, NFS4ERR_BAD_STATEID);
}

TEST_F(LockTest, Close_FreesTheLocksOfTheOpen) {
  ASSERT_EQ(lock(*one, first_lock(open1, WRITE_LT, 0, 100)).status, NFS4_OK);
  ASSERT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, open1})).status, NFS4_OK);
  EXPECT_EQ(lock(*two, first_lock(open2, WRITE_LT, 0, 100)).status, NFS4_OK);
}

// POSIX: a write lock needs a file that is open for writing, a read lock one that is open for reading.
TEST_F(LockTest, LockAgainstTheOpenMode_IsRefused) {
  const stateid4 reading = one->open("/export/f", OPEN4_SHARE_ACCESS_READ, 0, "reader");
  EXPECT_EQ(lock(*one, first_lock(reading, WRITE_LT, 0, 1)).status, NFS4ERR_OPENMODE);
  EXPECT_EQ(lock(*one, first_lock(reading, READ_LT, 0, 1)).status, NFS4_OK);
}

// "a stateid that doesn't represent byte-range locks is passed to the non-from_open case of LOCK or to LOCKU
// ... MUST return NFS4ERR_BAD_STATEID."
TEST_F(LockTest, StateidOfTheWrongKind_IsBad) {
  EXPECT_EQ(lock(*one, more(open1, READ_LT, 0, 1)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(unlock(*one, open1, 0, 1).status, NFS4ERR_BAD_STATEID);
  const stateid4 id = lock(*one, first_lock(open1, READ_LT, 0, 1)).resok4.lock_stateid;
  EXPECT_EQ(lock(*one, first_lock(id, READ_LT, 0, 1)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(one->run_at("/export/f", ops(CLOSE4args{0, id})).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(lock(*one, first_lock(kAnonymousStateid, READ_LT, 0, 1)).status, NFS4ERR_BAD_STATEID)
      << "an all-zero stateid is used when an OPEN stateid is required";
}

TEST_F(LockTest, LockStateid_ReadsAndWritesWithTheOpensAccess) {
  const stateid4 id = lock(*one, first_lock(open1, WRITE_LT, 0, 10)).resok4.lock_stateid;
  EXPECT_EQ(one->write("/export/f", id, 0, "locked").status, NFS4_OK);
  EXPECT_EQ(one->read("/export/f", id, 0, 6), "locked");
  EXPECT_EQ(two->write("/export/f", open2, 0, "advise").status, NFS4_OK) << "locks are advisory";
}

TEST_F(LockTest, OnADirectory_IsIsdir) {
  EXPECT_EQ(one->run_at("/export", ops(LOCKT4args{READ_LT, 0, 1, {}})).status, NFS4ERR_ISDIR);
}

// --- ByteLocks against a model: an owner per byte and kind ---

TEST(ByteLocks, RandomOperations_AgreeWithAByteArray) {
  constexpr uint64_t kBytes = 40;
  struct Cell {
    int owner = -1;  // of the write lock; -1: none
    std::array<bool, 3> readers{};
  };
  uint32_t random = 12345;
  const auto next = [&random](uint32_t below) {
    random = random * 1664525 + 1013904223;
    return random >> 16 % 16 & 0xffff ? (random >> 8) % below : 0;
  };
  state::ByteLocks locks;
  std::array<Cell, kBytes> model;
  const int state = 0;
  // Each owner has one range for each run of bytes with the same lock.
  const auto runs = [&model] {
    size_t count = 0;
    for (int who = 0; who < 3; ++who) {
      int before = 0;
      for (const Cell& cell : model) {
        const int now = cell.owner == who ? 2 : cell.readers[static_cast<size_t>(who)] ? 1 : 0;
        count += now != 0 && now != before;
        before = now;
      }
    }
    return count;
  };
  for (int step = 0; step < 20000; ++step) {
    const int who = static_cast<int>(next(3));
    const state::LockOwner owner{1, std::to_string(who)};
    const uint64_t first = next(kBytes);
    const uint64_t last = first + next(static_cast<uint32_t>(kBytes - first));
    const bool write = next(2) == 0;
    std::optional<uint64_t> conflict;  // its first byte
    for (uint64_t i = first; i <= last && !conflict; ++i) {
      if (model[i].owner >= 0 && model[i].owner != who) conflict = i;
      for (int r = 0; r < 3; ++r) {
        if (write && r != who && model[i].readers[static_cast<size_t>(r)]) conflict = i;
      }
    }
    if (next(3) == 0) {
      const ptrdiff_t growth = locks.growth({first, last}, owner);
      const size_t before = locks.size();
      locks.unlock({first, last}, owner);
      EXPECT_EQ(locks.size(), before + static_cast<size_t>(growth)) << "step " << step;
      for (uint64_t i = first; i <= last; ++i) {
        if (model[i].owner == who) model[i].owner = -1;
        model[i].readers[static_cast<size_t>(who)] = false;
      }
      ASSERT_EQ(locks.size(), runs()) << "step " << step;
      continue;
    }
    const auto told = locks.conflict({first, last}, write, owner);
    ASSERT_EQ(told.has_value(), conflict.has_value()) << "step " << step;
    if (told) {
      ASSERT_EQ(std::max(told->range.first, first), *conflict) << "step " << step << ": the lowest";
      continue;
    }
    locks.lock({{first, last}, write, owner, &state});
    for (uint64_t i = first; i <= last; ++i) {
      model[i].owner = write ? who : (model[i].owner == who ? -1 : model[i].owner);
      model[i].readers[static_cast<size_t>(who)] = !write;
    }
    ASSERT_EQ(locks.size(), runs()) << "step " << step;
  }
}

}  // namespace
}  // namespace nfsrdma::filer::test
