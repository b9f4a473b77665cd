// SPDX-License-Identifier: Apache-2.0
// StopSignal: turns INT, TERM and HUP into a flag while it lives, so that the running work can clean up. A
// second signal ends the process at once. Create it before any other thread exists: threads inherit the
// blocked signals.
#pragma once

#include <signal.h>

#include <atomic>
#include <thread>

namespace nfsrdma::cli::bench {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  const std::atomic<bool>& asked() const { return asked_; }
  int number() const { return number_; }  // 0: no signal came

 private:
  void watch();

  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> asked_{false};
  std::atomic<int> number_{0};
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

}  // namespace nfsrdma::cli::bench
