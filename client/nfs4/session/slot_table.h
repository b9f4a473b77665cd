// SPDX-License-Identifier: Apache-2.0
// SlotTable: the fore channel's slots (RFC 8881 section 2.10.6), shared by all loops of a mount.
//
// A request holds one slot from acquire() until its reply is in; a slot is never abandoned. The lowest free
// slot is used first, so that sa_highest_slotid stays low and the server may shrink the table (section
// 2.10.6.1). Slot 0 is kept for the session's own upkeep (lease renewal) while more than one slot may be
// used.
//
// A released slot is reserved at once for the request that has waited longest, before its loop resumes that
// request. So later requests stay behind it, and no request waits while a slot is free. Until the request
// runs, a lower target or the end of the session can take the slot away again. The request then waits ahead
// of all others.
//
// The table is closed while there is no usable session: acquire() waits. Each session has a generation; a
// ticket of an older one is ignored by release(). One short lock; waiting is on the caller's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"
#include "transport/runtime/task.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client::nfs4 {

// What a request puts into its SEQUENCE.
struct SlotTicket {
  uint64_t generation = 0;
  nfs4::sessionid4 session{};
  uint32_t slot = 0;
  uint32_t sequence = 0;
  uint32_t highest = 0;    // sa_highest_slotid
  bool uncertain = false;  // the server may already have executed `sequence`: probe before use
  uint64_t lowered = 0;    // how often the target had been lowered when the ticket was made
};

// What became of the slot's sequence ID.
enum class SlotUse : uint8_t {
  kExecuted,     // SEQUENCE succeeded: the next request uses the next sequence ID
  kNotExecuted,  // SEQUENCE itself failed and left the slot alone (DELAY, for example)
  kUncertain,    // no usable answer: the next user must find out
};

class SlotTable {
 public:
  static constexpr uint32_t kMaxSlots = 1024;

  // A new session with `slots` >= 1 granted. Opens the table. `next`: the next sequence IDs of the lowest
  // slots, which recovery has used. `usable`: how many slots the server wanted during recovery
  // (sr_target_highest_slotid). The server may conclude from recovery's requests that the client follows that
  // target, and reject higher slots (BADSLOT).
  void open(uint64_t generation, const nfs4::sessionid4& session, uint32_t slots,
            const std::vector<uint32_t>& next, uint32_t usable = kMaxSlots);
  // There is no usable session: acquire() waits from now on. Returns false and changes nothing if
  // `generation` is no longer current or the table is closed already.
  bool close(uint64_t generation);
  // The mount is going away: every waiting and future acquire() ends without a ticket.
  void shut_down();

  // kAhead: at the queue's front, for a request that retries after it got an uncertain slot.
  enum class Place : uint8_t { kBehind, kAhead };
  // A slot for an ordinary request, if one is free.
  std::optional<SlotTicket> try_acquire();
  // The same, but waits for a slot. Returns nothing when shut down.
  Task<std::optional<SlotTicket>> acquire(Place place = Place::kBehind);
  // Slot 0, for the session's upkeep; nothing when busy, closed or shut down. Never waits.
  std::optional<SlotTicket> try_acquire_upkeep();
  void release(const SlotTicket& ticket, SlotUse use);

  // Sets the target: the lower of sr_target_highest_slotid and sr_highest_slotid in the reply to `ticket`'s
  // request. Call it before the slot is released: otherwise the next request in the slot shows the server
  // that we received the target, while other requests do not follow it yet. Replies may arrive out of order:
  // a lower target always counts, a higher one only if its request was made after the target was last
  // lowered.
  void set_target(const SlotTicket& ticket, uint32_t target_highest_slot);
  // CB_RECALL_SLOT: as set_target() for the current session, but never raises the target.
  void recall(uint32_t target_highest_slot);
  // True if the request's sa_highest_slotid may be above the target, because slots above it were busy or
  // usable when the request was made. With several loops or connections requests overtake each other: the
  // server may have received a later request with a lower sa_highest_slotid first, and retired those slots
  // (BAD_HIGH_SLOT).
  bool beyond_target(const SlotTicket& ticket) const;
  // For CB_SEQUENCE's referring calls: true if the reply to that request has not arrived yet.
  bool outstanding(const nfs4::sessionid4& session, uint32_t slot, uint32_t sequence) const;

  uint64_t generation() const;
  bool is_open() const;
  struct Counts {
    uint32_t granted, target, in_use;
  };
  Counts counts() const;

 private:
  struct Slot {
    uint32_t sequence = 1;  // the next request's
    bool busy = false;
    bool uncertain = false;
  };
  std::optional<uint32_t> lowest_free() const NFSRDMA_REQUIRES(mutex_);
  void reserve(uint32_t slot) NFSRDMA_REQUIRES(mutex_);
  SlotTicket ticket(uint32_t slot) NFSRDMA_REQUIRES(mutex_);
  SlotTicket take(uint32_t slot) NFSRDMA_REQUIRES(mutex_);
  bool resume_next() NFSRDMA_REQUIRES(mutex_);
  void hand_over() NFSRDMA_REQUIRES(mutex_);
  void take_back(uint32_t from) NFSRDMA_REQUIRES(mutex_);
  void lower(uint32_t usable) NFSRDMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  WaitQueue waiters_ NFSRDMA_GUARDED_BY(mutex_), ahead_ NFSRDMA_GUARDED_BY(mutex_);  // ahead_ is served first
  // Slots reserved for waiters that are being resumed, in the order in which they were reserved. Whichever
  // waiter runs first takes the one at the front.
  std::deque<uint32_t> reserved_ NFSRDMA_GUARDED_BY(mutex_);
  // Number of waiters being resumed: at least reserved_.size().
  size_t returning_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  std::vector<Slot> slots_ NFSRDMA_GUARDED_BY(mutex_);
  nfs4::sessionid4 session_ NFSRDMA_GUARDED_BY(mutex_){};
  uint64_t generation_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  // Slots below this one may be used: min(granted, target + 1).
  uint32_t usable_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  uint64_t times_lowered_ NFSRDMA_GUARDED_BY(mutex_) = 0;  // times usable_ was lowered
  uint32_t in_use_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  uint32_t busy_below_ NFSRDMA_GUARDED_BY(mutex_) = 0;  // no slot from here on is busy
  bool open_ NFSRDMA_GUARDED_BY(mutex_) = false;
  bool shut_down_ NFSRDMA_GUARDED_BY(mutex_) = false;
};

}  // namespace nfsrdma::client::nfs4
