// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/available_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

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

TEST(MachineMemory, OfThisProcess_IsReadFromItsRollup) {
  EXPECT_EQ(parse_rollup("562104fa6000-7fffb5d24000 ---p 00000000 00:00 0   [rollup]\nRss:    1780 kB\n"
                         "Anonymous:   116 kB\nAnonHugePages:   64 kB\nShmemPmdMapped:   0 kB\n"),
            (ResidentMemory{1780 * 1024, 64 * 1024}));
  EXPECT_EQ(parse_rollup(""), ResidentMemory{});
  EXPECT_GT(resident_memory().bytes, 0u);
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
}

// Above memory.high (systemd's MemoryHigh=) Linux slows a group down and reclaims what it can.
TEST_F(ControlGroup, ThatIsToStayBelowLess_HasWhatIsLeftOfThat) {
  put("/user/app", "memory.max", "max\n");
  put("/user/app", "memory.high", "450\n");
  put("/user/app", "memory.current", "400\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{450, 50}));
  put("/user/app", "memory.max", "430\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{430, 30}));
  put("/user/app", "memory.high", "max\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{430, 30}));
}

// Before Linux refuses memory, it reclaims pages from both lists of file pages, also pages that were used
// twice. A group that has read much has not used up its memory.
TEST_F(ControlGroup, FullOfPagesOfFiles_HasThemLeft) {
  put("/user/app", "memory.max", "500\n");
  put("/user/app", "memory.current", "500\n");
  put("/user/app", "memory.stat", "anon 100\nfile 400\nshmem 60\ninactive_file 40\nactive_file 300\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{500, 340 - 500 / 128}));
  EXPECT_EQ(in("4:cpu:/old\n0::/user/app\n"), (Memory{500, 340 - 500 / 128})) << "beside version 1";
  put("/user/app", "memory.stat", "inactive_file 2\nactive_file 2\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{500, 2})) << "of a few half";
  put("/user/app", "memory.stat", "active_file 100\ninactive_file 0\nslab_reclaimable 200\n");
  EXPECT_EQ(in("0::/user/app\n"), (Memory{500, 300 - 2 * (500 / 128)})) << "slabs by themselves";
  put("/user/app", "memory.stat", "inactive_file 18446744073709551615\nactive_file 900\n");
  EXPECT_LE(in("0::/user/app\n").available, 500u) << "whatever it says";
}

TEST_F(ControlGroup, OfVersion1_IsTheOneThatHasMemory) {
  put("/memory/docker/app", "memory.limit_in_bytes", "500\n");
  put("/memory/docker/app", "memory.usage_in_bytes", "490\n");
  // Values of the group itself, and of the groups inside it, too.
  put("/memory/docker/app", "memory.stat",
      "cache 9\ninactive_file 1\nactive_file 2\ntotal_cache 400\ntotal_inactive_file 100\ntotal_active_file "
      "200\n");
  const Memory expected{500, 310 - 500 / 128};
  EXPECT_EQ(in("5:devices:/docker/app\n4:memory:/docker/app\n0::/\n"), expected);
  EXPECT_EQ(in("4:hugetlb,memory:/docker/app\n"), expected) << "several controllers";
  EXPECT_EQ(in("4:memory:/docker/app/below\n"), expected) << "around it";
  EXPECT_EQ(in("4:memoryless:/docker/app\n0::/docker/app\n"), (Memory{1000, 600}));
  put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  put("/memory", "memory.usage_in_bytes", "123\n");
  EXPECT_EQ(in("4:memory:/docker/app\n"), expected);
  EXPECT_EQ(in("4:memory:/not/seen/here\n"), (Memory{1000, 600})) << "its root, without a limit";
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
       {"", "\n", "0::", "0::/user", "0::/nowhere\n", "0::/../../user\n", "4:memory:/user\n",
        "4:memory:", "memory", "4:memory:/../../user\n", ":::/\n"})
    EXPECT_EQ(in(membership), (Memory{1000, 600})) << membership;
}

// A new control group with a small limit, inside the one in which this test runs.
class RealControlGroup : public testing::Test {
 protected:
  static constexpr uint64_t kLimit = 64u << 20;
  void SetUp() override {
    std::ifstream membership("/proc/self/cgroup");
    std::string own, name = "/available_memory_test." + std::to_string(::getpid());
    const char* limit = nullptr;
    for (std::string line; std::getline(membership, line);) {
      const std::string path = line.substr(std::min(line.size(), line.rfind(':') + 1));
      if (line.find(":memory:") != std::string::npos) {
        own = "/sys/fs/cgroup/memory" + path + name;
        limit = "/memory.limit_in_bytes";
        break;
      }
      if (line.starts_with("0::")) {
        own = "/sys/fs/cgroup" + path + name;
        limit = "/memory.max";
      }
    }
    std::error_code error;
    if (limit == nullptr || !std::filesystem::create_directory(own, error))
      GTEST_SKIP() << "no control group can be made in this test's own: " << error.message();
    group_ = own;
    if (!std::filesystem::exists(group_ + limit)) GTEST_SKIP() << "it has no memory controller";
    ASSERT_TRUE(std::ofstream(group_ + limit) << kLimit << std::flush);
  }
  void TearDown() override {
    if (!group_.empty()) {
      EXPECT_EQ(::rmdir(group_.c_str()), 0);
    }
    std::filesystem::remove(file_);
  }
  // Runs `function` in a child of this process, inside the group.
  template <class Function>
  int run_in_group(Function function) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(std::ofstream(group_ + "/cgroup.procs") << 0 << std::flush ? function() : 100);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string group_;
  const std::string file_ = testing::TempDir() + "available_memory." + std::to_string(::getpid());
};

TEST_F(RealControlGroup, FullOfPagesOfFiles_HasThemLeft) {
  const int result = run_in_group([this] {
    std::vector<char> text(1u << 20, 'x');
    const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (uint64_t at = 0; at < kLimit; at += text.size()) {
      if (::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at)) < 0) return 1;
    }
    if (::fsync(fd) != 0) return 2;
    // Read several times, so that some pages become active.
    for (int turn = 0; turn < 4; ++turn) {
      for (uint64_t at = kLimit / 2; at < kLimit; at += text.size()) {
        if (::pread(fd, text.data(), text.size(), static_cast<off_t>(at)) < 0) return 3;
      }
    }
    const Memory memory = memory_for_us();
    if (memory.total != kLimit) return 4;
    if (memory.available > kLimit) return 5;
    return memory.available > kLimit / 4 * 3 ? 0 : 6;
  });
  EXPECT_EQ(result, 0) << "which step";
}

TEST(MachineMemory, ThisMachine_HasSome) {
  const Memory memory = memory_for_us();
  EXPECT_GT(memory.available, 0u);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace nfsrdma
