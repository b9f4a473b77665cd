// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/state_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <unordered_set>

#include "client/nfs4/state/locks.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

bool about_state(nfs4::nfsstat4 status) {
  switch (status) {
    case nfs4::NFS4ERR_BAD_STATEID:
    case nfs4::NFS4ERR_OLD_STATEID:
    case nfs4::NFS4ERR_STALE_STATEID:
    case nfs4::NFS4ERR_EXPIRED:
    case nfs4::NFS4ERR_ADMIN_REVOKED:
    case nfs4::NFS4ERR_DELEG_REVOKED:
    case nfs4::NFS4ERR_STALE_CLIENTID: return true;
    default: return false;
  }
}

}  // namespace

StateManager::Counts StateManager::counts() const {
  Counts counts;
  counts.locks_lost = locks_lost_.load(std::memory_order_relaxed);
  for (const NodeRef& node : files()) {
    const MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    if (!file) continue;
    for (const auto& open : file->opens) {
      if (!open->idle()) ++counts.opens;
      for (const LockState& lock_state : open->locks) counts.locks += lock_state.ranges.size();
    }
  }
  return counts;
}

nfs4::open_owner4 StateManager::open_owner(uint32_t uid) const {
  return {session_.client_id(), fmt::format("open {}", uid)};
}

OpenStateRef StateManager::opened(FileState& file, const rpc::CredentialPtr& credential, uint32_t access,
                                  const nfs4::OPEN4resok& result, uint64_t epoch) {
  OpenStateRef opened;
  std::vector<nfs4::stateid4> gone;  // locks first
  bool lost_locks = false;
  {
    MutexLock lock(file.node.mutex);
    const auto it = std::find_if(file.opens.begin(), file.opens.end(),
                                 [&](const auto& o) { return o->uid == credential->uid(); });
    if (it != file.opens.end()) {
      opened = *it;
    } else {
      opened = file.opens.emplace_back(std::make_shared<OpenState>());
      opened->uid = credential->uid();
      opened->credential = credential;
    }
    OpenState& state = *opened;
    file.preserve_unlinked = (result.rflags & nfs4::OPEN4_RESULT_PRESERVE_UNLINKED) != 0;
    ++state.openers[access];
    state.failed = 0;
    state.refused_access &= ~access;
    // The OPEN was sent before a restart, and this state was reclaimed since: its stateid is gone, and run()
    // opens what is missing.
    if (state.established && epoch < state.epoch) return opened;
    const bool same = state.established && state.stateid.same_state(result.stateid);
    if (!same) {
      // The server had dropped the earlier open. For openers with another access, run() opens the file again.
      if (state.established) {
        gone = stateids_of(state);
        lost_locks = lose(state);
      }
      ++state.version;
    }
    if (!same || is_newer(result.stateid, state.stateid)) state.stateid = result.stateid;
    state.established = true;
    state.epoch = epoch;
    state.held_access |= access;
    state.opened |= 1u << access;
  }
  if (lost_locks) report_lost_locks(NodeRef(&file.node), "the server revoked them");
  if (!gone.empty()) Loop::current()->spawn(free_stateids(std::move(gone), credential));
  return opened;
}

OpenStateRef StateManager::opened_locally(FileState& file, const rpc::CredentialPtr& credential,
                                          uint32_t access) {
  const auto it = std::find_if(file.opens.begin(), file.opens.end(),
                               [&](const auto& o) { return o->uid == credential->uid(); });
  OpenStateRef state = it != file.opens.end() ? *it : nullptr;
  if (!state) {
    state = file.opens.emplace_back(std::make_shared<OpenState>());
    state->uid = credential->uid();
    state->credential = credential;
  }
  ++state->openers[access];
  state->failed = 0;
  state->refused_access &= ~access;
  return state;
}

OpenStateRef StateManager::opened_as_held(FileState& file, const rpc::CredentialPtr& credential,
                                          uint32_t access) {
  MutexLock lock(file.node.mutex);
  for (const OpenStateRef& state : file.opens) {
    if (state->uid != credential->uid()) continue;
    const uint32_t held = state->established && state->failed == 0 ? state->held_access : 0;
    if ((access & ~held) != 0 || held == access) return nullptr;
    ++state->openers[access];
    return state;
  }
  return nullptr;
}

std::vector<nfs4::stateid4> StateManager::stateids_of(const OpenState& state) {
  std::vector<nfs4::stateid4> all;
  for (const LockState& owner : state.locks) {
    if (owner.established) all.push_back(owner.stateid);
  }
  if (state.established) all.push_back(state.stateid);
  return all;
}

bool StateManager::note_upgrade(const nfs4::stateid4& stateid, uint32_t access) {
  for (const NodeRef& node : files()) {
    MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    for (size_t i = 0; file && i < file->opens.size(); ++i) {
      OpenState& state = *file->opens[i];
      if (!state.established || !state.stateid.same_state(stateid)) continue;
      if (is_newer(stateid, state.stateid)) state.stateid = stateid;
      state.held_access |= access;
      state.opened |= 1u << access;
      return true;
    }
  }
  return false;
}

Result<nfs4::stateid4> StateManager::io_stateid(const FileState& file, const IoAccount& account,
                                                uint32_t access) {
  const OpenStateRef through = open_state(account);
  MutexLock lock(file.node.mutex);
  const bool opened = through->established && (through->held_access & access) != 0;
  bool lent = (file.lent_access() & access) != 0 && (file.delegated() || !opened);
  nfs4::stateid4 stateid = through->stateid;
  // One pass over all locks: very many processes may lock through one descriptor.
  const std::unordered_set<std::string_view> names(account.lock_owners.begin(), account.lock_owners.end());
  for (size_t i = 0; !names.empty() && i < file.opens.size(); ++i) {
    const OpenStateRef& open = file.opens[i];
    for (const LockState& each : open->locks) {
      const LockState* owner = &each;
      if (!names.contains(each.owner)) continue;
      // As in the Linux client: an application must not continue as if it still held the lock.
      if (owner->lost) return fail(system_error(EIO, "I/O", "a lock on this file was lost"));
      // Until the lock is on the server, it is valid only with the delegation.
      if (owner->local && !owner->ranges.empty()) lent = (file.lent_access() & access) != 0;
      if (open == through && owner->established && !owner->local && !owner->ranges.empty())
        stateid = owner->stateid;
    }
  }
  if (lent) stateid = file.delegation->stateid;
  stateid.seqid = 0;
  return stateid;
}

Task<Result<CompoundReply>> StateManager::run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                              OpenStateRef state, LockState* lock_state) {
  Backoff between(std::chrono::milliseconds(10), std::chrono::milliseconds(250));
  for (int turn = 0;; ++turn) {
    if (turn > kMaxContradictions) co_await Loop::current()->sleep(between.next());
    if (turn > kMaxRecoveries)
      co_return fail(
          system_error(EIO, nfs4::op_name(request.op), "the server takes the file's open away each time"));
    uint64_t version = 0;
    bool usable = false;
    nfs4::stateid4 sent;
    DelegationRef delegation;
    {
      MutexLock lock(file->node.mutex);
      if (lock_state != nullptr) sent = lock_state->stateid;
      if (state->failed != 0) {
        co_return fail({.layer = Layer::kNfs,
                        .recovery = Recovery::kPermanent,
                        .errnum = state->failed,
                        .op = nfs4::op_name(request.op),
                        .cause = "the file's open state is lost"});
      }
      version = state->version;
      delegation = file->delegation;
      // LOCK needs an open on the server; READ and WRITE may use the delegation instead.
      const uint32_t lent = lock_state == nullptr ? file->lent_access() : 0;
      const uint32_t wanted =
          state->idle() ? uint32_t{nfs4::OPEN4_SHARE_ACCESS_WRITE} : missing_access(*state);
      usable = ((state->established ? missing_access(*state) : wanted) & ~lent) == 0 &&
               (state->established || lent != 0);
    }
    if (usable) {
      Result<CompoundReply> reply = co_await session_.run(request);
      if (!reply || turn == kMaxRecoveries) co_return reply;
      // The server's open allows less than our record says: open the needed access again.
      if (reply->status() == nfs4::NFS4ERR_OPENMODE && turn < kMaxContradictions) {
        MutexLock lock(file->node.mutex);
        if (state->refused_access != 0)
          co_return fail({.layer = Layer::kNfs,
                          .recovery = Recovery::kPermanent,
                          .errnum = state->refused,
                          .op = nfs4::op_name(request.op),
                          .cause = "the file could not be opened anew for this"});
        if (state->version == version) state->held_access = 0;
        continue;
      }
      if (!about_state(reply->status())) co_return reply;
      if (delegation) {
        // If it was returned or revoked meanwhile, retry without it.
        bool over = false;
        {
          MutexLock lock(file->node.mutex);
          over = file->delegation != delegation;
        }
        if (!over) {
          auto testing = test_delegation(file, delegation);
          over = co_await std::move(testing);
        }
        if (over) continue;
      }
      if (reply->status() == nfs4::NFS4ERR_OLD_STATEID) {
        // Requests of one lock-owner run one at a time: only this request can have incremented the seqid.
        if (lock_state != nullptr && reply->maybe_executed_before) {
          MutexLock lock(file->node.mutex);
          count_up(lock_state->stateid, sent);
          continue;
        }
        // The reply with a newer seqid is in flight or was lost. 0 means the current one (section 8.2.2).
        co_await Loop::current()->sleep(std::chrono::milliseconds(5));
        MutexLock lock(file->node.mutex);
        if (turn >= kMaxContradictions)
          (lock_state != nullptr && lock_state->established ? lock_state->stateid : state->stateid).seqid = 0;
        continue;
      }
      // Perhaps only the lock is gone and not the open: keep what is valid. Or nothing is gone: the stateid
      // belonged to a lock-owner that was freed meanwhile. The limit is for a server that contradicts itself.
      auto testing = test_stateids(node, file, state, version);
      const Gone gone = co_await std::move(testing);
      if (gone == Gone::kLocks || (gone == Gone::kNothing && turn < kMaxContradictions)) continue;
    }
    NFSRDMA_CO_TRY(co_await reopen(node, file, state, version));
  }
}

bool StateManager::lose(OpenState& state) {
  state.established = false;
  state.held_access = state.opened = 0;
  ++state.version;
  bool lost_locks = false;
  for (LockState& lock : state.locks) {
    lock.established = false;
    lock.asked.clear();
    if (lock.ranges.empty() || lock.local) continue;
    if (!std::exchange(lock.lost, true)) lost_locks = true;
  }
  return lost_locks;
}

std::string StateManager::called(const NodeRef& node) {
  if (log::on(log::Level::kDebug)) {
    if (const auto found = names_.name_of(*node.get())) return fmt::format("\"{}\"", found->name);
  }
  MutexLock lock(nfs4_node(node).mutex);
  return fmt::format("inode {0} ('find -inum {0}' in the mount names it)",
                     nfs4_node(node).attributes.get().ino);
}

void StateManager::report_lost_locks(const NodeRef& node, const char* why) {
  locks_lost_.fetch_add(1, std::memory_order_relaxed);
  log::error("locks of {} are lost ({}): I/O under them fails until they are released", called(node), why);
  hooks_.locks_lost(node);
}

}  // namespace nfsrdma::client::nfs4
