#include "client/nfs4/slot_table.h"

#include <algorithm>

namespace nfsrdma::client {

void SlotTable::open(uint64_t generation, const nfs4::sessionid4& session, uint32_t slots,
                     const std::vector<uint32_t>& next, uint32_t usable) {
  std::lock_guard lock(mutex_);
  slots_.assign(std::clamp<uint32_t>(slots, 1, kMaxSlots), Slot{});
  for (size_t i = 0; i < std::min(slots_.size(), next.size()); ++i) slots_[i].sequence = next[i];
  session_ = session;
  generation_ = generation;
  usable_ = std::clamp<uint32_t>(usable, 1, static_cast<uint32_t>(slots_.size()));
  in_use_ = 0;
  busy_below_ = 0;
  open_ = true;
  wake();
}

bool SlotTable::close(uint64_t generation) {
  std::lock_guard lock(mutex_);
  if (generation != generation_ || !open_) return false;
  open_ = false;
  return true;
}

void SlotTable::shut_down() {
  std::lock_guard lock(mutex_);
  shut_down_ = true;
  waiters_.notify_all();
}

std::optional<SlotTicket> SlotTable::take(uint32_t index) {
  Slot& slot = slots_[index];
  slot.busy = true;
  ++in_use_;
  busy_below_ = std::max(busy_below_, index + 1);
  while (!slots_[busy_below_ - 1].busy) --busy_below_;
  return SlotTicket{generation_, session_, index, slot.sequence, busy_below_ - 1, slot.uncertain, turn_};
}

std::optional<SlotTicket> SlotTable::take_lowest() {
  if (!open_) return std::nullopt;
  const uint32_t first = usable_ > 1 ? 1 : 0;
  std::optional<uint32_t> uncertain;
  for (uint32_t i = first; i < usable_; ++i) {
    if (slots_[i].busy) continue;
    if (!slots_[i].uncertain) return take(i);
    if (!uncertain) uncertain = i;
  }
  // Last: the server may be at work still on what is in it, and its slot is no use until that has ended.
  return uncertain ? take(*uncertain) : std::nullopt;
}

Task<std::optional<SlotTicket>> SlotTable::acquire() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (shut_down_) co_return std::nullopt;
    if (auto ticket = take_lowest()) co_return ticket;
    co_await waiters_.wait(lock);
  }
}

std::optional<SlotTicket> SlotTable::try_acquire_upkeep() {
  std::lock_guard lock(mutex_);
  if (shut_down_ || !open_ || slots_[0].busy) return std::nullopt;
  return take(0);
}

void SlotTable::release(const SlotTicket& ticket, SlotUse use) {
  std::lock_guard lock(mutex_);
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
  if (open_ && ticket.slot < usable_) waiters_.notify_one();
}

void SlotTable::lower(uint32_t usable) {
  usable_ = usable;
  ++turn_;
  // Slot 0 is not kept any more where it is the only one, and those that are still busy come back to nobody.
  if (open_ && usable_ == 1) waiters_.notify_one();
}

void SlotTable::set_target(const SlotTicket& ticket, uint32_t target_highest_slot) {
  std::lock_guard lock(mutex_);
  if (ticket.generation != generation_) return;
  const uint32_t granted = static_cast<uint32_t>(slots_.size());
  // A target above what CREATE_SESSION granted lets the table grow (section 18.46.3); a slot that comes back
  // keeps its sequence ID.
  const uint64_t wanted = std::min<uint64_t>(uint64_t{target_highest_slot} + 1, kMaxSlots);
  const auto usable = static_cast<uint32_t>(wanted);
  if (usable < usable_) return lower(usable);
  if (usable == usable_ || ticket.turn != turn_) return;
  if (usable > granted) slots_.resize(usable);
  usable_ = usable;
  if (open_) wake();
}

void SlotTable::recall(uint32_t target_highest_slot) {
  std::lock_guard lock(mutex_);
  if (uint64_t{target_highest_slot} + 1 < usable_) lower(target_highest_slot + 1);
}

bool SlotTable::beyond_target(const SlotTicket& ticket) const {
  std::lock_guard lock(mutex_);
  return ticket.generation == generation_ && (ticket.highest >= usable_ || ticket.turn != turn_);
}

bool SlotTable::outstanding(const nfs4::sessionid4& session, uint32_t slot, uint32_t sequence) const {
  std::lock_guard lock(mutex_);
  return session == session_ && slot < slots_.size() && slots_[slot].busy &&
         slots_[slot].sequence == sequence;
}

void SlotTable::wake() {
  waiters_.notify_all();
}

uint64_t SlotTable::generation() const {
  std::lock_guard lock(mutex_);
  return generation_;
}

bool SlotTable::is_open() const {
  std::lock_guard lock(mutex_);
  return open_;
}

SlotTable::Counts SlotTable::counts() const {
  std::lock_guard lock(mutex_);
  return {static_cast<uint32_t>(slots_.size()), usable_, in_use_};
}

}  // namespace nfsrdma::client
