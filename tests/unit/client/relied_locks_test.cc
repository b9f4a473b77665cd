// SPDX-License-Identifier: Apache-2.0
// Which lock-owners I/O relies on, and how often that needs /proc.
#include "client/nfs4/state/relied_locks.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "client/nfs4/state/state_manager.h"

namespace nfsrdma::test {
namespace {

using client::LockType;
using client::nfs4::kFewLockers;
using client::nfs4::LockState;
using Owners = std::vector<std::string>;

// Process 100 has the threads 100 to 109, process 110 those from 110 on, and so on.
constexpr uint32_t process(uint32_t n) {
  return 100 + 10 * n;
}
constexpr uint32_t thread_of(uint32_t n) {
  return process(n) + 7;
}

class CountedGroups final : public client::nfs4::ThreadGroups {
 public:
  explicit CountedGroups(Mutex& m) : mutex_(m) {}
  bool has(uint32_t p, uint32_t thread) const override { return note(), thread - thread % 10 == p; }
  uint32_t process_of(uint32_t thread) const override { return note(), thread - thread % 10; }

  mutable unsigned asked = 0;
  mutable unsigned asked_under_the_mutex = 0;

 private:
  void note() const {
    ++asked;
    if (mutex_.try_lock()) {
      mutex_.unlock();
    } else {
      ++asked_under_the_mutex;
    }
  }
  Mutex& mutex_;
};

class ReliedLocks : public testing::Test {
 protected:
  // Adds a lock of that process (0: of a descriptor). With `held` false it holds nothing any more.
  LockState& add(const std::string& owner, uint32_t pid, bool held = true) {
    LockState& lock = state->locks.emplace_back();
    lock.owner = owner;
    lock.pid = pid;
    if (held) lock.ranges.push_back({0, 9, LockType::kWrite});
    return lock;
  }
  void add_lockers(uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) add(std::to_string(i), process(i));
  }
  Owners relied_on(uint32_t thread) { return locks_relied_on(handle, thread, groups); }

  client::nfs4::NodeTable table;
  client::NodeRef node = table.get(nfs4::nfs_fh4(), 0);
  std::shared_ptr<client::nfs4::FileState> file =
      std::make_shared<client::nfs4::FileState>(client::nfs4::nfs4_node(node));
  client::nfs4::OpenStateRef state = file->opens.emplace_back(std::make_shared<client::nfs4::OpenState>());
  client::nfs4::Nfs4File handle{node, file, state, nullptr, client::CachedOpen::kRead, false};
  CountedGroups groups{client::nfs4::nfs4_node(node).mutex};
};

TEST_F(ReliedLocks, OfManyProcesses_ATurnOfAskingDoesNotGrow) {
  add_lockers(1000);
  EXPECT_EQ(relied_on(thread_of(900)), Owners{"900"});
  EXPECT_LE(groups.asked, kFewLockers);
  groups.asked = 0;
  EXPECT_EQ(relied_on(thread_of(5000)), Owners{}) << "holds none";
  EXPECT_LE(groups.asked, kFewLockers);
  groups.asked = 0;
  EXPECT_EQ(relied_on(process(900)), Owners{"900"});
  EXPECT_EQ(groups.asked, 0u) << "the first thread has its process's number, and is no other one's";
}

// Other threads open, lock, read and write the file meanwhile.
TEST_F(ReliedLocks, WhileProcIsAsked_TheFileIsNotHeld) {
  for (const uint32_t lockers : {1u, 100u}) {
    state->locks.clear();
    add_lockers(lockers);
    EXPECT_EQ(relied_on(thread_of(0)), Owners{"0"});
  }
  EXPECT_EQ(groups.asked, 2u);
  EXPECT_EQ(groups.asked_under_the_mutex, 0u);
}

TEST_F(ReliedLocks, OfFewProcesses_NoMoreAreAskedThanThereAre) {
  for (uint32_t lockers = 1; lockers <= kFewLockers; ++lockers) {
    state->locks.clear();
    add_lockers(lockers);
    groups.asked = 0;
    EXPECT_EQ(relied_on(thread_of(5000)), Owners{});
    EXPECT_EQ(groups.asked, lockers);
    EXPECT_EQ(relied_on(thread_of(0)), Owners{"0"});
    EXPECT_EQ(groups.asked, lockers + 1) << "nor after his is found";
  }
}

TEST_F(ReliedLocks, TakenThroughTheDescriptor_NobodyIsAsked) {
  add("0", process(0)).descriptors = {&handle};
  add("flock", 0).descriptors = {&handle};
  EXPECT_EQ(relied_on(thread_of(0)), (Owners{"0", "flock"}));
  EXPECT_EQ(relied_on(thread_of(1)), (Owners{"0", "flock"}));
  EXPECT_EQ(groups.asked, 0u);
}

// Each READ and WRITE visits every lock once: comparing each pair would take minutes here.
TEST_F(ReliedLocks, OfVeryManyThroughOneDescriptor_NoTwoAreCompared) {
  constexpr uint32_t kMany = 200'000;
  for (uint32_t i = 0; i < kMany; ++i) add(std::to_string(i), process(i)).descriptors = {&handle};
  client::IoAccount account{state, nullptr, relied_on(thread_of(5))};
  EXPECT_EQ(account.lock_owners.size(), kMany);
  const MutexLock lock(file->node.mutex);
  EXPECT_TRUE(client::nfs4::StateManager::io_stateid(*file, account, client::CachedOpen::kRead));
  state->locks.back().lost = true;
  EXPECT_FALSE(client::nfs4::StateManager::io_stateid(*file, account, client::CachedOpen::kRead));
}

TEST_F(ReliedLocks, OwnersOfOneProcess_AreAskedForOnce) {
  for (uint32_t i = 0; i < 10; ++i) add(std::to_string(i), process(1));
  EXPECT_EQ(relied_on(thread_of(1)).size(), 10u);
  EXPECT_EQ(groups.asked, 1u);
}

TEST_F(ReliedLocks, WithoutAThread_WhatWasLostCounts) {
  add("held", process(1));
  add("lost", process(2), false).lost = true;
  EXPECT_EQ(relied_on(0), Owners{"lost"});
  EXPECT_EQ(groups.asked, 0u);
}

TEST_F(ReliedLocks, WithoutLocks_NobodyIsAsked) {
  add("idle", process(1), false);
  add("flock", 0);
  EXPECT_EQ(relied_on(thread_of(1)), Owners{});
  EXPECT_EQ(relied_on(process(1)), Owners{});
  EXPECT_EQ(groups.asked, 0u);
}

TEST_F(ReliedLocks, OfAnyLocks_AreThoseOfTheProcessAndOfTheDescriptor) {
  const bool ok = rc::check([this] {
    state->locks.clear();
    const auto lockers = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(0, 12));
    const auto caller = *rc::gen::inRange<uint32_t>(1, 14);
    const auto thread = process(caller) + *rc::gen::inRange<uint32_t>(0, 3);
    Owners expected;
    for (const uint32_t n : lockers) {
      LockState& lock =
          add(std::to_string(state->locks.size()), n == 0 ? 0 : process(n), *rc::gen::arbitrary<bool>());
      lock.lost = *rc::gen::arbitrary<bool>();
      const bool through = *rc::gen::inRange(0, 4) == 0;
      if (through) lock.descriptors = {&handle};
      if ((lock.lost || !lock.ranges.empty()) && (through || n == caller)) expected.push_back(lock.owner);
    }
    RC_ASSERT(relied_on(thread) == expected);
  });
  EXPECT_TRUE(ok);
}

TEST(ThreadGroups, EveryThread_IsItsProcesss) {
  const client::nfs4::ThreadGroups groups;
  const auto self = static_cast<uint32_t>(getpid());
  const auto parent = static_cast<uint32_t>(getppid());
  std::thread([&] {
    const auto thread = static_cast<uint32_t>(gettid());
    EXPECT_EQ(groups.process_of(thread), self);
    EXPECT_TRUE(groups.has(self, thread));
    EXPECT_FALSE(groups.has(parent, thread));
  }).join();
  EXPECT_EQ(groups.process_of(self), self);
}

// Larger than any thread number on Linux.
TEST(ThreadGroups, ThreadThatIsNone_IsNobodys) {
  const client::nfs4::ThreadGroups groups;
  EXPECT_EQ(groups.process_of(1u << 30), 0u);
  EXPECT_FALSE(groups.has(static_cast<uint32_t>(getpid()), 1u << 30));
}

}  // namespace
}  // namespace nfsrdma::test
