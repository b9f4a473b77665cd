// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/state_recovery.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/nfs4/attributes.h"
#include "client/nfs4/state/locks.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/lock_ops.h"
#include "xdr/nfs4/state_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// For each_file(): enough to keep a connection busy, and few compared with the applications' requests.
constexpr unsigned kFilesAtOnce = 16;

// Errors of a request that restart recovery from the beginning. After any other error, also a malformed
// reply, only the state of that request is lost, not the mount.
bool starts_over(const Error& e) {
  return e.recovery == Recovery::kReconnect || e.recovery == Recovery::kNewSession ||
         e.recovery == Recovery::kInterrupted;
}

// OPEN's result in the reply to PUTFH and OPEN.
Result<nfs4::OPEN4res> opened_again(CompoundReply& reply) {
  if (auto put = reply.expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  return reply.take<nfs4::OPEN4res>();
}

}  // namespace

Task<Result<>> StateRecovery::reopen(NodeRef node, std::shared_ptr<FileState> file, OpenStateRef state,
                                     uint64_t version) {
  auto guard = co_await file->open_mutex.lock();
  auto returning = co_await file->return_mutex.lock();
  std::vector<uint32_t> modes;
  bool lost_locks = false;
  std::vector<nfs4::stateid4> gone;
  {
    MutexLock lock(file->node.mutex);
    if (state->failed != 0)
      co_return fail({.layer = Layer::kNfs,
                      .recovery = Recovery::kPermanent,
                      .errnum = state->failed,
                      .op = "OPEN",
                      .cause = "the file's open state is lost"});
    if (state->version != version) co_return Result<>{};  // another coroutine has done it
    // Closed while this waited: nobody would close a new open.
    if (state->needed_access() == 0 && !file->unsaved())
      co_return fail(system_error(EBADF, "OPEN", "the file was closed meanwhile"));
    modes = state->modes(file->unsaved());
    // If the open is valid but allows too little, it stays, with its locks, and the missing access is opened.
    const bool upgrade = state->established && state->missing_access() != 0;
    if (!upgrade) {
      gone = stateids_of(*state);
      lost_locks = lose(*state);
    }
  }
  if (lost_locks) registry_.report_lost_locks(node, "the server revoked them");
  co_await registry_.free_stateids(std::move(gone), state->credential);
  auto opening = open_again(*file, state, std::move(modes));
  co_return co_await std::move(opening);
}

Task<Result<>> StateRecovery::open_again(FileState& file, OpenStateRef state, std::vector<uint32_t> modes) {
  const nfs4::nfs_fh4 fh = file.node.fh();
  nfs4::OPEN4args open;
  open.owner = registry_.open_owner(state->uid);
  open.claim.claim = nfs4::CLAIM_FH;
  auto build = [&](CompoundBuilder& b) {
    open.owner.clientid = session_.client_id();
    b.putfh(fh).add(open);
  };
  const Request request{
      .op = nfs4::OP_OPEN, .credential = state->credential, .cache_this = true, .build = build};
  std::vector<nfs4::stateid4> gone;
  uint32_t refused = 0;
  bool lost_locks = false;
  Error why;
  for (const uint32_t mode : modes) {
    open.share_access = mode | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    const uint64_t epoch = session_.epoch();
    Result<CompoundReply> reply = co_await session_.run(request);
    if (!reply) co_return fail(std::move(reply.error()));
    Result<nfs4::OPEN4res> res = opened_again(*reply);
    if (!res) {
      // The user's other openers may still get their access.
      log::error("a file that was open cannot be opened anew: {}", describe(res.error()));
      why = std::move(res.error());
      refused |= mode;
      continue;
    }
    MutexLock lock(file.node.mutex);
    const nfs4::stateid4& stateid = res->resok4.stateid;
    const bool same = state->established && state->stateid.same_state(stateid);
    if (!same) {  // the server had dropped the earlier open
      const auto before = stateids_of(*state);
      gone.insert(gone.end(), before.begin(), before.end());
      lost_locks |= lose(*state);
    }
    if (!same || is_newer(stateid, state->stateid)) state->stateid = stateid;
    state->established = true;
    state->held_access |= mode;
    state->opened |= 1u << mode;
    state->epoch = epoch;
    ++state->version;
  }
  if (lost_locks) registry_.report_lost_locks(NodeRef(&file.node), "the server revoked them");
  co_await registry_.free_stateids(std::move(gone), state->credential);
  MutexLock lock(file.node.mutex);
  state->refused_access = refused & ~state->held_access;
  if (state->refused_access != 0) state->refused = why.errnum == 0 ? EIO : why.errnum;
  if (state->held_access != 0 || refused == 0) co_return Result<>{};
  state->failed = state->refused;
  co_return fail(std::move(why));
}

void StateRecovery::lose_all(const char* why) {
  for (const NodeRef& node : registry_.files()) {
    bool lost_locks = false;
    std::shared_ptr<FileState> lost;
    DelegationRef delegation;
    {
      MutexLock lock(nfs4_node(node).mutex);
      const auto& file = nfs4_node(node).file;
      if (!file) continue;
      for (const OpenStateRef& state : file->opens) lost_locks |= lose(*state);
      delegation = file->delegation;
      lost = file;
    }
    if (lost_locks) registry_.report_lost_locks(node, why);
    if (delegation) delegation_states_.end_delegation(*lost, delegation, Delegations::Went::kRevoked);
  }
}

// Reclaims several files at a time, because the grace period ends: one file after another would take a round
// trip each.
Task<Result<>> StateRecovery::reclaim(RecoveryChannel& channel, uint64_t epoch) {
  Result<> outcome;
  auto sweeping =
      each_file([&](NodeRef node) { return reclaim_of(std::move(node), channel, epoch, &outcome); });
  co_await std::move(sweeping);
  co_return outcome;
}

Task<> StateRecovery::reclaim_of(NodeRef node, RecoveryChannel& channel, uint64_t epoch, Result<>* outcome) {
  if (!*outcome) co_return;
  std::shared_ptr<FileState> file;
  {
    MutexLock lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
  }
  if (!file) co_return;
  auto reclaiming = reclaim_file(channel, node, file, epoch);
  Result<> reclaimed = co_await std::move(reclaiming);
  if (!reclaimed && *outcome) *outcome = std::move(reclaimed);
}

Task<Result<>> StateRecovery::reclaim_file(RecoveryChannel& channel, NodeRef node,
                                           std::shared_ptr<FileState> file, uint64_t epoch) {
  std::vector<OpenStateRef> opens, refused;
  DelegationRef delegation;
  {
    MutexLock lock(file->node.mutex);
    opens = file->opens;
    if (file->delegation && file->delegation->epoch != epoch) delegation = file->delegation;
  }
  for (const OpenStateRef& state : opens) {
    DelegationRef wanted;
    {
      MutexLock lock(file->node.mutex);
      if (state->epoch == epoch || state->failed != 0) continue;
      // Opened only under the delegation: if that is reclaimed, there is no open to reclaim.
      if (state->opened == 0 && file->delegated()) continue;
      // Do not reclaim an open that was about to be closed, unless an interrupted reclaim has requested it.
      const bool used = !state->idle() || file->delegated() || file->unsaved() || state->has_locks();
      if (!used && state->asked_in != epoch) {
        (void)lose(*state);
        continue;
      }
      if (file->delegation == delegation) wanted = delegation;
    }
    auto reclaiming = reclaim_open(channel, node, *file, state, epoch, wanted);
    const Result<bool> reclaimed = co_await std::move(reclaiming);
    if (!reclaimed) co_return fail(reclaimed.error());
    if (!*reclaimed) refused.push_back(state);
  }
  if (delegation) {
    auto reclaiming = reclaim_without(channel, node, *file, std::move(refused), epoch, delegation);
    NFSRDMA_CO_TRY(co_await std::move(reclaiming));
  }
  co_return Result<>{};
}

// Section 10.2.1: "a client reporting resources assigned to it by an earlier server instance must be granted
// those resources". No other client can have got a conflicting lock in between.
Task<Result<>> StateRecovery::reclaim_without(RecoveryChannel& channel, NodeRef node, FileState& file,
                                              std::vector<OpenStateRef> refused, uint64_t epoch,
                                              DelegationRef delegation) {
  std::vector<OpenStateRef> opens;
  Delegation::Phase before{};
  {
    MutexLock lock(file.node.mutex);
    if (file.delegation != delegation) co_return Result<>{};  // the server granted it again
    before = delegation->phase.get();
    delegation->phase.enter(Delegation::Phase::kForgotten);
    for (const OpenStateRef& state : file.opens) {
      const bool anything = !state->idle() || state->opened != 0 || state->has_locks();
      if (anything && state->failed == 0 && std::ranges::find(refused, state) == refused.end())
        opens.push_back(state);
    }
  }
  for (const OpenStateRef& state : opens) {
    auto reclaiming = reclaim_open(channel, node, file, state, epoch, nullptr);
    const Result<bool> reclaimed = co_await std::move(reclaiming);
    if (reclaimed) continue;
    MutexLock lock(file.node.mutex);
    if (file.delegation != delegation) co_return fail(reclaimed.error());  // it has ended meanwhile
    delegation->phase.enter(before);  // it is reclaimed again, or ends with the mount
    file.delegation_ended.notify_all();
    co_return fail(reclaimed.error());
  }
  delegation_states_.end_delegation(file, delegation, Delegations::Went::kRevoked);
  co_return Result<>{};
}

Task<Result<bool>> StateRecovery::reclaim_open(RecoveryChannel& channel, NodeRef node, FileState& file,
                                               OpenStateRef state, uint64_t epoch, DelegationRef delegation) {
  const nfs4::nfs_fh4 fh = file.node.fh();
  nfs4::OPEN4args open;
  std::vector<uint32_t> modes;
  bool again = false;  // part of it is reclaimed
  {
    MutexLock lock(file.node.mutex);
    again = state->epoch == epoch && state->established;
    state->epoch = 0;  // until all of it is reclaimed: a new attempt begins with the open
    state->asked_in = epoch;
    modes = file.delegated() ? state->opened_modes()
            : again          ? state->unopened_modes()
                             : state->modes(file.unsaved());
    // The widest access first: Linux' server decides by it which delegation type is reclaimed.
    std::ranges::sort(modes, std::greater<>());
  }
  std::optional<Delegations::Asking> asking;  // a recall may overtake the reply
  if (delegation) asking.emplace(delegations_);
  open.owner = registry_.open_owner(state->uid);
  open.claim.claim = nfs4::CLAIM_PREVIOUS;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(open);
    if (open.claim.delegate_type != nfs4::OPEN_DELEGATE_NONE) b.getattr(kChangeAttribute);
  };
  const Request request{
      .op = nfs4::OP_OPEN, .credential = state->credential, .cache_this = true, .build = build};
  for (const uint32_t mode : modes) {
    // With WANT_NO_DELEG, Linux' server and nfs-ganesha grant none, whatever is claimed.
    open.share_access = delegation ? mode : mode | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    open.claim.delegate_type = !delegation         ? nfs4::OPEN_DELEGATE_NONE
                               : delegation->write ? nfs4::OPEN_DELEGATE_WRITE
                                                   : nfs4::OPEN_DELEGATE_READ;
    Result<CompoundReply> reply = co_await channel.run(request);
    if (!reply && starts_over(reply.error())) co_return fail(std::move(reply.error()));
    Result<nfs4::OPEN4res> res = fail(Error{});
    if (!reply) res = fail(std::move(reply.error()));
    if (reply) res = opened_again(*reply);
    if (!res) {
      // The server is not in grace, or does not know us. The next use reopens the file. Its locks are lost.
      bool lost_locks = false;
      {
        MutexLock lock(file.node.mutex);
        lost_locks = lose(*state);
      }
      log::info("an open file could not be reclaimed: {}", describe(res.error()));
      if (lost_locks) registry_.report_lost_locks(node, "the server did not give them back");
      co_return false;
    }
    record_reclaimed(file, *state, mode, res->resok4.stateid, !std::exchange(again, true));
    if (!delegation) continue;
    const auto now = reply->take<nfs4::GETATTR4res>();
    delegation_states_.reclaimed(file, std::exchange(delegation, nullptr), res->resok4.delegation, epoch,
                                 now ? std::optional(now->resok4.obj_attributes.change) : std::nullopt);
  }
  NFSRDMA_CO_TRY(co_await reclaim_locks(channel, node, file, state, epoch));
  MutexLock lock(file.node.mutex);
  state->epoch = epoch;
  co_return true;
}

void StateRecovery::record_reclaimed(FileState& file, OpenState& state, uint32_t mode,
                                     const nfs4::stateid4& stateid, bool first) {
  MutexLock lock(file.node.mutex);
  if (first) {
    state.held_access = state.opened = 0;
    for (LockState& owner : state.locks) owner.established = false;
  }
  state.stateid = stateid;
  state.established = true;
  state.held_access |= mode;
  state.opened |= 1u << mode;
  ++state.version;
}

Task<Result<>> StateRecovery::reclaim_locks(RecoveryChannel& channel, NodeRef node, FileState& file,
                                            OpenStateRef state, uint64_t epoch) {
  std::vector<std::string> owners;
  {
    MutexLock lock(file.node.mutex);
    for (LockState& owner : state->locks) {
      if (std::exchange(owner.asked_in, epoch) != epoch) owner.asked.clear();
      // Local locks need only the delegation, unless the server has other locks of the file, for example
      // after the return of an earlier delegation was interrupted.
      const bool needed = !owner.idle() && !owner.established && !(owner.local && file.locks_are_local());
      if (needed) owners.push_back(owner.owner);
    }
  }
  for (std::string& owner : owners) {
    auto reclaiming = reclaim_locks_of(std::move(owner), channel, node, file, state);
    NFSRDMA_CO_TRY(co_await std::move(reclaiming));
  }
  co_return Result<>{};
}

// Until its first lock is reclaimed, an owner can only drop locks from the record. It sends no LOCKU, because
// that would wait for this recovery. So the record is read again for each lock. Locks that were dropped
// meanwhile are unlocked here, also those whose reclaim was requested before the connection was lost.
Task<Result<>> StateRecovery::reclaim_locks_of(std::string name, RecoveryChannel& channel, NodeRef node,
                                               FileState& file, OpenStateRef state) {
  const nfs4::nfs_fh4 fh = file.node.fh();
  for (std::optional<uint64_t> next = 0; next;) {
    nfs4::LOCK4args args;
    LockRange range;
    {
      MutexLock lock(file.node.mutex);
      LockState* owner = find_owner(*state, name);
      if (owner == nullptr || owner->lost) co_return Result<>{};
      const auto held = overlapping(owner->ranges, {*next, UINT64_MAX, LockType::kRead});
      if (held.empty() && (owner->established || owner->asked.empty())) break;
      range = held.empty() ? owner->asked.front() : held.front();
      record_lock(owner->asked, range);
      args = lock_args(session_.client_id(), *state, *owner, range, false);
    }
    args.reclaim = true;
    auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(args); };
    const Request request{
        .op = nfs4::OP_LOCK, .credential = state->credential, .cache_this = true, .build = build};
    Result<CompoundReply> reply = co_await channel.run(request);
    if (!reply && starts_over(reply.error())) co_return fail(std::move(reply.error()));
    Result<nfs4::LOCK4res> res = take_behind_putfh<nfs4::LOCK4res>(reply);
    std::vector<LockRange> given_up;
    {
      MutexLock lock(file.node.mutex);
      LockState& owner = *find_owner(*state, name);  // still there: `asked` is not empty
      if (!res) {
        owner.asked.clear();
        owner.local = false;
        owner.lost = !owner.ranges.empty();
        const bool lost = owner.lost;
        lock.unlock();
        if (lost) registry_.report_lost_locks(node, describe(res.error()).c_str());
        co_return Result<>{};
      }
      owner.stateid = res->resok4.lock_stateid;
      owner.local = false;
      if (!std::exchange(owner.established, true)) given_up = not_held(owner.asked, owner.ranges);
    }
    for (const LockRange& gone : given_up) {
      auto unlocking = unlock_reclaimed(channel, file, *state, name, gone);
      NFSRDMA_CO_TRY(co_await std::move(unlocking));
    }
    next = range.end == UINT64_MAX ? std::nullopt : std::optional(range.end + 1);
  }
  MutexLock lock(file.node.mutex);
  if (LockState* owner = find_owner(*state, name)) owner->asked.clear();
  co_return Result<>{};
}

Task<Result<>> StateRecovery::unlock_reclaimed(RecoveryChannel& channel, FileState& file, OpenState& state,
                                               std::string name, LockRange gone) {
  nfs4::LOCKU4args args;
  args.locktype = nfs4::WRITE_LT;
  args.offset = gone.start;
  args.length = lock_length(gone.start, gone.end);
  {
    MutexLock lock(file.node.mutex);
    args.lock_stateid = find_owner(state, name)->stateid;
  }
  auto build = [&](CompoundBuilder& b) { b.putfh(file.node.fh()).add(args); };
  const Request request{
      .op = nfs4::OP_LOCKU, .credential = state.credential, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await channel.run(request);
  if (!reply && starts_over(reply.error())) co_return fail(std::move(reply.error()));
  const Result<nfs4::LOCKU4res> res = take_behind_putfh<nfs4::LOCKU4res>(reply);
  if (!res) log::info("a lock given up during a restart: {}", describe(res.error()));
  MutexLock lock(file.node.mutex);
  LockState& owner = *find_owner(state, name);
  if (res) owner.stateid = res->lock_stateid;
  record_lock(owner.asked, gone);
  co_return Result<>{};
}

Task<> StateRecovery::each_file(FileTask task) {
  auto sweep = std::make_shared<FileSweep>();
  sweep->task = std::move(task);
  sweep->files = registry_.files();
  if (sweep->files.empty()) co_return;
  sweep->workers = kFilesAtOnce;
  for (unsigned i = 0; i < kFilesAtOnce; ++i) Loop::current()->spawn(work_on(sweep));
  (void)co_await sweep->over.wait();
}

Task<> StateRecovery::work_on(std::shared_ptr<FileSweep> sweep) {
  while (sweep->next < sweep->files.size()) {
    const NodeRef node = std::move(sweep->files[sweep->next++]);
    auto working = sweep->task(node);
    co_await std::move(working);
  }
  if (--sweep->workers == 0) sweep->over.set(true);
}

Task<> StateRecovery::recovered() {
  co_await each_file([this](NodeRef node) { return restore_file(std::move(node)); });
}

Task<> StateRecovery::restore_file(NodeRef node) {
  std::shared_ptr<FileState> file;
  std::vector<std::pair<OpenStateRef, uint64_t>> gone;
  bool idle = false;
  {
    MutexLock lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file) co_return;
    for (const OpenStateRef& state : file->opens) {
      const bool covered = file->delegation && file->delegation->covers(state->needed_access());
      if (!state->established && state->failed == 0 && !covered) gone.emplace_back(state, state->version);
      idle = idle || (state->idle() && !file->delegation);
    }
  }
  for (const auto& [state, version] : gone) (void)co_await reopen(node, file, state, version);
  if (idle) co_await closer_.close_idle(node, file);
  co_await hooks_.resend_writes(node);
}

Task<StateRecovery::Gone> StateRecovery::test_stateids(NodeRef node, std::shared_ptr<FileState> file,
                                                       OpenStateRef state, uint64_t version) {
  nfs4::TEST_STATEID4args test;
  {
    MutexLock lock(file->node.mutex);
    if (!state->established || state->version != version) co_return Gone::kUnknown;
    test.ts_stateids.push_back(state->stateid);
    for (const LockState& owner : state->locks) {
      if (owner.established) test.ts_stateids.push_back(owner.stateid);
    }
  }
  auto build = [&](CompoundBuilder& b) { b.add(test); };
  const Request request{.op = nfs4::OP_TEST_STATEID, .credential = state->credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return Gone::kUnknown;
  auto res = reply->take<nfs4::TEST_STATEID4res>();
  if (!res || res->resok4.tsr_status_codes.size() != test.ts_stateids.size()) co_return Gone::kUnknown;
  const auto& codes = res->resok4.tsr_status_codes;
  const auto valid = [](nfs4::nfsstat4 code) {
    return code == nfs4::NFS4_OK || code == nfs4::NFS4ERR_OLD_STATEID;
  };
  if (!valid(codes[0])) co_return Gone::kOpen;  // reopen() marks its locks as lost
  Gone gone = Gone::kNothing;
  for (size_t i = 1; i < codes.size(); ++i) {
    if (valid(codes[i])) continue;
    bool lost = false;
    {
      MutexLock lock(file->node.mutex);
      for (LockState& owner : state->locks) {
        if (!owner.established || !owner.stateid.same_state(test.ts_stateids[i])) continue;
        owner.established = false;
        lost = owner.lost = !owner.ranges.empty();
        gone = Gone::kLocks;
      }
    }
    if (lost) registry_.report_lost_locks(node, "the server revoked them");
    co_await registry_.free_stateid(test.ts_stateids[i], state->credential);
  }
  co_return gone;
}

Task<> StateRecovery::state_revoked(bool recallable) {
  co_await delegation_states_.test_delegations();
  if (!recallable) co_await each_file([this](NodeRef node) { return test_opens(std::move(node)); });
}

Task<bool> StateRecovery::acknowledge_open(std::shared_ptr<FileState> file, OpenStateRef state,
                                           uint64_t version) {
  auto guard = co_await file->open_mutex.lock();
  auto returning = co_await file->return_mutex.lock();
  std::vector<nfs4::stateid4> gone;
  bool lost_locks = false;
  {
    MutexLock lock(file->node.mutex);
    if (state->version != version || !state->established) co_return true;  // another coroutine has done it
    if (state->needed_access() != 0 || file->unsaved()) co_return false;
    gone = stateids_of(*state);
    lost_locks = lose(*state);
  }
  if (lost_locks) registry_.report_lost_locks(NodeRef(&file->node), "the server revoked them");
  co_await registry_.free_stateids(std::move(gone), state->credential);
  co_return true;
}

Task<> StateRecovery::test_opens(NodeRef node) {
  std::shared_ptr<FileState> file;
  std::vector<std::pair<OpenStateRef, uint64_t>> opens;
  {
    MutexLock lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file) co_return;
    for (const OpenStateRef& state : file->opens) opens.emplace_back(state, state->version);
  }
  for (const auto& [state, version] : opens) {
    auto testing = test_stateids(node, file, state, version);
    if (co_await std::move(testing) != Gone::kOpen) continue;
    auto acknowledging = acknowledge_open(file, state, version);
    if (!co_await std::move(acknowledging)) (void)co_await reopen(node, file, state, version);
  }
}

void StateRecovery::cannot_be_recalled() {
  delegation_states_.recall_all();
}

}  // namespace nfsrdma::client::nfs4
