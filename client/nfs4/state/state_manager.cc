// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/state_manager.h"

#include <cerrno>
#include <string_view>
#include <unordered_set>
#include <utility>

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

// Whether a request may rely on the open, or on what is delegated.
bool usable(const OpenState& open, uint32_t delegated) {
  if (open.established) return (open.missing_access() & ~delegated) == 0;
  const uint32_t wanted = open.idle() ? uint32_t{nfs4::OPEN4_SHARE_ACCESS_WRITE} : open.missing_access();
  return delegated != 0 && (wanted & ~delegated) == 0;
}

Error lost_open(nfs4::nfs_opnum4 op, int errnum) {
  return {.layer = Layer::kNfs,
          .recovery = Recovery::kPermanent,
          .errnum = errnum,
          .op = nfs4::op_name(op),
          .cause = "the file's open state is lost"};
}

}  // namespace

Result<nfs4::stateid4> StateManager::io_stateid(const FileState& file, const IoAccount& account,
                                                uint32_t access) {
  const auto* const through = static_cast<const OpenState*>(account.state.get());
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

Result<> StateManager::choose(const StateUse& use, nfs4::nfs_opnum4 op, Basis& basis) {
  const FileState& file = *use.file;
  const OpenState& open = *use.open;
  MutexLock lock(file.node.mutex);
  basis.version = open.version;
  basis.delegation = file.delegation;
  if (use.owner != nullptr) basis.sent = use.owner->stateid;
  if (!std::exchange(basis.checked, true)) {
    if (open.failed != 0) return fail(lost_open(op, open.failed));
    // LOCK needs an open on the server; I/O may use the delegation instead.
    basis.usable = usable(open, use.owner == nullptr ? file.delegated_access() : 0);
    if (!basis.usable)
      return fail(system_error(EAGAIN, nfs4::op_name(op), "the open must be restored first"));
  }
  if (use.account == nullptr) return {};
  Result<nfs4::stateid4> stateid = io_stateid(file, *use.account, use.access);
  if (!stateid) return fail(std::move(stateid.error()));
  *use.stateid = *stateid;
  return {};
}

Task<Result<CompoundReply>> StateManager::run(const Request& original, const StateUse& use) {
  Basis basis;
  auto build = [&](CompoundBuilder& b) {
    Result<> chosen = choose(use, original.op, basis);
    if (!chosen) return b.refuse(std::move(chosen.error()));
    original.build(b);
  };
  Request request = original;
  request.build = build;
  Backoff between(std::chrono::milliseconds(10), std::chrono::milliseconds(250));
  for (int attempt = 0;; ++attempt) {
    if (attempt > kMaxContradictions) co_await Loop::current()->sleep(between.next());
    if (attempt > kMaxRecoveries)
      co_return fail(
          system_error(EIO, nfs4::op_name(request.op), "the server takes the file's open away each time"));
    // If the reopen has failed, fail at once, even while the server does not respond.
    if (const int failed = use.open->failed; failed != 0) co_return fail(lost_open(request.op, failed));
    basis = {};
    Result<CompoundReply> reply = co_await session_.run(request);
    if (basis.usable) {
      if (!reply || attempt == kMaxRecoveries) co_return reply;
      // The server's open allows less than our record says: open the needed access again.
      if (reply->status() == nfs4::NFS4ERR_OPENMODE && attempt < kMaxContradictions) {
        MutexLock lock(use.file->node.mutex);
        if (use.open->refused_access != 0)
          co_return fail({.layer = Layer::kNfs,
                          .recovery = Recovery::kPermanent,
                          .errnum = use.open->refused,
                          .op = nfs4::op_name(request.op),
                          .cause = "the file could not be opened anew for this"});
        if (use.open->version == basis.version) use.open->held_access = 0;
        continue;
      }
      if (!about_state(reply->status())) co_return reply;
      Task<bool> revising = revise(use, basis, *reply, attempt);
      if (co_await std::move(revising)) continue;
    }
    NFSRDMA_CO_TRY(co_await recovery_.reopen(use.node, use.file, use.open, basis.version));
  }
}

Task<bool> StateManager::revise(const StateUse& use, const Basis& basis, const CompoundReply& reply,
                                int attempt) {
  const FileState& file = *use.file;
  if (basis.delegation) {
    // If it was returned or revoked meanwhile, retry without it.
    bool over = false;
    {
      MutexLock lock(file.node.mutex);
      over = file.delegation != basis.delegation;
    }
    if (!over) over = co_await delegation_states_.test_delegation(use.file, basis.delegation);
    if (over) co_return true;
  }
  if (reply.status() == nfs4::NFS4ERR_OLD_STATEID) {
    // Requests of one lock-owner run one at a time: only this request can have incremented the seqid.
    if (use.owner != nullptr && reply.maybe_executed_before) {
      MutexLock lock(file.node.mutex);
      count_up(use.owner->stateid, basis.sent);
      co_return true;
    }
    // The reply with a newer seqid is in flight or was lost. 0 means the current one (section 8.2.2).
    co_await Loop::current()->sleep(std::chrono::milliseconds(5));
    MutexLock lock(file.node.mutex);
    const bool of_owner = use.owner != nullptr && use.owner->established;
    if (attempt >= kMaxContradictions) (of_owner ? use.owner->stateid : use.open->stateid).seqid = 0;
    co_return true;
  }
  // Perhaps only the lock is gone and not the open: keep what is valid. Or nothing is gone: the stateid
  // belonged to a lock-owner that was freed meanwhile. The limit is for a server that contradicts itself.
  auto testing = recovery_.test_stateids(use.node, use.file, use.open, basis.version);
  const StateRecovery::Gone gone = co_await std::move(testing);
  co_return gone == StateRecovery::Gone::kLocks ||
      (gone == StateRecovery::Gone::kNothing && attempt < kMaxContradictions);
}

}  // namespace nfsrdma::client::nfs4
