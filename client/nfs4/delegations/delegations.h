// SPDX-License-Identifier: Apache-2.0
// Delegations: the open delegations that this mount holds (RFC 8881 sections 10.2, 10.4).
//
// The FileState of a file (file_state.h) refers to its Delegation and knows what may be done under it. This
// class finds all of them: by file handle, for the back channel, and by last use, to limit their number. One
// per mount, any thread, one short lock. The lock is a leaf: it may be taken with a Node's mutex held.
//
// Size: one entry for each delegation from the OPEN result that brought it until its DELEGRETURN is answered.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/api/statistics.h"
#include "client/nfs4/protocol_types.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/state_machine.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {

struct DelegationPhases {
  // kHeld: what it covers is answered locally. kReturning: for the server it is still held, and its stateid
  // may be used. But nothing new is answered locally under it, except locks, as long as the file has other
  // locks that the server does not have yet. kForgotten: a restarted server did not grant it again, and the
  // opens and locks under it are being reclaimed. kEnded: returned or revoked.
  enum class State : uint8_t { kHeld, kReturning, kForgotten, kEnded };
  static constexpr const char* kName = "delegation";
  static constexpr std::array kTransitions{
      Transition{State::kHeld, State::kReturning},
      Transition{State::kHeld, State::kForgotten},
      Transition{State::kHeld, State::kEnded},
      Transition{State::kReturning, State::kForgotten},
      Transition{State::kReturning, State::kEnded},
      // The connection was lost before everything was reclaimed: the next recovery begins again.
      Transition{State::kForgotten, State::kHeld},
      Transition{State::kForgotten, State::kReturning},
      Transition{State::kForgotten, State::kEnded},
  };
};

struct Delegation {
  using Phase = DelegationPhases::State;

  Delegation(const nfs4::nfs_fh4& file, const nfs4::open_delegation4& from, rpc::CredentialPtr opener,
             uint64_t granted_in)
      : fh(file),
        stateid(from.stateid),
        write(from.delegation_type == nfs4::OPEN_DELEGATE_WRITE),
        permissions(from.permissions),
        credential(std::move(opener)),
        epoch(granted_in) {}

  // OPEN4_SHARE_ACCESS_*: opens of this access need no OPEN (section 10.4).
  uint32_t access() const { return write ? nfs4::OPEN4_SHARE_ACCESS_BOTH : nfs4::OPEN4_SHARE_ACCESS_READ; }
  bool covers(uint32_t wanted) const { return (wanted & ~access()) == 0; }
  // Section 8.2.2: a seqid of zero means the current state, even if a reply with a newer seqid is in flight.
  nfs4::stateid4 current() const { return {0, stateid.other}; }

  const nfs4::nfs_fh4 fh;
  const nfs4::stateid4 stateid;
  const bool write;
  const nfs4::nfsace4 permissions;      // who may open without an ACCESS request
  const rpc::CredentialPtr credential;  // of the user whose OPEN brought it; DELEGRETURN uses it
  const uint64_t epoch;                 // Session::epoch() it was granted in

  // --- guarded by the Node's mutex ---
  StateMachine<DelegationPhases> phase{Phase::kHeld};
  bool sent_back = false;  // DELEGRETURN is under way: its stateid may be gone
  // The file's change attribute when it was granted: "c" of section 10.4.3. None: not known yet.
  std::optional<uint64_t> change;

  bool queued = false;  // in the queue of returns; guarded by that queue's lock

 private:
  friend class Delegations;
  std::list<std::shared_ptr<Delegation>>::iterator place_;  // valid if in_use_
  bool in_use_ = false;                                     // in by_use_: its return has not begun
};
using DelegationRef = std::shared_ptr<Delegation>;

// The server's callbacks about delegations. Any loop. No function waits for the server.
class DelegationHolder {
 public:
  virtual ~DelegationHolder() = default;
  // CB_RECALL, CB_RECALL_ANY: the delegation must be returned. May be called several times for one.
  virtual void recalled(DelegationRef delegation) = 0;
  // CB_RECALL of a delegation that is not in Delegations. Either the reply that brought it was lost and the
  // OPEN was executed again, or the reply is still in flight. In the second case its OPEN began before number
  // `begun` (Delegations::begun_so_far()).
  virtual void recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid, uint64_t begun) = 0;
  // CB_GETATTR of a write delegation: size and change attribute by section 10.4.3. Nothing: the change
  // attribute is not known yet, or the file's Node is gone.
  struct Known {
    uint64_t size = 0, change = 0;
  };
  virtual std::optional<Known> delegated_attributes(const Delegation& delegation) = 0;
};

class Delegations {
 public:
  // The default limit: more than the files of a large source tree. A server limits delegations by its own
  // memory.
  static constexpr size_t kMost = 131072;

  explicit Delegations(size_t most = kMost) : most_(most) {}
  void attach(DelegationHolder* holder) { holder_ = holder; }
  DelegationHolder* holder() const { return holder_; }

  // How a delegation came, and how it went.
  enum class Came : uint8_t { kGranted, kReclaimed, kUnwanted };
  enum class Went : uint8_t { kReturned, kRevoked, kReplaced };
  // kUnwanted: it is being returned already, and is added only so that find() finds it.
  void add(const DelegationRef& delegation, Came came);
  void remove(const DelegationRef& delegation, Went went);
  // Something was answered under it.
  void used(const DelegationRef& delegation);
  // Its return has begun.
  void leaving(const DelegationRef& delegation);

  // Exists while an OPEN that may bring a delegation is in flight, and until the delegation is recorded: a
  // recall may overtake the reply.
  class Asking {
   public:
    explicit Asking(Delegations& d) : delegations_(d), number_(d.begin_asking()) {}
    ~Asking() { delegations_.end_asking(number_); }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    Delegations& delegations_;
    const uint64_t number_;
  };
  // True if such an OPEN is in flight that began before number `begun`.
  bool being_asked_for(uint64_t begun = UINT64_MAX) const;
  uint64_t begun_so_far() const;
  // True if the delegation ended while an OPEN was in flight that may bring it again.
  bool went_lately(const nfs4::stateid4& stateid) const;
  // NFS4_OK with the delegation, NFS4ERR_BAD_STATEID, NFS4ERR_BADHANDLE (sections 20.1.3, 20.2.3).
  struct Found {
    nfs4::nfsstat4 status = nfs4::NFS4ERR_BADHANDLE;
    DelegationRef delegation;
  };
  Found find(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid) const;
  DelegationRef find_write(const nfs4::nfs_fh4& fh) const;
  void count_recall() { recalled_.fetch_add(1, std::memory_order_relaxed); }
  void count_local_open() { local_opens_.fetch_add(1, std::memory_order_relaxed); }

  // The delegations beyond the limit, least recently used first. Each is listed only once: the caller must
  // return it to the server.
  std::vector<DelegationRef> excess() { return oldest_beyond(most_, true, true); }
  // The same for CB_RECALL_ANY: of these types all but `keep`.
  std::vector<DelegationRef> oldest_beyond(size_t keep, bool read, bool write);
  // All that are not being returned, in any order.
  std::vector<DelegationRef> all() const;
  DelegationStatistics statistics() const;

 private:
  void leave_use(Delegation& delegation) NFSRDMA_REQUIRES(mutex_);
  uint64_t begin_asking();
  void end_asking(uint64_t number);
  void remember_gone(const nfs4::stateid4& stateid);
  void forget_gone() NFSRDMA_REQUIRES(asking_mutex_);

  const size_t most_;
  DelegationHolder* holder_ = nullptr;
  mutable Mutex mutex_;
  std::unordered_multimap<std::string, DelegationRef> by_handle_ NFSRDMA_GUARDED_BY(mutex_);
  std::list<DelegationRef> by_use_ NFSRDMA_GUARDED_BY(mutex_);  // the least recently used first
  size_t writes_ NFSRDMA_GUARDED_BY(mutex_) = 0;                // of by_use_
  mutable Mutex asking_mutex_;
  // The numbers of OPENs in flight; at most one per slot.
  std::vector<uint64_t> asking_ NFSRDMA_GUARDED_BY(asking_mutex_);
  uint64_t next_asking_ NFSRDMA_GUARDED_BY(asking_mutex_) = 0;
  // Delegations that ended while such an OPEN was in flight, each with next_asking_ at that time; at most
  // kMost.
  using Other = decltype(nfs4::stateid4::other);
  std::deque<std::pair<uint64_t, Other>> gone_ NFSRDMA_GUARDED_BY(asking_mutex_);
  std::set<Other> gone_states_ NFSRDMA_GUARDED_BY(asking_mutex_);
  std::atomic<uint64_t> granted_{0}, recalled_{0}, returned_{0}, revoked_{0}, local_opens_{0};
};

}  // namespace nfsrdma::client::nfs4
