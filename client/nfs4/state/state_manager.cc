// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/state_manager.h"

#include <cerrno>
#include <string_view>
#include <unordered_set>

#include "transport/runtime/mutex.h"

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

Result<nfs4::stateid4> StateManager::io_stateid(const FileState& file, const IoAccount& account,
                                                uint32_t access) {
  const auto* const through = static_cast<const OpenState*>(account.state.get());
  MutexLock lock(file.node.mutex);
  const bool opened = through->established && (through->held_access & access) != 0;
  bool by_delegation = (file.delegated_access() & access) != 0 && (file.delegated() || !opened);
  nfs4::stateid4 stateid = through->stateid;
  if (!account.lock_owners.empty()) {
    // One pass over all locks: very many processes may lock through one descriptor.
    const std::unordered_set<std::string_view> names(account.lock_owners.begin(), account.lock_owners.end());
    for (const OpenStateRef& open : file.opens) {
      for (const LockState& owner : open->locks) {
        if (!names.contains(owner.owner)) continue;
        // As in the Linux client: an application must not continue as if it still held the lock.
        if (owner.lost) return fail(system_error(EIO, "I/O", "a lock on this file was lost"));
        // Until the lock is on the server, it is valid only with the delegation.
        if (owner.local && !owner.ranges.empty()) by_delegation = (file.delegated_access() & access) != 0;
        if (open.get() == through && owner.established && !owner.local && !owner.ranges.empty())
          stateid = owner.stateid;
      }
    }
  }
  if (by_delegation) stateid = file.delegation->stateid;
  stateid.seqid = 0;
  return stateid;
}

Task<Result<CompoundReply>> StateManager::run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                              OpenStateRef state, LockState* lock_state) {
  Backoff between(std::chrono::milliseconds(10), std::chrono::milliseconds(250));
  for (int attempt = 0;; ++attempt) {
    if (attempt > kMaxContradictions) co_await Loop::current()->sleep(between.next());
    if (attempt > kMaxRecoveries)
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
      const uint32_t delegated = lock_state == nullptr ? file->delegated_access() : 0;
      const uint32_t wanted =
          state->idle() ? uint32_t{nfs4::OPEN4_SHARE_ACCESS_WRITE} : state->missing_access();
      usable = ((state->established ? state->missing_access() : wanted) & ~delegated) == 0 &&
               (state->established || delegated != 0);
    }
    if (usable) {
      Result<CompoundReply> reply = co_await session_.run(request);
      if (!reply || attempt == kMaxRecoveries) co_return reply;
      // The server's open allows less than our record says: open the needed access again.
      if (reply->status() == nfs4::NFS4ERR_OPENMODE && attempt < kMaxContradictions) {
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
          auto testing = delegation_states_.test_delegation(file, delegation);
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
        if (attempt >= kMaxContradictions)
          (lock_state != nullptr && lock_state->established ? lock_state->stateid : state->stateid).seqid = 0;
        continue;
      }
      // Perhaps only the lock is gone and not the open: keep what is valid. Or nothing is gone: the stateid
      // belonged to a lock-owner that was freed meanwhile. The limit is for a server that contradicts itself.
      auto testing = recovery_.test_stateids(node, file, state, version);
      const StateRecovery::Gone gone = co_await std::move(testing);
      if (gone == StateRecovery::Gone::kLocks ||
          (gone == StateRecovery::Gone::kNothing && attempt < kMaxContradictions))
        continue;
    }
    NFSRDMA_CO_TRY(co_await recovery_.reopen(node, file, state, version));
  }
}

}  // namespace nfsrdma::client::nfs4
