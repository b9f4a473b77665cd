// SPDX-License-Identifier: Apache-2.0
// RecoveryThrottle: how long each recovery of the session waits (RecoveryPace), and what the log says of
// sessions that end as soon as they are made. Owned by the Session; any thread; one short lock, a leaf.
#pragma once

#include <atomic>
#include <string>

#include "client/nfs4/session/recovery_pace.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

class RecoveryThrottle {
 public:
  // `server`: its name for the log; outlives the object.
  explicit RecoveryThrottle(const std::string& server) : server_(server) {}

  // A recovery begins. Returns how long it must wait.
  Duration begin();
  // A request was answered in the session.
  void note_answer() {
    if (recovered_lately_.load(std::memory_order_relaxed)) check_steady();
  }
  // True if the log has already said that sessions end at once. Single losses then go to the debug log.
  bool sessions_end_at_once() const { return end_at_once_.load(std::memory_order_relaxed); }

 private:
  void check_steady();

  const std::string& server_;
  Mutex mutex_;
  RecoveryPace pace_ NFSRDMA_GUARDED_BY(mutex_);
  std::atomic<bool> recovered_lately_{false};  // the session has not lasted for RecoveryPace::kSteady yet
  std::atomic<bool> end_at_once_{false};
};

}  // namespace nfsrdma::client::nfs4
