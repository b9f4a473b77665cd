// SPDX-License-Identifier: Apache-2.0
// Delegations: the open delegations that this mount holds (RFC 8881 sections 10.2, 10.4).
//
// A Delegation hangs in the FileState of its file (file_state.h), which tells what may be done under it; this
// is the register of all of them: by file handle, for the back channel, and by last use, so that their number
// has a bound. One per mount, one short lock, a leaf: it may be taken with a Node's mutex held. Any thread.
//
// Size: one entry for each delegation from the OPEN result that brought it until its DELEGRETURN is answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/statistics.h"
#include "transport/rpc/credential.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client {

struct Delegation {
  // kHeld: what it covers is answered here. kReturning: the server still counts it as held, and its stateid
  // may be used, but nothing new is answered under it, except locks beside those that are kept here alone.
  // kForgotten: a server that has restarted has not given it back, and what it covered is being reclaimed.
  // kEnded: returned, or taken away.
  enum class Phase : uint8_t { kHeld, kReturning, kForgotten, kEnded };

  Delegation(nfs4::nfs_fh4 file, const nfs4::open_delegation4& from, rpc::CredentialPtr opener,
             uint64_t granted_in)
      : fh(std::move(file)),
        stateid(from.stateid),
        write(from.delegation_type == nfs4::OPEN_DELEGATE_WRITE),
        permissions(from.permissions),
        credential(std::move(opener)),
        epoch(granted_in) {}

  // OPEN4_SHARE_ACCESS_*: opens of this access need no OPEN (section 10.4).
  uint32_t access() const { return write ? nfs4::OPEN4_SHARE_ACCESS_BOTH : nfs4::OPEN4_SHARE_ACCESS_READ; }
  bool covers(uint32_t wanted) const { return (wanted & ~access()) == 0; }
  // Section 8.2.2: a seqid of zero means the state as it is, whichever answer has not been heard yet.
  nfs4::stateid4 current() const { return {0, stateid.other}; }

  const nfs4::nfs_fh4 fh;
  const nfs4::stateid4 stateid;
  const bool write;
  const nfs4::nfsace4 permissions;      // who may open without asking ACCESS
  const rpc::CredentialPtr credential;  // of whose OPEN brought it; it goes back under it
  const uint64_t epoch;                 // Session::epoch() it was granted in

  // --- guarded by the Node's mutex ---
  Phase phase = Phase::kHeld;
  bool sent_back = false;  // DELEGRETURN is under way: its stateid may be gone
  // The file's change attribute when it was granted: "c" of section 10.4.3. None: it is not booked yet.
  std::optional<uint64_t> change;

  bool queued = false;  // to be given back; guarded by the lock of that queue

 private:
  friend class Delegations;
  std::list<std::shared_ptr<Delegation>>::iterator place_;  // with in_use_
  bool in_use_ = false;                                     // in by_use_: nobody returns it yet
};
using DelegationRef = std::shared_ptr<Delegation>;

// What the server asks about delegations. Any loop; none waits for the server.
class DelegationHolder {
 public:
  virtual ~DelegationHolder() = default;
  // CB_RECALL, CB_RECALL_ANY: it is to be returned. May come several times.
  virtual void recalled(DelegationRef delegation) = 0;
  // CB_RECALL of one that is not here: the answer that brought it was lost, and its OPEN done once more; or
  // the answer is still to come, to one of the OPENs that had `begun` by then.
  virtual void recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid, uint64_t begun) = 0;
  // CB_GETATTR of a write delegation: size and change attribute by section 10.4.3. Nothing: not known yet, or
  // no more.
  struct Known {
    uint64_t size = 0, change = 0;
  };
  virtual std::optional<Known> delegated_attributes(const Delegation& delegation) = 0;
};

class Delegations {
 public:
  // More than a source tree has files; a server bounds them by its own memory.
  static constexpr size_t kMost = 131072;

  explicit Delegations(size_t most = kMost) : most_(most) {}
  void attach(DelegationHolder* holder) { holder_ = holder; }
  DelegationHolder* holder() const { return holder_; }

  // How a delegation came, and how it went.
  enum class Came : uint8_t { kGranted, kReclaimed, kUnwanted };
  enum class Went : uint8_t { kReturned, kRevoked, kReplaced };
  // `came` kUnwanted: it is on its way back, and here only to be found.
  void add(const DelegationRef& delegation, Came came);
  void remove(const DelegationRef& delegation, Went went);
  // Something was answered under it.
  void used(const DelegationRef& delegation);
  // Somebody has begun to return it.
  void leaving(const DelegationRef& delegation);

  // An OPEN that may bring a delegation is under way, until what it brought is booked: a recall may overtake
  // its answer.
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
  // Of all of them, or of those that had begun by then.
  bool being_asked_for(uint64_t begun = UINT64_MAX) const;
  uint64_t begun_so_far() const;
  // It went while an OPEN was under way that may bring it again.
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

  // What is held beyond the bound, least recently used first. Given out once: the caller returns them.
  std::vector<DelegationRef> excess() { return oldest_beyond(most_, true, true); }
  // The same for CB_RECALL_ANY: of these types all but `keep`.
  std::vector<DelegationRef> oldest_beyond(size_t keep, bool read, bool write);
  // Each that is not being returned, in no order.
  std::vector<DelegationRef> all() const;
  DelegationStatistics statistics() const;

 private:
  void leave_use(Delegation& delegation);
  uint64_t begin_asking();
  void end_asking(uint64_t number);
  void remember_gone(const nfs4::stateid4& stateid);
  void forget_gone();

  const size_t most_;
  DelegationHolder* holder_ = nullptr;
  mutable std::mutex mutex_;
  std::unordered_multimap<std::string, DelegationRef> by_handle_;
  std::list<DelegationRef> by_use_;  // the least recently used first
  size_t writes_ = 0;                // of by_use_
  mutable std::mutex asking_mutex_;
  std::vector<uint64_t> asking_;  // their numbers: as many as there are slots at most
  uint64_t next_asking_ = 0;
  // What went while something was asked for, and how many OPENs had begun by then: at most kMost.
  using Other = decltype(nfs4::stateid4::other);
  std::deque<std::pair<uint64_t, Other>> gone_;
  std::set<Other> gone_states_;
  std::atomic<uint64_t> granted_{0}, recalled_{0}, returned_{0}, revoked_{0}, local_opens_{0};
};

}  // namespace nfsrdma::client
