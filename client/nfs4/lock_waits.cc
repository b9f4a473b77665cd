#include "client/nfs4/lock_waits.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::client {
LockWaits::Wait::Wait(LockWaits& waits, std::string owner) : waits_(waits), owner_(std::move(owner)) {
  std::lock_guard lock(waits_.mutex_);
  waits_.waits_.emplace(this, std::pair(owner_, std::string()));
}

LockWaits::Wait::~Wait() {
  std::lock_guard lock(waits_.mutex_);
  waits_.waits_.erase(this);
  if (waits_.waits_.empty()) waits_.changes_.clear();
}

void LockWaits::Wait::ask() {
  std::lock_guard lock(waits_.mutex_);
  asked_ = waits_.clock_;
}

bool LockWaits::Wait::denied(const std::string& holder) {
  std::lock_guard lock(waits_.mutex_);
  std::string& waits_for = waits_.waits_.at(this).second;
  waits_for.clear();
  const auto change = waits_.changes_.find(holder);
  if (holder.empty() || holder == owner_ || (change != waits_.changes_.end() && change->second > asked_))
    return false;
  if (waits_.leads_to(holder, owner_, waits_.waits_.size())) return true;
  waits_for = holder;
  return false;
}

void LockWaits::changed(const std::string& owner) {
  std::lock_guard lock(mutex_);
  if (waits_.empty()) return;
  if (changes_.size() >= look_at_) forget_old_changes();
  changes_[owner] = ++clock_;
  for (auto& [wait, entry] : waits_) {
    if (entry.second == owner) entry.second.clear();
  }
}

void LockWaits::forget_old_changes() {
  uint64_t oldest = clock_;
  for (const auto& [wait, entry] : waits_) oldest = std::min(oldest, wait->asked_);
  std::erase_if(changes_, [&](const auto& change) { return change.second <= oldest; });
  look_at_ = std::max(kManyChanges, 2 * changes_.size());
}

size_t LockWaits::remembered() const {
  std::lock_guard lock(mutex_);
  return changes_.size();
}

bool LockWaits::leads_to(const std::string& from, const std::string& to, size_t depth) const {
  if (from == to) return true;
  if (depth == 0) return false;
  return std::any_of(waits_.begin(), waits_.end(), [&](const auto& entry) {
    const auto& [waiter, holder] = entry.second;
    return waiter == from && !holder.empty() && leads_to(holder, to, depth - 1);
  });
}

}  // namespace nfsrdma::client
