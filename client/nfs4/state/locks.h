// SPDX-License-Identifier: Apache-2.0
// Byte-range locks: the record of what each lock-owner holds, and the arguments that follow from it (RFC 8881
// sections 9.1-9.3, 18.10-18.12). Pure functions; the caller guards the states.
#pragma once

#include <cstdint>
#include <span>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/state/file_state.h"
#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::client::nfs4 {

// Arguments of LOCK for `range`. An owner's first lock uses the open stateid, later ones its lock stateid.
nfs4::LOCK4args lock_args(nfs4::clientid4 client, const OpenState& open, const LockState& owner,
                          const LockRange& range, bool waiting);

// The NFS length of [start, end]. All ones means "to the end of the file" (section 18.10.3).
nfs4::length4 lock_length(uint64_t start, uint64_t end);
uint64_t lock_end(nfs4::offset4 offset, nfs4::length4 length);

// The elements of `ranges` (disjoint and ascending) that overlap `range`.
std::span<const LockRange> overlapping(std::span<const LockRange> ranges, const LockRange& range);

// Records that the owner holds `range` (kRead, kWrite) or does not (kUnlock). POSIX rules: a new lock
// replaces what it overlaps, and adjacent locks of one type merge.
void record_lock(std::vector<LockRange>& ranges, const LockRange& range);

// The steps that restore the state `before` within `range`, in order. First come locks of the ranges that had
// another lock type: only a return to a write lock can fail, because of another owner's new lock. Then come
// unlocks of the ranges that were not held.
std::vector<LockRange> steps_back(std::span<const LockRange> before, const LockRange& range);

// The bytes of `ranges` outside `held`, as unlocks. Lock types do not matter.
std::vector<LockRange> not_held(std::span<const LockRange> ranges, std::span<const LockRange> held);

// The state of lock_owner4 `owner` under `state`. Null: it has none there.
LockState* find_owner(OpenState& state, const std::string& owner);
const LockState* find_owner(const OpenState& state, const std::string& owner);

// Another owner of this mount whose lock conflicts with `range`; null: none. The Node's mutex is held.
const LockState* local_conflict(const FileState& file, const std::string& owner, const LockRange& range);

// LockState::locker for a POSIX lock owner, or for an open file description.
std::string posix_owner(uint64_t owner);
std::string flock_owner(uint64_t owner);
// lock_owner4.owner for the mount's lock-owner number `serial`.
std::string lock_owner_name(const std::string& locker, uint64_t serial);

}  // namespace nfsrdma::client::nfs4
