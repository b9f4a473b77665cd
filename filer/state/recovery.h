// SPDX-License-Identifier: Apache-2.0
// Recovery: the grace period, and what the server's stable storage remembers of its clients (RFC 8881
// section 8.4.2).
//
// Every restart writes down, for each client, the opens, locks and delegations it held; only these can be
// reclaimed. A client whose lease ran out, whose state was revoked without being freed, or who did not finish
// reclaiming before the last grace period ended, may not reclaim at all: the two edge conditions of
// section 8.4.3 (NFS4ERR_NO_GRACE). Grace ends when everyone who is remembered has sent RECLAIM_COMPLETE,
// when its time is over, or when a test says so. Guarded by the server's lock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filer/state/clients.h"
#include "filer/state/states.h"

namespace nfsrdma::filer {

struct ReclaimRecord {
  struct Open {
    NodeId node = 0;
    std::string owner;
    uint32_t access = 0;
    uint32_t deny = 0;
  };
  struct Lock {
    NodeId node = 0;
    std::string owner;
    ByteRange range;
    bool write = false;
  };
  struct Delegation {
    NodeId node = 0;
    bool write = false;
  };
  std::vector<Open> opens;
  std::vector<Lock> locks;
  std::vector<Delegation> delegations;
  bool spoiled = false;     // an edge condition: no reclaim
  bool unverified = false;  // only that the client held state is known, not what: all is taken for true
};

class Recovery {
 public:
  // Before the tables are cleared. `forget`: the stable storage is lost too.
  void remember(ClientTable& clients, StateTable& states, bool forget);
  // What an earlier run has written down: who held state.
  void remember(const std::set<std::string>& owners);
  // Who may reclaim if the server restarted now, by co_ownerid.
  std::set<std::string> reclaimers(ClientTable& clients) const;
  void begin_grace(LeaseClock::Duration now, LeaseClock::Duration length);
  // Unreclaimed records become void.
  void end_grace();
  // Something has been reclaimed: "Some additional time ... to effect lock reclaims may be added", a second
  // at a time and no more than the length of the period.
  void reclaimed(LeaseClock::Duration now);
  // Ends grace when it is time; true if it ended now.
  bool expire(LeaseClock::Duration now);
  bool in_grace() const { return in_grace_; }

  // Whether this client has something to reclaim: SEQ4_STATUS_RESTART_RECLAIM_NEEDED.
  bool must_reclaim(const Client& client) const;
  // NFS4_OK or NO_GRACE.
  nfs4::nfsstat4 may_reclaim(const Client& client) const;
  // The client's record, while it may reclaim.
  const ReclaimRecord* record(const Client& client) const;
  // RECLAIM_COMPLETE; may end grace.
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

}  // namespace nfsrdma::filer
