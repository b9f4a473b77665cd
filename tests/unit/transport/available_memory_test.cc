#include "transport/memory/available_memory.h"

#include <gtest/gtest.h>

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

TEST(MachineMemory, ThisMachine_HasSome) {
  const auto memory = machine_memory();
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->available, 0u);
  EXPECT_LE(memory->available, memory->total);
}

}  // namespace
}  // namespace nfsrdma
