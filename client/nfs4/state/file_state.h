// SPDX-License-Identifier: Apache-2.0
// FileState: the state of a file while it is open: opens and byte-range locks on the server, and unwritten
// data in memory (cached_file.h).
//
// Belongs to its Nfs4Node, guarded by the Node's mutex unless a comment says otherwise. One OpenState per
// file and open-owner (RFC 8881 section 9.1: the open-owner is the user), however many descriptors share it;
// one LockState per lock-owner (a process for POSIX locks, an open file description for others) under the
// OpenState it was made with.
//
// The kernel identifies lock-owners by addresses. It reuses an address while CLOSEs and LOCKUs of the
// previous owner are still in flight. A server may use one lock stateid for a lock-owner and file under all
// its opens, and drops the locks with the open that the stateid was created from. So each LockState has a
// lock_owner4 that was never used before. It is found by the kernel's name only until its owner has closed
// (`over`).
//
// Under a delegation the server does not learn of every open and close. An OpenState may have openers for
// which the server has no open (`opened`), and the server may have an open that has no opener any more. Both
// are corrected when the delegation is returned.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/nodes/cached_file.h"
#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/state/node.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {

struct LockRange {
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  // inclusive
  LockType type = LockType::kRead;
};

class Nfs4File;

struct LockState {
  std::string owner;      // lock_owner4.owner; never used twice
  std::string locker;     // the kernel's name for it: posix_owner(), flock_owner()
  bool over = false;      // closed: its locks are being dropped, and no request finds it any more
  unsigned requests = 0;  // in progress; the LockState stays until they end
  std::vector<const Nfs4File*> descriptors;  // open ones that it locked through
  uint32_t pid = 0;  // of the last lock request; 0: flock(2), whose locks belong to the descriptor
  nfs4::stateid4 stateid;
  bool established = false;  // stateid is valid; else the next LOCK uses the open stateid
  bool local = false;        // `ranges` are held under the delegation: the server does not know them
  bool lost = false;         // a lock was revoked or could not be reclaimed: I/O fails until it is unlocked
  std::vector<LockRange> ranges;  // held, disjoint, ascending
  // Ranges that the server may have granted in the epoch `asked_in`, by a reclaim that is in progress or was
  // interrupted. They were not compared with `ranges` yet.
  std::vector<LockRange> asked;
  uint64_t asked_in = 0;

  // No lock is held or lost, and the server has no reclaimed lock that was dropped here meanwhile.
  bool idle() const { return ranges.empty() && !lost && asked.empty(); }
};

// Section 8.2.2: the seqid of a stateid wraps, and replies may arrive out of order.
inline bool is_newer(const nfs4::stateid4& a, const nfs4::stateid4& b) {
  return static_cast<int32_t>(a.seqid - b.seqid) > 0;
}

// The server executed the request, but the reply with the new stateid was lost together with the session.
// Each change increments the seqid (section 8.2.2) and skips 0. Does nothing if a reply came meanwhile.
inline void count_up(nfs4::stateid4& stateid, const nfs4::stateid4& sent) {
  if (!(stateid == sent)) return;
  if (++stateid.seqid == 0) stateid.seqid = 1;
}

struct OpenState {
  uint32_t uid = 0;
  rpc::CredentialPtr credential;  // of the user's first open; recovery uses it
  nfs4::stateid4 stateid;
  bool established = false;     // the server has it; else it must be reopened before use
  uint64_t epoch = 0;           // Session::epoch() it was made in
  uint64_t asked_in = 0;        // the epoch of its last reclaim, answered or not
  uint64_t version = 0;         // changes when `stateid` was replaced by recovery
  std::atomic<int> failed{0};   // errno: the reopen failed; I/O fails with it. Read without the mutex, too
  uint32_t refused_access = 0;  // the reopen failed for this access, but not for the rest
  int refused = 0;              // errno of that
  std::array<uint32_t, 4> openers{};  // descriptors by share access (1 read, 2 write, 3 both)
  uint32_t held_access = 0;           // what is open on the server
  uint32_t opened = 0;                // 1 << share access, for each OPEN; held_access is their union
  bool closing_later = false;         // idle, and its CLOSE is delayed: OpenCloser::close_later()
  std::list<LockState> locks;

  uint32_t needed_access() const {
    uint32_t access = 0;
    for (uint32_t a = 1; a < openers.size(); ++a) access |= openers[a] != 0 ? a : 0;
    return access;
  }
  bool idle() const { return needed_access() == 0; }
  // The access that openers need and the server's open does not allow.
  uint32_t missing_access() const { return needed_access() & ~held_access & ~refused_access; }
  // A lock is held, or was lost and not unlocked since.
  bool has_locks() const {
    return std::any_of(locks.begin(), locks.end(),
                       [](const LockState& l) { return !l.ranges.empty() || l.lost; });
  }
  // Share accesses of openers for which the server has no open.
  std::vector<uint32_t> unopened_modes() const {
    std::vector<uint32_t> all;
    for (uint32_t a = 1; a < openers.size(); ++a) {
      if (openers[a] != 0 && (opened & 1u << a) == 0) all.push_back(a);
    }
    return all;
  }
  std::vector<uint32_t> opened_modes() const {
    std::vector<uint32_t> all;
    for (uint32_t a = 1; a < openers.size(); ++a) {
      if ((opened & 1u << a) != 0) all.push_back(a);
    }
    return all;
  }
  // The largest access within `bounds` that an OPEN_DOWNGRADE may leave.
  uint32_t opened_within(uint32_t bounds) const {
    uint32_t access = 0;
    for (uint32_t a = 1; a < openers.size(); ++a)
      access |= (opened & 1u << a) != 0 && (a & ~bounds) == 0 ? a : 0;
    return access;
  }
  // The share accesses to open one by one when the state is opened anew: an OPEN_DOWNGRADE must name "the
  // union of the share_access ... for some subset of the OPENs in effect" (RFC 8881 section 18.18.3).
  // `unsaved`: data must still be written, perhaps of a descriptor that is closed.
  std::vector<uint32_t> modes(bool unsaved) const {
    std::vector<uint32_t> all;
    for (uint32_t a = 1; a < openers.size(); ++a) {
      if (openers[a] != 0) all.push_back(a);
    }
    const bool writes = (needed_access() & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
    if (all.empty() || (unsaved && !writes)) all.push_back(nfs4::OPEN4_SHARE_ACCESS_WRITE);
    return all;
  }
};
using OpenStateRef = std::shared_ptr<OpenState>;

struct FileState final : CachedFile {
  explicit FileState(Nfs4Node& n) : CachedFile(n), node(n) {}

  Nfs4Node& node;
  // Held across LOCK and LOCKU of the file, so that our record of held ranges follows the server's order.
  AsyncMutex lock_mutex;
  // OpenCloser::lock_for_closing() holds it until it has lock_mutex and open_mutex. Without it, two callers
  // could take these from each other forever.
  AsyncMutex closing_mutex;
  // Held across operations that make the server's opens agree with our record: OPENs that claim what was
  // opened under a delegation, OPENs that restore an open, CLOSE, OPEN_DOWNGRADE. An ordinary OPEN may be in
  // flight meanwhile. It does not hold this mutex, because the server may delay it until a delegation is
  // returned. Taken after lock_mutex and open_mutex.
  AsyncMutex return_mutex;

  std::vector<OpenStateRef> opens;
  // An OpenState has had a LockState. Read without the mutex, too: I/O that began before it was set relies on
  // no lock.
  std::atomic<bool> locked{false};
  DelegationRef delegation;  // null: none; never in phase kEnded
  WaitQueue delegation_ended;
  WaitQueue unlocked;  // lock waits of this mount, woken when a lock is dropped here
  // Unlocks in progress: from before the data written under the lock is sent until LOCKU is answered.
  unsigned unlocks_under_way = 0;
  uint64_t unlocks_ended = 0;

  uint32_t pins = 0;  // OPENs in progress

  bool opened() const override {
    return std::any_of(opens.begin(), opens.end(), [](const OpenStateRef& o) { return !o->idle(); });
  }
  bool in_use() const { return pins != 0 || !opens.empty() || delegation || unsaved(); }
  // Opens and attributes are answered locally.
  bool delegated() const { return delegation && delegation->phase.get() == Delegation::Phase::kHeld; }
  // Section 10.4.2: under a write delegation we grant locks locally, unless the server has earlier ones. We
  // do so during its return, too, until our local locks are on the server: before that, the server could
  // grant locks that conflict with them.
  bool locks_are_local() const {
    if (!delegation || !delegation->write) return false;
    bool any = false;
    for (const OpenStateRef& open : opens) {
      for (const LockState& l : open->locks) {
        if (!l.local && !l.idle()) return false;
        any = any || l.local;
      }
    }
    return delegated() || (any && delegation->phase.get() == Delegation::Phase::kReturning);
  }
  // The share access for which I/O may use the delegation's stateid, also during its return.
  uint32_t delegated_access() const { return delegation ? delegation->access() : 0; }
};

// An open file description of the front end.
class Nfs4File final : public CachedOpen {
 public:
  Nfs4File(NodeRef n, std::shared_ptr<FileState> f, OpenStateRef s, rpc::CredentialPtr c, uint32_t a,
           bool sync)
      : CachedOpen(std::move(n), f, std::move(c), a, sync), file(std::move(f)), state(std::move(s)) {}
  // With the Node's mutex held.
  Nfs4File(NodeRef n, std::shared_ptr<FileState> f, OpenStateRef s, rpc::CredentialPtr c, uint32_t a,
           bool sync, uint64_t errors)
      : CachedOpen(std::move(n), f, std::move(c), a, sync, errors), file(std::move(f)), state(std::move(s)) {}

  IoAccount account(const RequestContext& ctx) const override;

  const std::shared_ptr<FileState> file;
  const OpenStateRef state;
};

// With the Node's mutex held.
inline bool asked_through(const LockState& lock, const Nfs4File& file) {
  return std::ranges::find(lock.descriptors, &file) != lock.descriptors.end();
}

// Keeps a lock-owner's LockState while a request uses it.
class LockUse {
 public:
  LockUse() = default;
  // With the Node's mutex held.
  LockUse(std::shared_ptr<FileState> file, OpenStateRef state, LockState& lock)
      : file_(std::move(file)), state_(std::move(state)), lock_(&lock) {
    ++lock.requests;
  }
  LockUse(LockUse&& other) noexcept
      : file_(std::move(other.file_)),
        state_(std::move(other.state_)),
        lock_(std::exchange(other.lock_, {})) {}
  LockUse& operator=(LockUse&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(state_, other.state_);
    std::swap(lock_, other.lock_);
    return *this;
  }
  // Without the Node's mutex.
  ~LockUse() {
    if (lock_ == nullptr) return;
    MutexLock guard(file_->node.mutex);
    --lock_->requests;
  }
  explicit operator bool() const { return lock_ != nullptr; }
  const OpenStateRef& state() const { return state_; }
  LockState& lock() const { return *lock_; }

 private:
  std::shared_ptr<FileState> file_;
  OpenStateRef state_;
  LockState* lock_ = nullptr;
};

inline Nfs4File& nfs4_file(const OpenFileRef& f) {
  return static_cast<Nfs4File&>(*f);
}

// The open that the data was written or is read through.
inline OpenStateRef open_state(const IoAccount& account) {
  return std::static_pointer_cast<OpenState>(account.state);
}

}  // namespace nfsrdma::client::nfs4
