// SPDX-License-Identifier: Apache-2.0
// OperationTracer: passes the answered FUSE requests of a mount to watchers.
//
// Owner: Adaptor. Without a watcher a request costs one relaxed load. A Watch keeps the newest operations
// that match its filter, at most kMostKept, and counts the dropped ones: a watcher that stops reading never
// holds up the mount. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "client/api/node.h"
#include "fuse/statistics.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

struct TracedOperation {
  Operation operation{};
  int errnum = 0;                            // what the application got; 0: success
  uint32_t thread = 0;                       // the caller's, in the daemon's PID namespace; 0: the kernel
  uint32_t process = 0;                      // its process; 0: not known
  std::string command;                       // the thread's name; empty: not known
  uint32_t uid = 0;                          // the caller's
  client::NodeRef node;                      // the object, or the directory of `name`
  std::string name;                          // empty: the operation is about `node` itself
  client::NodeRef other_node;                // RENAME: the directory of `other_name`
  std::string other_name;                    // RENAME: the new name
  uint64_t offset = 0;                       // READ, WRITE: bytes
  uint64_t size = 0;                         // READ, WRITE: bytes asked for
  std::chrono::system_clock::time_point at;  // the answer
  std::chrono::nanoseconds took{};           // from reading the request to its answer
};

class OperationTracer {
 public:
  struct Filter {
    uint64_t operations = ~uint64_t{0};    // bit = Operation
    std::chrono::nanoseconds at_least{0};  // of `took`
  };

  class Watch {
   public:
    static constexpr size_t kMostKept = 8192;

    explicit Watch(Filter filter) : filter_(filter) {}
    // The operations since the last call, oldest first, at most `most`.
    std::vector<TracedOperation> take(size_t most);
    // Operations dropped for want of room since the last call.
    uint64_t take_lost();
    bool wants(const TracedOperation& done) const;

   private:
    friend class OperationTracer;
    void add(const TracedOperation& done);

    const Filter filter_;
    Mutex mutex_;
    std::deque<TracedOperation> kept_ NFSRDMA_GUARDED_BY(mutex_);
    uint64_t lost_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  };

  // Watches until the last reference to the Watch is gone.
  std::shared_ptr<Watch> watch(Filter filter);
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void answered(const TracedOperation& done);

 private:
  std::atomic<bool> on_{false};
  Mutex mutex_{LockRank::kTable};
  std::vector<std::weak_ptr<Watch>> watches_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::fuse
