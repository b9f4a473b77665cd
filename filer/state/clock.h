// SPDX-License-Identifier: Apache-2.0
// LeaseClock: the clock of leases, the grace period and recalls. A test can control it.
//
// A real clock follows steady_clock; a manual one moves only by advance(). Both can be advanced, so that a
// test can let a lease expire without waiting. now() counts from the server's start. wall() gives the
// timestamps of files; for a manual clock it starts at a fixed date. Guarded by the server's lock.
#pragma once

#include <chrono>
#include <cstdint>

#include "xdr/nfs4/basic.h"

namespace nfsrdma::filer::state {

class LeaseClock {
 public:
  using Duration = std::chrono::nanoseconds;

  explicit LeaseClock(bool manual) : manual_(manual), start_(std::chrono::steady_clock::now()) {}

  Duration now() const { return manual_ ? skew_ : skew_ + (std::chrono::steady_clock::now() - start_); }
  void advance(Duration by) { skew_ += by; }

  nfs4::nfstime4 wall() const {
    const Duration since_epoch =
        manual_ ? Duration(std::chrono::seconds(1'700'000'000)) + skew_
                : std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
    constexpr int64_t kNano = 1'000'000'000;
    return {since_epoch.count() / kNano, static_cast<uint32_t>(since_epoch.count() % kNano)};
  }

 private:
  bool manual_;
  std::chrono::steady_clock::time_point start_;
  Duration skew_{0};
};

}  // namespace nfsrdma::filer::state
