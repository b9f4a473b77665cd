// SPDX-License-Identifier: Apache-2.0
// SlotTable: the fore channel's slots (RFC 8881 section 2.10.6), shared by all loops of a mount.
//
// A request holds one slot from acquire() until its reply is in; a slot is never abandoned. The lowest free
// slot is used first, so that sa_highest_slotid stays low and the server may shrink the table
// (section 2.10.6.1). Slot 0 is kept for the session's own upkeep (lease renewal, recovery) when the server
// grants more than one.
//
// A slot that comes back is reserved for who has waited longest, before his loop resumes him: whoever asks
// meanwhile waits behind him. So nobody waits while a slot is free. Until he is there the slot can be taken
// from him: by a lower target, or with the session. He waits on, before all others.
//
// The table is closed while there is no usable session: acquire() waits. Each session has a generation; a
// ticket of an older one is ignored by release(). One short lock; waiting is on the caller's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/runtime/sync.h"
#include "transport/runtime/task.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

// What a request puts into its SEQUENCE.
struct SlotTicket {
  uint64_t generation = 0;
  nfs4::sessionid4 session{};
  uint32_t slot = 0;
  uint32_t sequence = 0;
  uint32_t highest = 0;    // sa_highest_slotid
  bool uncertain = false;  // the server may already have executed `sequence`: probe before use
  uint64_t turn = 0;       // how often the server had lowered its target by then
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

  // A new session: `slots` >= 1 as granted; recovery has used the lowest ones, whose next sequence IDs are
  // `next`, and was told of `usable` ones at last (sr_target_highest_slotid): by those that it used itself
  // the server may take the client to follow that, and refuse slots above it (BADSLOT). Opens the table.
  void open(uint64_t generation, const nfs4::sessionid4& session, uint32_t slots,
            const std::vector<uint32_t>& next, uint32_t usable = kMaxSlots);
  // No usable session: acquire() waits from now on. Only when `generation` is still current.
  bool close(uint64_t generation);
  // The mount is going away: every waiting and future acquire() ends without a ticket.
  void shut_down();

  // kAhead: for who had a slot that was no use to him (`uncertain`), and so came before all who wait now.
  enum class Place : uint8_t { kBehind, kAhead };
  // A slot for an ordinary request; nothing when shut down.
  Task<std::optional<SlotTicket>> acquire(Place place = Place::kBehind);
  // Slot 0, for the session's upkeep; nothing when busy, closed or shut down. Never waits.
  std::optional<SlotTicket> try_acquire_upkeep();
  void release(const SlotTicket& ticket, SlotUse use);

  // sr_target_highest_slotid and sr_highest_slotid of the reply to `ticket`'s request; before the slot is
  // released, or the next request in it would tell the server that a target was seen that others do not
  // follow yet. Replies may come out of order: a lower target always counts, a higher one only from the reply
  // to a request that was made after the target was lowered last.
  void set_target(const SlotTicket& ticket, uint32_t target_highest_slot);
  // CB_RECALL_SLOT: as set_target() for the current session, but never raises the target.
  void recall(uint32_t target_highest_slot);
  // Whether the request named a slot above the target: one that was still busy when it took its own, or was
  // usable then. The server may have seen a later request that named none before it, and have retired those
  // slots (BAD_HIGH_SLOT): with several loops or connections requests overtake each other.
  bool beyond_target(const SlotTicket& ticket) const;
  // CB_SEQUENCE's referring calls: whether that request's reply has not been seen yet.
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
  // All with mutex_ held.
  std::optional<uint32_t> lowest_free() const;
  void reserve(uint32_t slot);
  SlotTicket ticket(uint32_t slot);
  SlotTicket take(uint32_t slot);
  bool resume_next();
  void hand_over();
  void take_back(uint32_t from);
  void lower(uint32_t usable);

  mutable std::mutex mutex_;
  WaitQueue waiters_, ahead_;      // ahead_ is served first
  std::deque<uint32_t> reserved_;  // slots of those who are being resumed, for whichever is there first
  size_t returning_ = 0;           // how many those are: no fewer than reserved_
  std::vector<Slot> slots_;
  nfs4::sessionid4 session_{};
  uint64_t generation_ = 0;
  uint32_t usable_ = 0;  // slots below this one may be used: min(granted, target + 1)
  uint64_t turn_ = 0;    // times usable_ was lowered
  uint32_t in_use_ = 0;
  uint32_t busy_below_ = 0;  // no slot from here on is busy
  bool open_ = false;
  bool shut_down_ = false;
};

}  // namespace nfsrdma::client
