// SPDX-License-Identifier: Apache-2.0
// Recovery: the grace period, and what stable storage knows of the clients (RFC 8881 section 8.4.2).
//
// A restart records the opens, locks and delegations of each client; only these can be reclaimed. A client
// may reclaim nothing (NFS4ERR_NO_GRACE) if its lease expired, if its state was revoked and not freed, or if
// it did not finish reclaiming before the last grace period ended: the two edge conditions of section 8.4.3.
// The grace period ends when all recorded clients have sent RECLAIM_COMPLETE, when its time is over, or when
// a test ends it. Guarded by the server's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filer/state/clients.h"
#include "filer/state/states.h"

namespace nfsrdma::filer::state {

struct ReclaimRecord {
  struct Open {
    tree::NodeId node = 0;
    std::string owner;
    uint32_t access = 0;
    uint32_t deny = 0;
  };
  struct Lock {
    tree::NodeId node = 0;
    std::string owner;
    ByteRange range;
    bool write = false;
  };
  struct Delegation {
    tree::NodeId node = 0;
    bool write = false;
  };
  std::vector<Open> opens;
  std::vector<Lock> locks;
  std::vector<Delegation> delegations;
  bool spoiled = false;  // an edge condition applies: no reclaim
  // Stable storage records that the client may reclaim, but not which state; every reclaim is accepted.
  bool unverified = false;
};

class Recovery {
 public:
  // Records all clients, before the tables are cleared. `forget`: the stable storage is lost too.
  void remember(ClientTable& clients, StateTable& states, bool forget);
  // Records the clients that an earlier run has stored.
  void remember(const std::set<std::string>& owners);
  // The co_ownerids of clients that could reclaim if the server restarted now.
  std::set<std::string> reclaimers(ClientTable& clients) const;
  void begin_grace(LeaseClock::Duration now, LeaseClock::Duration length);
  // State that was not reclaimed is lost.
  void end_grace();
  // Called for each reclaim: "Some additional time ... to effect lock reclaims may be added". The period then
  // lasts at least one second more. In all, at most its own length is added.
  void reclaimed(LeaseClock::Duration now);
  // Ends the grace period when its time is over; returns true if it ended now.
  bool expire(LeaseClock::Duration now);
  bool in_grace() const { return in_grace_; }

  // Whether this client has something to reclaim: SEQ4_STATUS_RESTART_RECLAIM_NEEDED.
  bool must_reclaim(const Client& client) const;
  // Returns NFS4_OK or NFS4ERR_NO_GRACE.
  nfs4::nfsstat4 may_reclaim(const Client& client) const;
  // The client's record; null if it may not reclaim.
  const ReclaimRecord* record(const Client& client) const;
  // For RECLAIM_COMPLETE; may end the grace period.
  void complete(Client& client);

  static bool covers(const ReclaimRecord& record, const ReclaimRecord::Open& open);
  static bool covers(const ReclaimRecord& record, const ReclaimRecord::Lock& lock);
  static bool covers(const ReclaimRecord& record, const ReclaimRecord::Delegation& delegation);

 private:
  std::map<std::string, ReclaimRecord> records_;  // by co_ownerid
  bool in_grace_ = false;
  LeaseClock::Duration grace_end_{0};
  LeaseClock::Duration latest_end_{0};
};

}  // namespace nfsrdma::filer::state
