// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/lock_waits.h"

#include <algorithm>
#include <vector>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

LockWaits::Wait::Wait(LockWaits& waits, std::string owner) : waits_(waits), owner_(std::move(owner)) {
  MutexLock lock(waits_.mutex_);
  waits_.waiting_.emplace(owner_, this);
}

LockWaits::Wait::~Wait() {
  MutexLock lock(waits_.mutex_);
  set_holder("");
  waits_.waiting_.erase({owner_, this});
  if (waits_.waiting_.empty()) waits_.changes_.clear();
}

void LockWaits::Wait::set_holder(const std::string& holder) {
  if (!holder_.empty()) waits_.awaited_.erase({holder_, this});
  holder_ = holder;
  if (!holder_.empty()) waits_.awaited_.emplace(holder_, this);
}

void LockWaits::Wait::ask() {
  MutexLock lock(waits_.mutex_);
  asked_ = waits_.clock_;
}

bool LockWaits::Wait::denied(const std::string& holder) {
  MutexLock lock(waits_.mutex_);
  set_holder("");
  const auto change = waits_.changes_.find(holder);
  if (holder.empty() || holder == owner_ || (change != waits_.changes_.end() && change->second > asked_))
    return false;
  if (waits_.leads_to(holder, owner_)) return true;
  set_holder(holder);
  return false;
}

void LockWaits::changed(const std::string& owner) {
  MutexLock lock(mutex_);
  if (waiting_.empty()) return;
  if (changes_.size() >= look_at_) forget_old_changes();
  changes_[owner] = ++clock_;
  for (auto at = awaited_.lower_bound({owner, nullptr}); at != awaited_.end() && at->first == owner;)
    (at++)->second->set_holder("");
}

void LockWaits::forget_old_changes() {
  uint64_t oldest = clock_;
  for (const auto& [owner, wait] : waiting_) oldest = std::min(oldest, wait->asked_);
  std::erase_if(changes_, [&](const auto& change) { return change.second <= oldest; });
  look_at_ = std::max(kManyChanges, 2 * changes_.size());
}

size_t LockWaits::remembered() const {
  MutexLock lock(mutex_);
  return changes_.size();
}

bool LockWaits::leads_to(std::string_view from, std::string_view to) const {
  std::set<std::string_view> seen{from};
  std::vector<std::string_view> next{from};
  while (!next.empty()) {
    const std::string_view owner = next.back();
    if (owner == to) return true;
    next.pop_back();
    for (auto at = waiting_.lower_bound({owner, nullptr}); at != waiting_.end() && at->first == owner; ++at) {
      const std::string& holder = at->second->holder_;
      if (!holder.empty() && seen.insert(holder).second) next.push_back(holder);
    }
  }
  return false;
}

}  // namespace nfsrdma::client::nfs4
