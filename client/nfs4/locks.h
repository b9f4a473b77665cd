// SPDX-License-Identifier: Apache-2.0
// Byte-range locks: the book of what each lock-owner holds, and the arguments that follow from it (RFC 8881
// sections 9.1-9.3, 18.10-18.12). Pure functions; the caller guards the states.
#pragma once

#include <cstdint>
#include <span>

#include "client/nfs4/file_state.h"
#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::client {

// LOCK for `range`. The owner's first lock is made from the open stateid, later ones from its lock stateid.
nfs4::LOCK4args lock_args(nfs4::clientid4 client, const OpenState& open, const LockState& owner,
                          const LockRange& range, bool waiting);

// NFS length of [start, end]: all ones means "to the end of the file" (section 18.10.3).
nfs4::length4 lock_length(uint64_t start, uint64_t end);
uint64_t lock_end(nfs4::offset4 offset, nfs4::length4 length);

// Of ranges that are disjoint and ascending, those that `range` shares a byte with.
std::span<const LockRange> overlapping(std::span<const LockRange> ranges, const LockRange& range);

// The owner now holds `range` (kRead, kWrite), or no longer does (kUnlock); POSIX rules: a newer lock
// replaces what it overlaps, neighbours of one type merge.
void record_lock(std::vector<LockRange>& ranges, const LockRange& range);

// What takes `range` back to `before`, in the order in which it is done: what was held in another way first
// (of which another owner's lock can keep nothing but a read lock that was made of a write lock), then what
// was not held.
std::vector<LockRange> way_back(std::span<const LockRange> before, const LockRange& range);

// The bytes of `ranges` that are not in `held`, in whatever way; as unlocks.
std::vector<LockRange> not_held(std::span<const LockRange> ranges, std::span<const LockRange> held);

// The state of the lock_owner4 `owner` under `state`; null: it never locked there.
LockState* find_owner(OpenState& state, const std::string& owner);
const LockState* find_owner(const OpenState& state, const std::string& owner);

// The other owner whose lock, of those known here, is in the way of `range`; null: none. The Node's mutex is
// held.
const LockState* local_conflict(const FileState& file, const std::string& owner, const LockRange& range);

// LockState::locker of a POSIX lock owner or an open file description.
std::string posix_owner(uint64_t owner);
std::string flock_owner(uint64_t owner);
// lock_owner4.owner, for the `serial`-th of the mount.
std::string lock_owner_name(const std::string& locker, uint64_t serial);

}  // namespace nfsrdma::client
