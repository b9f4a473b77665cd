// SPDX-License-Identifier: Apache-2.0
// FileState: what a file has on the server while it is open: opens and byte-range locks; in memory: unwritten
// data (cached_file.h).
//
// Hangs in its Nfs4Node, guarded by the Node's mutex unless said otherwise. One OpenState per file and
// open-owner (RFC 8881 section 9.1: the open-owner is the user), however many descriptors share it; one
// LockState per lock-owner (a process for POSIX locks, an open file description for others) under the
// OpenState it was made with.
//
// The kernel names lock-owners by addresses, and uses them again while CLOSEs and LOCKUs of the one before
// are on their way. A server may hand out one lock stateid for one lock-owner and file, whatever open it is
// asked under, and drops its locks with the open that it was first made with. So each LockState has a
// lock_owner4 that none had before, and is found by the kernel's name only until its owner has closed
// (`over`).
//
// Under a delegation the server does not hear of every open: an OpenState may have openers that the server
// has no open for (`opened`), and an open of the server's may have no opener any more. Both are put right
// when the delegation goes back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/cache/cached_file.h"
#include "client/filesystem.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/node.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client {

struct LockRange {
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  // inclusive
  LockType type = LockType::kRead;
};

class Nfs4File;

struct LockState {
  std::string owner;      // lock_owner4.owner: no other has it, nor had it
  std::string locker;     // the kernel's name of it: posix_owner(), flock_owner()
  bool over = false;      // closed: its locks are being dropped, and no request finds it any more
  unsigned requests = 0;  // under way: it stays that long
  std::vector<const Nfs4File*> descriptors;  // that it has asked through, and that are open
  uint32_t pid = 0;  // of the last lock request; 0: a flock, which is the descriptor's
  nfs4::stateid4 stateid;
  bool established = false;  // stateid is valid; else the next LOCK is made from the open stateid
  bool local = false;        // `ranges` are held under the delegation: the server knows nothing of them
  bool lost = false;  // the server revoked or could not give back a lock: I/O fails until it is unlocked
  std::vector<LockRange> ranges;  // held, disjoint, ascending
  // Of a reclaim that is under way, or was given up: what the server may have given back in the epoch
  // `asked_in`, and has not been brought into agreement with `ranges` yet.
  std::vector<LockRange> asked;
  uint64_t asked_in = 0;

  // Nothing of it is held, nor was lost, nor may be at the server for nobody.
  bool idle() const { return ranges.empty() && !lost && asked.empty(); }
};

// Section 8.2.2: seqids of one state wrap, and answers may arrive out of order.
inline bool is_newer(const nfs4::stateid4& a, const nfs4::stateid4& b) {
  return static_cast<int32_t>(a.seqid - b.seqid) > 0;
}

// The request was executed before the session was lost, and its answer, which had the stateid after it, with
// it. A change counts the seqid up by one (section 8.2.2); 0 is skipped. Nothing, when an answer came
// meanwhile.
inline void count_up(nfs4::stateid4& stateid, const nfs4::stateid4& sent) {
  if (!(stateid == sent)) return;
  if (++stateid.seqid == 0) stateid.seqid = 1;
}

struct OpenState {
  uint32_t uid = 0;
  rpc::CredentialPtr credential;  // of the user's first open; recovery uses it
  nfs4::stateid4 stateid;
  bool established = false;           // the server has it; else it must be opened anew before use
  uint64_t epoch = 0;                 // Session::epoch() it was made in
  uint64_t asked_in = 0;              // that in which it was last reclaimed, answered or not
  uint64_t version = 0;               // changes when `stateid` was replaced by recovery
  int failed = 0;                     // errno: could not be opened anew; I/O fails with it
  uint32_t refused_access = 0;        // could not be opened anew for this, but for the rest
  int refused = 0;                    // errno of that
  std::array<uint32_t, 4> openers{};  // descriptors by share access (1 read, 2 write, 3 both)
  uint32_t held_access = 0;           // what the server has
  uint32_t opened = 0;                // 1 << share access: of which OPENs that is the union
  bool closing_later = false;         // idle, and its CLOSE is put off: StateManager::close_later()
  std::list<LockState> locks;

  uint32_t needed_access() const {
    uint32_t access = 0;
    for (uint32_t a = 1; a < openers.size(); ++a) access |= openers[a] != 0 ? a : 0;
    return access;
  }
  bool idle() const { return needed_access() == 0; }
  // A lock is held, or has been lost and not been given up since.
  bool has_locks() const {
    return std::any_of(locks.begin(), locks.end(),
                       [](const LockState& l) { return !l.ranges.empty() || l.lost; });
  }
  // Share accesses of openers whom the server knows nothing of.
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
  // The most that an OPEN_DOWNGRADE may leave within `bounds`.
  uint32_t opened_within(uint32_t bounds) const {
    uint32_t access = 0;
    for (uint32_t a = 1; a < openers.size(); ++a)
      access |= (opened & 1u << a) != 0 && (a & ~bounds) == 0 ? a : 0;
    return access;
  }
  // Each to be opened by itself when the state is made anew: an OPEN_DOWNGRADE must name "the union of the
  // share_access ... for some subset of the OPENs in effect" (RFC 8881 section 18.18.3). `unsaved`: there is
  // data to be written, perhaps of a descriptor that is closed.
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
  // Held across LOCK and LOCKU of the file, so that the book of held ranges follows the server's order.
  AsyncMutex lock_mutex;
  // Of turn_to_close(), until it has both of the others: two that try take them from each other without end.
  AsyncMutex closing_mutex;
  // Held across what makes opens of the server's agree with our book of them beside an OPEN that may be under
  // way: OPENs from a delegation, CLOSE, OPEN_DOWNGRADE. Not by an OPEN, which the server may delay until a
  // delegation is back. Taken after lock_mutex and open_mutex.
  AsyncMutex return_mutex;

  std::vector<OpenStateRef> opens;
  DelegationRef delegation;  // null: none; not of phase kEnded
  WaitQueue delegation_ended;
  WaitQueue unlocked;  // lock waits of this mount, woken when a lock is dropped here
  // Of locks of this mount: from before the data written under them is sent until LOCKU is answered.
  unsigned unlocks_under_way = 0;
  uint64_t unlocks_ended = 0;

  uint32_t pins = 0;  // OPENs under way

  bool opened() const override {
    return std::any_of(opens.begin(), opens.end(), [](const OpenStateRef& o) { return !o->idle(); });
  }
  bool in_use() const { return pins != 0 || !opens.empty() || delegation || unsaved(); }
  // Opens and attributes are answered under it.
  bool delegated() const { return delegation && delegation->phase == Delegation::Phase::kHeld; }
  // Section 10.4.2: under a write delegation locks are ours alone to give, unless the server had some before
  // it. While it is being returned, too, until those that are here are at the server, which would give others
  // beside them.
  bool locks_are_local() const {
    if (!delegation || !delegation->write) return false;
    bool any = false;
    for (const OpenStateRef& open : opens) {
      for (const LockState& l : open->locks) {
        if (!l.local && !l.idle()) return false;
        any = any || l.local;
      }
    }
    return delegated() || (any && delegation->phase == Delegation::Phase::kReturning);
  }
  // What I/O may be done with the delegation's stateid, also while that is being returned.
  uint32_t lent_access() const { return delegation ? delegation->access() : 0; }
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

// A request's hold on its lock-owner, which stays meanwhile.
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
  // Without it.
  ~LockUse() {
    if (lock_ == nullptr) return;
    std::lock_guard guard(file_->node.mutex);
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

}  // namespace nfsrdma::client
