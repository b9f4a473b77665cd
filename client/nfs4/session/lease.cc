// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/lease.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The server cannot recall delegations. It may revoke them one lease later (section 10.4.5).
constexpr uint32_t kCannotRecall = nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;
// A lease of zero cannot be renewed, and time arithmetic would overflow with a huge one.
constexpr std::chrono::seconds kShortest{1}, kLongest{24 * 3600};

}  // namespace

void Lease::set_period(std::chrono::seconds period) {
  period = std::clamp<std::chrono::seconds>(period, kShortest, kLongest);
  seconds_.store(static_cast<uint32_t>(period.count()));
  MutexLock lock(mutex_);
  until_.store(0);  // computed with the old period
}

void Lease::note_sequence(const nfs4::SEQUENCE4res& sequence, Duration sent) {
  if (sequence.status != nfs4::NFS4_OK) return;
  last_renewal_.store(sent.count(), std::memory_order_relaxed);
  const uint32_t flags = sequence.resok4.sr_status_flags;
  MutexLock lock(mutex_);
  if ((flags & kRevokedFlags) != 0) {
    // A SEQUENCE that was sent before now must not renew the lease, even if its reply arrives after this one.
    known_since_ = since_boot();
    until_.store(0, std::memory_order_release);
  }
  if ((flags & (kRevokedFlags | kCannotRecall)) != 0 || sent < known_since_ || state_owed_) return;
  const Duration end = sent + std::chrono::seconds(seconds_.load(std::memory_order_relaxed));
  const int64_t until = end.count();
  if (until > until_.load(std::memory_order_relaxed)) until_.store(until, std::memory_order_release);
}

void Lease::state_lost() {
  MutexLock lock(mutex_);
  state_owed_ = true;
  known_since_ = since_boot();
  until_.store(0, std::memory_order_release);
}

void Lease::reclaimed() {
  MutexLock lock(mutex_);
  state_owed_ = false;
}

}  // namespace nfsrdma::client::nfs4
