// SPDX-License-Identifier: Apache-2.0
#include "cli/stats/process_load.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace nfsrdma::cli {
namespace {

using Kind = ProcessLoad::Kind;

std::optional<ThreadOwner> example_owner(pid_t tid) {
  switch (tid) {
    case 10:
    case 11: return ThreadOwner{false, 10, "cp", 60'000};
    case 20: return ThreadOwner{false, 20, "young", 100};
    case 30: return ThreadOwner{true, 0, "", 0};
    default: return std::nullopt;
  }
}

Snapshot loaded() {
  Snapshot s;
  s.fuse.callers = {{10, 5, 100, 0, 50, 1'000, 0}, {11, 6, 0, 200, 60, 1'000, 0}, {20, 1, 0, 0, 1, 9'000, 0},
                    {30, 2, 0, 0, 3, 1'000, 0},    {40, 3, 0, 0, 4, 1'000, 0},    {0, 7, 8, 9, 10, 1'000, 0}};
  s.fuse.replaced_callers = {0, 4, 1, 2, 3, 0, 0};
  return s;
}

TEST(ProcessLoad, Threads_AreJoinedToTheirProcesses) {
  const auto loads = loads_by_process(loaded(), example_owner);
  ASSERT_EQ(loads.size(), 6u);
  EXPECT_EQ(loads[0].id, 10);
  EXPECT_EQ(loads[0].name(), "cp");
  EXPECT_EQ(loads[0].threads, 2u);
  EXPECT_EQ(loads[0].requests, 11u);
  EXPECT_EQ(loads[0].bytes(), 300u);
  EXPECT_EQ(loads[0].total_us, 110u);
  EXPECT_EQ(loads[1].kind, Kind::kKernel);
  EXPECT_EQ(loads[2].kind, Kind::kEnded);
  EXPECT_EQ(loads[2].id, 40);
  EXPECT_EQ(loads[3].kind, Kind::kHidden);
  EXPECT_EQ(loads[4].kind, Kind::kEarlier);
  EXPECT_EQ(loads[5].kind, Kind::kEnded);  // its number now belongs to a younger thread
  EXPECT_EQ(loads[5].id, 20);
}

TEST(ProcessLoad, ThreadsOfAnotherNamespace_AreNotLookedUp) {
  Snapshot s = loaded();
  s.same_pid_namespace = false;
  for (const ProcessLoad& l : loads_by_process(s, example_owner)) EXPECT_NE(l.kind, Kind::kRunning) << l.id;
}

TEST(ProcessLoad, OwnThread_IsFoundInProc) {
  pid_t tid = 0;
  std::optional<ThreadOwner> owner;
  std::thread([&] {
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    owner = owner_in_proc(tid);
  }).join();
  ASSERT_TRUE(owner);
  EXPECT_FALSE(owner->hidden);
  EXPECT_EQ(owner->pid, getpid());
  EXPECT_LT(owner->age_ms, 10'000u);
  std::string own;
  std::getline(std::ifstream("/proc/self/comm"), own);
  EXPECT_EQ(owner->command, own);
  EXPECT_FALSE(owner_in_proc(tid));  // it has ended
}

TEST(ProcessLoad, TableAndJson_SayWhoIsMeant) {
  Snapshot s = loaded();
  const auto evil = [](pid_t) { return ThreadOwner{false, 10, "a\x1b[2J", 60'000}; };
  const std::string text = processes_table(loads_by_process(s, evil), 10);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("(kernel)"), std::string::npos);
  const Json json = processes_json(loads_by_process(s, example_owner));
  EXPECT_EQ(json[0]["pid"], 10);
  EXPECT_EQ(json[0]["command"], "cp");
  EXPECT_EQ(json[2]["kind"], "ended");
  EXPECT_EQ(json[2]["tid"], 40);
  EXPECT_FALSE(json[1].contains("pid"));
  EXPECT_EQ(processes_table({}, 0).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::cli
