// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/recovery_throttle.h"

#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {

using namespace std::chrono_literals;

Duration RecoveryThrottle::begin() {
  Duration wait{};
  {
    MutexLock lock(mutex_);
    wait = pace_.begin(Clock::now());
  }
  recovered_lately_.store(true);
  if (wait != Duration::zero() && !end_at_once_.exchange(true)) {
    log::warn("server {}: sessions end as soon as they are made; trying again after pauses of up to {} s",
              server_, RecoveryPace::kLongest / 1s);
  }
  return wait;
}

void RecoveryThrottle::check_steady() {
  unsigned made = 0;
  {
    MutexLock lock(mutex_);
    if (!pace_.worked(Clock::now())) return;
    recovered_lately_.store(false);
    made = pace_.take_count();
  }
  if (end_at_once_.exchange(false))
    log::info("server {}: the session lasts again; {} were lost before it", server_, made);
}

}  // namespace nfsrdma::client::nfs4
