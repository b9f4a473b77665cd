#include "transport/memory/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace nfsrdma {
namespace {

TEST(MachineMemory, IsReadFromMeminfo) {
  const auto memory = parse_meminfo(
      "MemTotal:       16330868 kB\nMemFree:          313040 kB\nMemAvailable:   12000000 kB\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total, uint64_t{16330868} * 1024);
  EXPECT_EQ(memory->available, uint64_t{12000000} * 1024);
}

TEST(MachineMemory, WhatIsNotThere_IsNotMadeUp) {
  EXPECT_FALSE(parse_meminfo(""));
  EXPECT_FALSE(parse_meminfo("MemTotal: 5 kB\n"));
  EXPECT_FALSE(parse_meminfo("MemTotal: 5 kB\nMemAvailable: kB\n"));
  EXPECT_FALSE(parse_meminfo("MemTotal: 5 kB\nMemAvailable: 99999999999999999999 kB\n"));
  EXPECT_FALSE(parse_meminfo("MemTotal: 5 kB\nMemAvailable: 18014398509481984 kB\n")) << "times 1024";
  EXPECT_FALSE(parse_meminfo("MemTotalX: 5 kB\nMemAvailableX: 5 kB\n"));
}

class ControlGroup : public testing::Test {
 protected:
  ControlGroup() : root_(testing::TempDir() + "cgroup." + std::to_string(::getpid())) {}
  ~ControlGroup() override { std::filesystem::remove_all(root_); }
  void put(const std::string& group, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(root_ + group);
    std::ofstream(root_ + group + "/" + file) << text;
  }
  Memory in(const std::string& membership) { return within_control_group({1000, 600}, membership, root_); }
  const std::string root_;
};

TEST_F(ControlGroup, WithALimit_HasWhatIsLeftOfIt) {
  put("/user/app", "memory.max", "500\n");
  put("/user/app", "memory.current", "400\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{500, 100}));
  put("/user/app", "memory.stat", "anon 1\nfile 250\ninactive_file 50\nactive_file 200\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{500, 150})) << "what can be given back counts";
  EXPECT_EQ(in("4:memory:/old\n0::/user/app\n"), (Memory{500, 150})) << "beside version 1";
}

TEST_F(ControlGroup, HasNoMoreThanThoseAroundIt) {
  put("/user/app", "memory.max", "max\n");
  put("/user", "memory.max", "300\n");
  put("/user", "memory.current", "310\n");
  put("/", "memory.max", "700\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{300, 0}));
  EXPECT_EQ(in("0::/other\n"), (Memory{700, 600}));
  EXPECT_EQ(in("0::/\n"), (Memory{700, 600})) << "a container's own root";
}

TEST_F(ControlGroup, ThatCannotBeRead_TakesNothingAway) {
  put("/user", "memory.max", "many\n");
  for (const char* membership :
       {"", "\n", "0::", "0::/user", "0::/nowhere\n", "0::/../../user\n", "4:memory:/user\n"})
    EXPECT_EQ(in(membership), (Memory{1000, 600})) << membership;
}

TEST(MachineMemory, ThisMachine_HasSome) {
  const Memory memory = memory_for_us();
  EXPECT_GT(memory.available, 0u);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace nfsrdma
