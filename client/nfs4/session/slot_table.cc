// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/slot_table.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

void SlotTable::open(uint64_t generation, const nfs4::sessionid4& session, uint32_t slots,
                     const std::vector<uint32_t>& next, uint32_t usable) {
  MutexLock lock(mutex_);
  reserved_.clear();
  slots_.assign(std::clamp<uint32_t>(slots, 1, kMaxSlots), Slot{});
  for (size_t i = 0; i < std::min(slots_.size(), next.size()); ++i) slots_[i].sequence = next[i];
  session_ = session;
  generation_ = generation;
  usable_ = std::clamp<uint32_t>(usable, 1, static_cast<uint32_t>(slots_.size()));
  in_use_ = 0;
  busy_below_ = 0;
  open_ = true;
  hand_over();
}

bool SlotTable::close(uint64_t generation) {
  MutexLock lock(mutex_);
  if (generation != generation_ || !open_) return false;
  open_ = false;
  take_back(0);
  return true;
}

void SlotTable::shut_down() {
  MutexLock lock(mutex_);
  shut_down_ = true;
  take_back(0);
  while (resume_next()) {
  }
}

std::optional<uint32_t> SlotTable::lowest_free() const {
  if (!open_ || shut_down_) return std::nullopt;
  const uint32_t first = usable_ > 1 ? 1 : 0;
  std::optional<uint32_t> uncertain;
  for (uint32_t i = first; i < usable_; ++i) {
    if (slots_[i].busy) continue;
    if (!slots_[i].uncertain) return i;
    if (!uncertain) uncertain = i;
  }
  // Slots whose last request got no usable reply (SlotUse::kUncertain) are used last: the server may still be
  // executing that request, and the slot cannot be used before that ends.
  return uncertain;
}

void SlotTable::reserve(uint32_t slot) {
  slots_[slot].busy = true;
  ++in_use_;
  busy_below_ = std::max(busy_below_, slot + 1);
}

// Called when the request is made, not when the slot is reserved, so that `highest` and `lowered` are
// current.
SlotTicket SlotTable::ticket(uint32_t slot) {
  while (!slots_[busy_below_ - 1].busy) --busy_below_;
  return {generation_,   session_, slot, slots_[slot].sequence, busy_below_ - 1, slots_[slot].uncertain,
          times_lowered_};
}

SlotTicket SlotTable::take(uint32_t slot) {
  reserve(slot);
  return ticket(slot);
}

std::optional<SlotTicket> SlotTable::try_acquire() {
  MutexLock lock(mutex_);
  const auto slot = lowest_free();
  return slot ? std::optional(take(*slot)) : std::nullopt;
}

Task<std::optional<SlotTicket>> SlotTable::acquire(Place place) {
  for (WaitQueue* queue = place == Place::kAhead ? &ahead_ : &waiters_;; queue = &ahead_) {
    MutexLock lock(mutex_);
    if (shut_down_) co_return std::nullopt;
    if (const auto slot = lowest_free()) co_return take(*slot);
    co_await queue->wait(lock);
    lock.lock_again();
    --returning_;
    if (reserved_.empty()) continue;
    const uint32_t slot = reserved_.front();
    reserved_.pop_front();
    co_return ticket(slot);
  }
}

bool SlotTable::resume_next() {
  if (!ahead_.notify_one() && !waiters_.notify_one()) return false;
  ++returning_;
  return true;
}

// Call it whenever a slot may have become free. Waiters whose reserved slot was taken back come first.
void SlotTable::hand_over() {
  while (reserved_.size() < returning_ || !ahead_.empty() || !waiters_.empty()) {
    const auto slot = lowest_free();
    if (!slot) return;
    reserve(*slot);
    reserved_.push_back(*slot);
    if (reserved_.size() > returning_) resume_next();
  }
}

// Takes reserved slots with numbers >= `from` away from waiters that are being resumed.
void SlotTable::take_back(uint32_t from) {
  in_use_ -= static_cast<uint32_t>(std::erase_if(reserved_, [&](uint32_t slot) NFSRDMA_REQUIRES(mutex_) {
    if (slot >= from) slots_[slot].busy = false;
    return slot >= from;
  }));
}

std::optional<SlotTicket> SlotTable::try_acquire_upkeep() {
  MutexLock lock(mutex_);
  if (shut_down_ || !open_ || slots_[0].busy) return std::nullopt;
  return take(0);
}

void SlotTable::release(const SlotTicket& ticket, SlotUse use) {
  MutexLock lock(mutex_);
  if (ticket.generation != generation_) return;
  Slot& slot = slots_[ticket.slot];
  slot.busy = false;
  --in_use_;
  switch (use) {
    case SlotUse::kExecuted:
      slot.sequence = ticket.sequence + 1;  // wraps, section 2.10.6.1
      slot.uncertain = false;
      break;
    case SlotUse::kNotExecuted: break;
    case SlotUse::kUncertain: slot.uncertain = true; break;
  }
  hand_over();
}

void SlotTable::lower(uint32_t usable) {
  usable_ = usable;
  ++times_lowered_;
  take_back(usable);
  hand_over();  // if slot 0 is the only one now, it is no longer kept for upkeep
}

void SlotTable::set_target(const SlotTicket& ticket, uint32_t target_highest_slot) {
  MutexLock lock(mutex_);
  if (ticket.generation != generation_) return;
  const uint32_t granted = static_cast<uint32_t>(slots_.size());
  // A target above what CREATE_SESSION granted lets the table grow (section 18.46.3). A slot that becomes
  // usable again keeps its sequence ID.
  const uint64_t wanted = std::min<uint64_t>(uint64_t{target_highest_slot} + 1, kMaxSlots);
  const auto usable = static_cast<uint32_t>(wanted);
  if (usable < usable_) return lower(usable);
  if (usable == usable_ || ticket.lowered != times_lowered_) return;
  if (usable > granted) slots_.resize(usable);
  usable_ = usable;
  hand_over();
}

void SlotTable::recall(uint32_t target_highest_slot) {
  MutexLock lock(mutex_);
  if (uint64_t{target_highest_slot} + 1 < usable_) lower(target_highest_slot + 1);
}

bool SlotTable::beyond_target(const SlotTicket& ticket) const {
  MutexLock lock(mutex_);
  return ticket.generation == generation_ && (ticket.highest >= usable_ || ticket.lowered != times_lowered_);
}

bool SlotTable::outstanding(const nfs4::sessionid4& session, uint32_t slot, uint32_t sequence) const {
  MutexLock lock(mutex_);
  return session == session_ && slot < slots_.size() && slots_[slot].busy &&
         slots_[slot].sequence == sequence;
}

uint64_t SlotTable::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

bool SlotTable::is_open() const {
  MutexLock lock(mutex_);
  return open_;
}

SlotTable::Counts SlotTable::counts() const {
  MutexLock lock(mutex_);
  return {static_cast<uint32_t>(slots_.size()), usable_, in_use_};
}

}  // namespace nfsrdma::client::nfs4
