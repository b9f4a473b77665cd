// SPDX-License-Identifier: Apache-2.0
#include "filer/state/recovery.h"

#include <algorithm>

namespace nfsrdma::filer::state {

using namespace nfs4;

namespace {

// Section 10.4: with a delegation the client may open and lock without telling the server.
bool held_under_delegation(const ReclaimRecord& record, tree::NodeId node, bool writes) {
  return std::any_of(
      record.delegations.begin(), record.delegations.end(),
      [&](const ReclaimRecord::Delegation& d) { return d.node == node && (d.write || !writes); });
}

}  // namespace

void Recovery::remember(ClientTable& clients, StateTable& states, bool forget) {
  std::map<std::string, ReclaimRecord> now;
  if (!forget) {
    // Clients that have not returned, or not finished reclaiming, may still reclaim in the next grace period.
    if (in_grace_) {
      for (const auto& [owner, record] : records_) {
        const Client* client = clients.find_owner(owner);
        if (client == nullptr || !client->reclaim_complete) now.emplace(owner, record);
      }
    }
    states.each([&](State& state) {
      ReclaimRecord& record = now[state.client->owner.co_ownerid];
      if (!state.live()) {
        record.spoiled = true;
        return;
      }
      if (state.kind == StateKind::kOpen) {
        record.opens.push_back({state.node->id, state.owner, state.access, state.deny});
      } else if (state.kind == StateKind::kDelegation) {
        record.delegations.push_back({state.node->id, state.write});
      } else {
        states.locks(state.node->id).each(StateTable::lock_owner(state), [&](const ByteLock& lock) {
          if (lock.state == &state)
            record.locks.push_back({state.node->id, state.owner, lock.range, lock.write});
        });
      }
    });
    // Clients without state have nothing to reclaim, but the grace period waits for their RECLAIM_COMPLETE:
    // only that says that they reclaim nothing.
    clients.each_client([&](Client& client) {
      if (client.confirmed) now.try_emplace(client.owner.co_ownerid);
    });
  }
  records_ = std::move(now);
}

void Recovery::remember(const std::set<std::string>& owners) {
  for (const std::string& owner : owners) records_[owner].unverified = true;
}

std::set<std::string> Recovery::reclaimers(ClientTable& clients) const {
  std::set<std::string> owners;
  for (const auto& [owner, record] : records_) {
    if (in_grace_ && !record.spoiled) owners.insert(owner);
  }
  clients.each_client([&](const Client& client) {
    if (!client.confirmed || !client.reclaim_complete) return;
    // A client may not reclaim after a restart while it has revoked state that it has not freed: another
    // client may have got a conflicting lock since (RFC 8881 section 8.4.3). Every kind of revocation counts.
    const uint32_t revoked = client.revoked_expired + client.revoked_admin + client.revoked_recall;
    if (client.expired_all || revoked > 0) {
      owners.erase(client.owner.co_ownerid);
    } else {
      owners.insert(client.owner.co_ownerid);
    }
  });
  return owners;
}

void Recovery::begin_grace(LeaseClock::Duration now, LeaseClock::Duration length) {
  in_grace_ = true;
  grace_end_ = now + length;
  latest_end_ = grace_end_ + length;
  if (records_.empty()) end_grace();
}

void Recovery::end_grace() {
  in_grace_ = false;
  records_.clear();
}

void Recovery::reclaimed(LeaseClock::Duration now) {
  grace_end_ = std::max(grace_end_, std::min(now + std::chrono::seconds(1), latest_end_));
}

bool Recovery::expire(LeaseClock::Duration now) {
  if (!in_grace_ || now < grace_end_) return false;
  end_grace();
  return true;
}

const ReclaimRecord* Recovery::record(const Client& client) const {
  if (!in_grace_ || client.reclaim_complete) return nullptr;
  const auto at = records_.find(client.owner.co_ownerid);
  return at == records_.end() || at->second.spoiled ? nullptr : &at->second;
}

bool Recovery::must_reclaim(const Client& client) const {
  return record(client) != nullptr;
}

nfsstat4 Recovery::may_reclaim(const Client& client) const {
  return record(client) != nullptr ? NFS4_OK : NFS4ERR_NO_GRACE;
}

void Recovery::complete(Client& client) {
  client.reclaim_complete = true;
  if (!in_grace_) return;
  records_.erase(client.owner.co_ownerid);
  if (records_.empty()) end_grace();
}

bool Recovery::covers(const ReclaimRecord& record, const ReclaimRecord::Open& open) {
  if (record.unverified) return true;
  const bool writes = (open.access & OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (open.deny == OPEN4_SHARE_DENY_NONE && held_under_delegation(record, open.node, writes)) return true;
  return std::any_of(record.opens.begin(), record.opens.end(), [&](const ReclaimRecord::Open& held) {
    return held.node == open.node && held.owner == open.owner && (open.access & ~held.access) == 0 &&
           (open.deny & ~held.deny) == 0;
  });
}

bool Recovery::covers(const ReclaimRecord& record, const ReclaimRecord::Lock& lock) {
  if (record.unverified || held_under_delegation(record, lock.node, true)) return true;
  return std::any_of(record.locks.begin(), record.locks.end(), [&](const ReclaimRecord::Lock& held) {
    return held.node == lock.node && held.owner == lock.owner && (held.write || !lock.write) &&
           held.range.first <= lock.range.first && lock.range.last <= held.range.last;
  });
}

bool Recovery::covers(const ReclaimRecord& record, const ReclaimRecord::Delegation& delegation) {
  if (record.unverified) return true;
  return std::any_of(record.delegations.begin(), record.delegations.end(), [&](const auto& held) {
    return held.node == delegation.node && (held.write || !delegation.write);
  });
}

}  // namespace nfsrdma::filer::state
