// SPDX-License-Identifier: Apache-2.0
// HiddenRemovals: the directories with a silly-renamed file (.nfs*) whose last close is in progress.
//
// close(2) returns before the kernel's RELEASE has removed the .nfs* name. If the application then removes
// the directory, it must not get ENOTEMPTY: rmdir() waits for the removal, as Linux' client does, and so does
// a rename() onto the directory. Any loop; own mutex.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "client/api/node.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"
#include "transport/runtime/task.h"

namespace nfsrdma::client {

class HiddenRemovals {
 public:
  // A removal in progress; it ends with the object.
  class Pending {
   public:
    Pending() = default;
    Pending(HiddenRemovals& all, NodeRef directory) : all_(&all), directory_(std::move(directory)) {
      MutexLock lock(all.mutex_);
      ++all.pending_[directory_.get()];
    }
    Pending(Pending&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), directory_(std::move(other.directory_)) {}
    Pending& operator=(Pending&&) = delete;
    ~Pending() {
      if (all_ != nullptr) all_->over(directory_.get());
    }

   private:
    HiddenRemovals* all_ = nullptr;
    NodeRef directory_;
  };

  // The number of removals that ended so far.
  uint64_t count() const {
    MutexLock lock(mutex_);
    return over_;
  }
  // Waits for the removals in `directory`. Returns true if any removal, in any directory, ended since count()
  // was `before`.
  Task<bool> over_since(uint64_t before, NodeRef directory) {
    for (;;) {
      MutexLock lock(mutex_);
      if (!pending_.contains(directory.get())) co_return over_ != before;
      co_await done_.wait(lock);
    }
  }

 private:
  void over(const Node* directory) {
    MutexLock lock(mutex_);
    ++over_;
    const auto of = pending_.find(directory);
    if (--of->second == 0) pending_.erase(of);
    done_.notify_all();
  }

  mutable Mutex mutex_;
  std::map<const Node*, unsigned> pending_ NFSRDMA_GUARDED_BY(mutex_);
  uint64_t over_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  WaitQueue done_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client
