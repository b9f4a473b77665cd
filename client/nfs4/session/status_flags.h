// SPDX-License-Identifier: Apache-2.0
// StatusFlags: what the server says by SEQUENCE's sr_status_flags (RFC 8881 section 18.46.3), and how often
// it has said the same. So only one coroutine at a time handles a fault, and a fault that stays is handled
// less and less often. Owned by the Session; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/loop.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

inline constexpr uint32_t kNoBackChannel =
    nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;

class StatusFlags {
 public:
  // Takes the flags of a reply. The counts of flags that are no longer set begin at zero again.
  void note(uint32_t flags) {
    if ((flags & kNoBackChannel) == 0) reset(back_channel_mendings_);
    if ((flags & nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED) == 0) reset(reclaims_);
    if (flags == 0) reset(repetitions_);
  }

  // Returns true if the caller is to handle the flags and then call end_handling(). Returns false if another
  // coroutine is handling them.
  bool begin_handling() { return !handling_.exchange(true, std::memory_order_acq_rel); }
  void end_handling() { handling_.store(false, std::memory_order_release); }
  // Called by the coroutine that handles the flags. Returns how many times in a row they were handled before.
  unsigned count(uint32_t flags) {
    const unsigned before = std::exchange(handled_, flags) == flags ? repetitions_.fetch_add(1) : 0;
    if (before == 0) repetitions_.store(1);
    return before;
  }
  bool repeated() const { return repetitions_.load() > 1; }

  // Begins an attempt to mend the back channel. Returns the number of attempts before it, since a SEQUENCE
  // last reported no fault of the back channel.
  unsigned begin_back_channel_mending() {
    return back_channel_mendings_.fetch_add(1, std::memory_order_relaxed);
  }

  // RESTART_RECLAIM_NEEDED. A server may still set the flag right after RECLAIM_COMPLETE on the same
  // connection, so it is ignored for a while.
  bool heeds_reclaim(TimePoint now) const {
    return now.time_since_epoch().count() >= no_reclaim_before_.load(std::memory_order_acquire);
  }
  void ignore_reclaim_until(TimePoint then) {
    no_reclaim_before_.store(then.time_since_epoch().count(), std::memory_order_release);
  }
  // No longer ignores the flag: a new connection may mean another restart of the server.
  void heed_reclaim() { ignore_reclaim_until(TimePoint{}); }
  // Returns how many reclaims there were since a SEQUENCE without the flag, before this one.
  unsigned begin_reclaim() { return reclaims_.fetch_add(1); }
  unsigned reclaims() const { return reclaims_.load(); }

 private:
  // Stores zero only where it is needed: a store with each reply would dirty the cache line.
  static void reset(std::atomic<unsigned>& count) {
    if (count.load(std::memory_order_relaxed) != 0) count.store(0, std::memory_order_relaxed);
  }

  std::atomic<bool> handling_{false};
  uint32_t handled_ = 0;  // used only by the coroutine that handles the flags
  std::atomic<unsigned> repetitions_{0}, back_channel_mendings_{0}, reclaims_{0};
  std::atomic<int64_t> no_reclaim_before_{0};  // steady clock ticks
};

}  // namespace nfsrdma::client::nfs4
