// SPDX-License-Identifier: Apache-2.0
// TestMount: the memory file system, mounted through the real kernel for one test.
//
// The daemon's side runs in this process. Applications run in child processes (client()), because a thread
// that waits in a mount of its own process could not even be killed. The destructor unmounts, waits for the
// end and checks that every request was answered, every lookup forgotten, every file released and every
// buffer returned.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fuse/session.h"
#include "tests/unit/fuse/memory_filesystem.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/log.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::fuse::test {

struct MountSetup {
  unsigned loops = 1;
  bool asynchronous = false;
  Lifetimes lifetimes;
  FuseOptions options;  // source and mount point are filled in
};

// Empty if this process can mount; otherwise the reason, for GTEST_SKIP().
std::string why_no_mount();

using nfsrdma::test::eventually;

class TestMount {
 public:
  explicit TestMount(MountSetup setup = {});
  ~TestMount();
  TestMount(const TestMount&) = delete;
  TestMount& operator=(const TestMount&) = delete;

  MemoryFilesystem& fs() { return *filesystem_; }
  FuseMount& mount() { return *mount_; }
  std::string path(const std::string& name = {}) const {
    return name.empty() ? directory_ : directory_ + "/" + name;
  }

  // Runs `what` in a child process, gtest assertions included, and fails this test if one failed there.
  void client(const std::function<void()>& what);
  // The same, without waiting for the child.
  pid_t start_client(const std::function<void()>& what);
  // Returns the wait status. After kPatience it kills the child and fails.
  int wait_client(pid_t child);
  // Waits until all children have ended without a failure. Until then calls `meanwhile` with those that still
  // run, again and again, with a pause between.
  void wait_clients(std::vector<pid_t> children, std::chrono::microseconds pause,
                    const std::function<void(const std::vector<pid_t>&)>& meanwhile);

  // Returns when timers of all loops that are armed now for `time` have expired (run_on.h).
  void let_pass(std::chrono::milliseconds time) { nfsrdma::test::let_pass(loops_, time); }

  FuseStatistics statistics() const { return mount_->statistics(); }
  uint64_t count(std::string_view operation) const;

  // Unmounts now instead of in the destructor.
  void stop();

 private:
  void check_accounts();
  int try_to_unmount(bool lazy);  // returns an errno
  pid_t fork_quietly();

  std::string directory_;
  BufferPool pool_;
  LoopPool loops_;
  std::unique_ptr<MemoryFilesystem> filesystem_;
  std::unique_ptr<FuseMount> mount_;
  std::atomic<bool> ended_{false};
};

// One loop with replies at once; one and four loops with replies that come later.
class FuseTest : public ::testing::TestWithParam<std::pair<unsigned, bool>> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mount(); !why.empty()) GTEST_SKIP() << why;
  }
  static MountSetup mount_setup() {
    MountSetup s;
    s.loops = GetParam().first;
    s.asynchronous = GetParam().second;
    return s;
  }
};

#define NFSRDMA_FUSE_SUITE(suite)                                                                      \
  INSTANTIATE_TEST_SUITE_P(                                                                            \
      Loops, suite, ::testing::Values(std::pair(1u, false), std::pair(1u, true), std::pair(4u, true)), \
      [](const auto& p) { return std::to_string(p.param.first) + (p.param.second ? "Async" : "Inline"); })

}  // namespace nfsrdma::fuse::test
