// SPDX-License-Identifier: Apache-2.0
// LockWaits: records which lock-owner of this mount waits for which other one, to detect a deadlock (EDEADLK,
// fcntl(2)). The server does not see deadlocks, because a waiting client only repeats its LOCK.
//
// Owned by Nfs4Filesystem; any thread. Size: one Wait per waiting lock request. The holder is that of the
// last NFS4ERR_DENIED. If that owner releases anything, the record is void, and the next denial renews it.
// The search visits each owner once, however many paths lead to it, because users decide how many owners
// wait.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

class LockWaits {
 public:
  // One lock request, from its first LOCK to its end.
  class Wait {
   public:
    Wait(LockWaits& waits, std::string owner);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    // Call it before each LOCK.
    void ask();
    // LOCK was denied because of `holder`; "": a holder of another client. Returns true if `holder` waits,
    // directly or through others, for our own owner, and no owner in that circle released a lock since ask().
    bool denied(const std::string& holder);

   private:
    friend class LockWaits;
    // Called with waits_.mutex_ held, for several Waits. The thread-safety analysis is off here: it does not
    // know that all Waits have the same mutex.
    void set_holder(const std::string& holder) NFSRDMA_UNCHECKED_LOCKS;

    LockWaits& waits_;
    const std::string owner_;
    std::string holder_;  // "": not known
    uint64_t asked_ = 0;
  };

  // `owner` released or changed locks.
  void changed(const std::string& owner);
  // The number of owners whose changes are stored: at least those since the oldest pending LOCK.
  size_t remembered() const;

 private:
  using ByOwner = std::set<std::pair<std::string_view, Wait*>>;

  void forget_old_changes() NFSRDMA_REQUIRES(mutex_);
  bool leads_to(std::string_view from, std::string_view to) const NFSRDMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  ByOwner waiting_ NFSRDMA_GUARDED_BY(mutex_);  // by the waiting owner
  ByOwner awaited_ NFSRDMA_GUARDED_BY(mutex_);  // by the owner waited for, if known
  // By owner: time of the last change; only while somebody waits.
  std::map<std::string, uint64_t> changes_ NFSRDMA_GUARDED_BY(mutex_);
  uint64_t clock_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  static constexpr size_t kManyChanges = 1024;
  size_t look_at_ NFSRDMA_GUARDED_BY(mutex_) = kManyChanges;  // size at which old changes are removed again
};

}  // namespace nfsrdma::client::nfs4
