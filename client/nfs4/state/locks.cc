// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nfsrdma::client::nfs4 {
namespace {

bool touches(const LockRange& next, const LockRange& range) {
  return range.end != UINT64_MAX && range.end + 1 == next.start;
}

// Appends `range`, merged with the last one if they are adjacent and of one type.
void append(std::vector<LockRange>& ranges, const LockRange& range) {
  if (!ranges.empty() && ranges.back().type == range.type && touches(range, ranges.back())) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

const LockState* find_owner(const OpenState& state, const std::string& owner) {
  const auto it = std::find_if(state.locks.begin(), state.locks.end(),
                               [&](const LockState& l) { return l.owner == owner; });
  return it == state.locks.end() ? nullptr : &*it;
}

LockState* find_owner(OpenState& state, const std::string& owner) {
  return const_cast<LockState*>(find_owner(std::as_const(state), owner));
}

nfs4::LOCK4args lock_args(nfs4::clientid4 client, const OpenState& open, const LockState& owner,
                          const LockRange& range, bool waiting) {
  nfs4::LOCK4args args;
  const bool write = range.type == LockType::kWrite;
  args.locktype =
      write ? (waiting ? nfs4::WRITEW_LT : nfs4::WRITE_LT) : (waiting ? nfs4::READW_LT : nfs4::READ_LT);
  args.offset = range.start;
  args.length = lock_length(range.start, range.end);
  args.locker.new_lock_owner = !owner.established;
  args.locker.stateid = owner.established ? owner.stateid : open.stateid;
  args.locker.lock_owner = {client, owner.owner};
  return args;
}

nfs4::length4 lock_length(uint64_t start, uint64_t end) {
  return end == UINT64_MAX ? nfs4::NFS4_UINT64_MAX : end - start + 1;
}

uint64_t lock_end(nfs4::offset4 offset, nfs4::length4 length) {
  if (length == nfs4::NFS4_UINT64_MAX || length > UINT64_MAX - offset) return UINT64_MAX;
  // No lock has length 0. nfs-ganesha 4.3 sends 0 in LOCK4denied for "to the end of the file".
  return length == 0 ? UINT64_MAX : offset + length - 1;
}

std::span<const LockRange> overlapping(std::span<const LockRange> ranges, const LockRange& range) {
  const auto first =
      std::ranges::partition_point(ranges, [&](const LockRange& r) { return r.end < range.start; });
  const auto last =
      std::partition_point(first, ranges.end(), [&](const LockRange& r) { return r.start <= range.end; });
  return {first, last};
}

// The changed elements are consecutive: those that overlap the range, and an adjacent one on each side to
// merge with.
void record_lock(std::vector<LockRange>& ranges, const LockRange& range) {
  std::span<const LockRange> old = overlapping(ranges, range);
  const LockRange* first = old.data();
  const LockRange* last = first + old.size();
  if (first != ranges.data() && touches(range, first[-1])) --first;
  if (last != ranges.data() + ranges.size() && touches(*last, range)) ++last;
  std::vector<LockRange> now;
  for (const LockRange* r = first; r != last; ++r) {
    if (r->start < range.start) append(now, {r->start, std::min(r->end, range.start - 1), r->type});
  }
  if (range.type != LockType::kUnlock) append(now, range);
  for (const LockRange* r = first; r != last; ++r) {
    if (r->end > range.end) append(now, {std::max(r->start, range.end + 1), r->end, r->type});
  }
  const auto at = ranges.begin() + (first - ranges.data());
  const auto replaced = std::min<ptrdiff_t>(last - first, std::ssize(now));
  const auto next = std::copy_n(now.begin(), replaced, at);
  if (replaced == std::ssize(now)) {
    ranges.erase(next, at + (last - first));
  } else {
    ranges.insert(next, now.begin() + replaced, now.end());
  }
}

std::vector<LockRange> steps_back(std::span<const LockRange> before, const LockRange& range) {
  std::vector<LockRange> held, gaps;
  uint64_t next = range.start;
  bool done = false;
  for (const LockRange& r : overlapping(before, range)) {
    const uint64_t start = std::max(r.start, range.start), end = std::min(r.end, range.end);
    if (r.type != range.type) held.push_back({start, end, r.type});
    if (start > next) gaps.push_back({next, start - 1, LockType::kUnlock});
    done = end == range.end;
    next = done ? end : end + 1;
  }
  if (!done) gaps.push_back({next, range.end, LockType::kUnlock});
  held.insert(held.end(), gaps.begin(), gaps.end());
  return held;
}

std::vector<LockRange> not_held(std::span<const LockRange> ranges, std::span<const LockRange> held) {
  std::vector<LockRange> gone;
  for (const LockRange& range : ranges) {
    for (const LockRange& step : steps_back(held, range)) {
      if (step.type == LockType::kUnlock) gone.push_back(step);
    }
  }
  return gone;
}

const LockState* local_conflict(const FileState& file, const std::string& owner, const LockRange& range) {
  for (const OpenStateRef& open : file.opens) {
    for (const LockState& other : open->locks) {
      if (other.owner == owner) continue;
      const bool in_the_way = std::ranges::any_of(overlapping(other.ranges, range), [&](const LockRange& r) {
        return r.type == LockType::kWrite || range.type == LockType::kWrite;
      });
      if (in_the_way) return &other;
    }
  }
  return nullptr;
}

std::string posix_owner(uint64_t owner) {
  return fmt::format("posix {:x}", owner);
}
std::string flock_owner(uint64_t owner) {
  return fmt::format("flock {:x}", owner);
}
std::string lock_owner_name(const std::string& locker, uint64_t serial) {
  return fmt::format("{} {:x}", locker, serial);
}

}  // namespace nfsrdma::client::nfs4
