// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/delegations/delegations.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

std::string key(const nfs4::nfs_fh4& fh) {
  return std::string(as_string_view(fh.bytes()));
}

}  // namespace

uint64_t Delegations::begin_asking() {
  MutexLock lock(asking_mutex_);
  asking_.push_back(next_asking_);
  return next_asking_++;
}

void Delegations::end_asking(uint64_t number) {
  MutexLock lock(asking_mutex_);
  *std::ranges::find(asking_, number) = asking_.back();
  asking_.pop_back();
  if (gone_.empty()) return;
  const uint64_t oldest = asking_.empty() ? next_asking_ : std::ranges::min(asking_);
  while (!gone_.empty() && gone_.front().first <= oldest) forget_gone();
}

void Delegations::remember_gone(const nfs4::stateid4& stateid) {
  MutexLock lock(asking_mutex_);
  if (asking_.empty() || !gone_states_.insert(stateid.other).second) return;
  gone_.emplace_back(next_asking_, stateid.other);
  if (gone_.size() > kMost) forget_gone();
}

void Delegations::forget_gone() {
  gone_states_.erase(gone_.front().second);
  gone_.pop_front();
}

bool Delegations::went_lately(const nfs4::stateid4& stateid) const {
  MutexLock lock(asking_mutex_);
  return gone_states_.contains(stateid.other);
}

bool Delegations::being_asked_for(uint64_t begun) const {
  MutexLock lock(asking_mutex_);
  return std::ranges::any_of(asking_, [begun](uint64_t number) { return number < begun; });
}

uint64_t Delegations::begun_so_far() const {
  MutexLock lock(asking_mutex_);
  return next_asking_;
}

void Delegations::add(const DelegationRef& delegation, Came came) {
  if (came == Came::kGranted) granted_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  by_handle_.emplace(key(delegation->fh), delegation);
  if (came == Came::kUnwanted) return;
  delegation->place_ = by_use_.insert(by_use_.end(), delegation);
  delegation->in_use_ = true;
  if (delegation->write) ++writes_;
}

void Delegations::leave_use(Delegation& delegation) {
  if (!std::exchange(delegation.in_use_, false)) return;
  by_use_.erase(delegation.place_);
  if (delegation.write) --writes_;
}

void Delegations::remove(const DelegationRef& delegation, Went went) {
  if (went == Went::kReturned) returned_.fetch_add(1, std::memory_order_relaxed);
  if (went == Went::kRevoked) revoked_.fetch_add(1, std::memory_order_relaxed);
  if (went != Went::kReplaced) remember_gone(delegation->stateid);
  MutexLock lock(mutex_);
  leave_use(*delegation);
  const auto [first, last] = by_handle_.equal_range(key(delegation->fh));
  const auto it = std::find_if(first, last, [&](const auto& entry) { return entry.second == delegation; });
  if (it != last) by_handle_.erase(it);
}

void Delegations::used(const DelegationRef& delegation) {
  MutexLock lock(mutex_);
  if (delegation->in_use_) by_use_.splice(by_use_.end(), by_use_, delegation->place_);
}

void Delegations::leaving(const DelegationRef& delegation) {
  MutexLock lock(mutex_);
  leave_use(*delegation);
}

Delegations::Found Delegations::find(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid) const {
  MutexLock lock(mutex_);
  Found found;
  const auto [first, last] = by_handle_.equal_range(key(fh));
  for (auto it = first; it != last; ++it) {
    if (it->second->stateid.same_state(stateid)) return {nfs4::NFS4_OK, it->second};
    found.status = nfs4::NFS4ERR_BAD_STATEID;
  }
  return found;
}

DelegationRef Delegations::find_write(const nfs4::nfs_fh4& fh) const {
  MutexLock lock(mutex_);
  const auto [first, last] = by_handle_.equal_range(key(fh));
  const auto it = std::find_if(first, last, [](const auto& entry) { return entry.second->write; });
  return it == last ? nullptr : it->second;
}

std::vector<DelegationRef> Delegations::oldest_beyond(size_t keep, bool read, bool write) {
  std::vector<DelegationRef> all;
  MutexLock lock(mutex_);
  const size_t held = (write ? writes_ : 0) + (read ? by_use_.size() - writes_ : 0);
  for (auto it = by_use_.begin(); it != by_use_.end() && all.size() + keep < held;) {
    const DelegationRef delegation = *it++;
    if (!(delegation->write ? write : read)) continue;
    leave_use(*delegation);
    all.push_back(delegation);
  }
  return all;
}

std::vector<DelegationRef> Delegations::all() const {
  MutexLock lock(mutex_);
  return {by_use_.begin(), by_use_.end()};
}

DelegationStatistics Delegations::statistics() const {
  DelegationStatistics s;
  s.granted = granted_.load(std::memory_order_relaxed);
  s.recalled = recalled_.load(std::memory_order_relaxed);
  s.returned = returned_.load(std::memory_order_relaxed);
  s.revoked = revoked_.load(std::memory_order_relaxed);
  s.local_opens = local_opens_.load(std::memory_order_relaxed);
  MutexLock lock(mutex_);
  s.held_write = writes_;
  s.held_read = by_use_.size() - writes_;
  s.returning = by_handle_.size() - by_use_.size();
  return s;
}

}  // namespace nfsrdma::client::nfs4
