// SPDX-License-Identifier: Apache-2.0
// Lease: until when the server keeps our state, by the SEQUENCEs that it answered (RFC 8881 section 8.3). Any
// thread; one short lock, a leaf.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/suspension.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

// State was revoked: the server no longer has all that we hold.
inline constexpr uint32_t kRevokedFlags =
    nfs4::SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED | nfs4::SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED |
    nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED | nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;

class Lease {
 public:
  // True if, according to the last replies, the lease has not expired: the server keeps our state, and it
  // recalls a delegation before it grants what conflicts with it. False while the server reports revoked
  // state (SEQ4_STATUS_*_REVOKED). The clock includes time in which this machine is suspended.
  bool holds() const { return since_boot() < Duration(until_.load(std::memory_order_acquire)); }
  // The server's lease_time.
  std::chrono::seconds period() const { return std::chrono::seconds(seconds_.load()); }
  // Limits the period, because a server may return zero or an unlimited lease. holds() is then false until
  // the next renewal.
  void set_period(std::chrono::seconds period);

  // SEQUENCE renews the lease (section 8.3). It may have been renewed as early as `sent` (since_boot()).
  void note_sequence(const nfs4::SEQUENCE4res& sequence, Duration sent);
  // The server has lost our state, or may have lost it. Until reclaimed(), holds() is false, even if SEQUENCE
  // renews the lease (sections 8.3, 8.4.2).
  void state_lost();
  void reclaimed();
  // A request of ours was answered: for some time nothing else has to renew the lease.
  void note_answer(TimePoint now) {
    last_answer_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }
  TimePoint last_answer() const { return TimePoint{Duration(last_answer_.load(std::memory_order_relaxed))}; }
  // Session::confirm_lease() did not succeed: until `then`, it makes only one attempt.
  void note_unconfirmed(TimePoint then) {
    unconfirmed_until_.store(then.time_since_epoch().count(), std::memory_order_relaxed);
  }
  bool lately_unconfirmed(TimePoint now) const {
    return now < TimePoint{Duration(unconfirmed_until_.load(std::memory_order_relaxed))};
  }
  // How long ago the last SEQUENCE that succeeded was sent.
  Duration unrenewed() const {
    return since_boot() - Duration(last_renewal_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<uint32_t> seconds_{90};
  std::atomic<int64_t> last_renewal_{0};  // since_boot(): when the last SEQUENCE that succeeded was sent
  std::atomic<int64_t> last_answer_{0}, unconfirmed_until_{0};  // steady clock ticks
  Mutex mutex_;
  std::atomic<int64_t> until_{0};                       // since_boot(); read without the lock
  Duration known_since_ NFSRDMA_GUARDED_BY(mutex_){};   // since_boot(): a SEQUENCE sent before does not renew
  bool state_owed_ NFSRDMA_GUARDED_BY(mutex_) = false;  // reclaim is not complete
};

}  // namespace nfsrdma::client::nfs4
