// SPDX-License-Identifier: Apache-2.0
// Byte-range locks: LOCK, LOCKT, LOCKU (RFC 8881 sections 18.10 to 18.12). Locks are advisory POSIX locks,
// granted or denied at once. A client that asks with READW_LT or WRITEW_LT has to poll, or to wait for
// CB_NOTIFY_LOCK if that is switched on.

#include "filer/nfs/ops.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

bool is_write(nfs_lock_type4 type) {
  return type == WRITE_LT || type == WRITEW_LT;
}
bool is_blocking(nfs_lock_type4 type) {
  return type == READW_LT || type == WRITEW_LT;
}

nfsstat4 need_file(const Context& c) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return status;
  switch (c.current.node->type) {
    case NF4REG: return NFS4_OK;
    case NF4DIR: return NFS4ERR_ISDIR;
    case NF4LNK: return NFS4ERR_SYMLINK;
    default: return NFS4ERR_WRONG_TYPE;
  }
}

LOCK4denied denied(const state::ByteLock& lock) {
  return {lock.range.first,
          lock.range.length(),
          lock.write ? WRITE_LT : READ_LT,
          {lock.owner.client, lock.owner.owner}};
}

// A conflicting lock. Locks of clients with expired leases are revoked and not reported.
std::optional<state::ByteLock> find_conflict(Context& c, tree::NodeId node, const state::ByteRange& range,
                                             bool write, const state::LockOwner& owner) {
  while (std::optional<state::ByteLock> lock = c.core.states.locks(node).conflict(range, write, owner)) {
    state::State* holder = nullptr;
    for (state::State* state : c.core.states.of(node)) {
      if (state == lock->state) holder = state;
    }
    if (holder == nullptr || !c.core.take_from_expired(*holder)) return lock;
  }
  return std::nullopt;
}

nfsstat4 check_grace(Context& c, const LOCK4args& args) {
  if (args.reclaim) return c.core.recovery.may_reclaim(*c.client);
  return c.core.recovery.in_grace() || !c.client->reclaim_complete ? NFS4ERR_GRACE : NFS4_OK;
}

nfsstat4 check_reclaim(Context& c, const state::ReclaimRecord::Lock& lock) {
  if (!c.core.switches.verify_reclaims) return NFS4_OK;
  return state::Recovery::covers(*c.core.recovery.record(*c.client), lock) ? NFS4_OK : NFS4ERR_RECLAIM_BAD;
}

// The open, and the lock-owner's state if it exists, that a LOCK refers to.
struct Locker {
  state::State* open = nullptr;
  state::State* lock = nullptr;
  std::string owner;
};

tree::Answer<Locker> find_locker(Context& c, const locker4& locker) {
  Locker found;
  const state::StateKind kind = locker.new_lock_owner ? state::StateKind::kOpen : state::StateKind::kLock;
  const tree::Answer<state::State*> state = named_state(c, locker.stateid, mask(kind));
  if (!state) return tree::refuse(state.error());
  if (locker.new_lock_owner) {
    found.open = *state;
    found.owner = locker.lock_owner.owner;
    // The client also sends its lock-owner if it "does not have the stateid available": this owner may have
    // locked the file before.
    found.lock = c.core.states.find_lock(*found.open, found.owner);
  } else {
    found.lock = *state;
    found.open = found.lock->open;
    found.owner = found.lock->owner;
  }
  return found;
}

bool room_for(Context& c, const Locker& locker, const state::ByteRange& range,
              const state::LockOwner& owner) {
  const ptrdiff_t more = c.core.states.locks(c.current.node->id).growth(range, owner) + 1;
  return c.core.room_for_locks(*c.client, more) &&
         (locker.lock != nullptr || c.core.room_for_state(*c.client));
}

}  // namespace

LOCK4res execute(Context& c, const LOCK4args& args) {
  if (const nfsstat4 status = need_file(c); status != NFS4_OK) return refused<LOCK4res>(status);
  const auto range = state::make_range(args.offset, args.length);
  if (!range) return refused<LOCK4res>(NFS4ERR_INVAL);
  if (const nfsstat4 status = check_grace(c, args); status != NFS4_OK) return refused<LOCK4res>(status);
  const tree::Answer<Locker> locker = find_locker(c, args.locker);
  if (!locker) return refused<LOCK4res>(locker.error());
  const bool write = is_write(args.locktype);
  // "a POSIX-compliant system does not" allow a write lock on a file opened only for reading, or a read lock
  // on a file opened only for writing.
  const uint32_t needed = write ? OPEN4_SHARE_ACCESS_WRITE : OPEN4_SHARE_ACCESS_READ;
  if ((locker->open->access & needed) == 0) return refused<LOCK4res>(NFS4ERR_OPENMODE);
  tree::Node& node = *c.current.node;
  if (args.reclaim) {
    const nfsstat4 status = check_reclaim(c, {node.id, locker->owner, *range, write});
    if (status != NFS4_OK) return refused<LOCK4res>(status);
  }
  const state::LockOwner owner{c.client->id, locker->owner};
  if (const std::optional<state::ByteLock> other = find_conflict(c, node.id, *range, write, owner)) {
    if (args.reclaim) return refused<LOCK4res>(NFS4ERR_RECLAIM_CONFLICT);
    LOCK4res res;
    res.status = NFS4ERR_DENIED;
    res.denied = denied(*other);
    if (is_blocking(args.locktype) && c.core.switches.notify_locks) {
      c.core.denied(c.client->id, node.id, locker->owner);
    }
    return res;
  }
  if (!room_for(c, *locker, *range, owner)) return refused<LOCK4res>(NFS4ERR_DELAY);
  state::State* lock = locker->lock;
  if (lock == nullptr) lock = &c.core.states.add_lock(*locker->open, locker->owner);
  c.core.states.lock(*lock, *range, write);
  if (args.reclaim) c.core.recovery.reclaimed(c.core.clock.now());
  LOCK4res res;
  res.resok4.lock_stateid = c.current.stateid = state::StateTable::advance(*lock);
  if (!write) c.core.locks_changed(node);  // a downgrade may allow other lock requests
  return res;
}

LOCKT4res execute(Context& c, const LOCKT4args& args) {
  if (const nfsstat4 status = need_file(c); status != NFS4_OK) return refused<LOCKT4res>(status);
  const auto range = state::make_range(args.offset, args.length);
  if (!range) return refused<LOCKT4res>(NFS4ERR_INVAL);
  // During the grace period, locks that are not reclaimed yet would be missing from the test.
  if (c.core.recovery.in_grace()) return refused<LOCKT4res>(NFS4ERR_GRACE);
  const state::LockOwner owner{c.client->id, args.owner.owner};
  LOCKT4res res;
  if (const std::optional<state::ByteLock> other =
          find_conflict(c, c.current.node->id, *range, is_write(args.locktype), owner)) {
    res.status = NFS4ERR_DENIED;
    res.denied = denied(*other);
  }
  return res;
}

LOCKU4res execute(Context& c, const LOCKU4args& args) {
  if (const nfsstat4 status = need_file(c); status != NFS4_OK) return refused<LOCKU4res>(status);
  const auto range = state::make_range(args.offset, args.length);
  if (!range) return refused<LOCKU4res>(NFS4ERR_INVAL);
  const tree::Answer<state::State*> state = named_state(c, args.lock_stateid, mask(state::StateKind::kLock));
  if (!state) return refused<LOCKU4res>(state.error());
  const state::ByteLocks& locks = c.core.states.locks(c.current.node->id);
  if (!c.core.room_for_locks(*c.client, locks.growth(*range, state::StateTable::lock_owner(**state))))
    return refused<LOCKU4res>(NFS4ERR_DELAY);
  c.core.states.unlock(**state, *range);
  LOCKU4res res;
  res.lock_stateid = c.current.stateid = state::StateTable::advance(**state);
  c.core.locks_changed(*c.current.node);
  return res;
}

}  // namespace nfsrdma::filer::nfs
