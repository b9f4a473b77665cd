// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/delegation_states.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "client/nfs4/state/locks.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/lock_ops.h"
#include "xdr/nfs4/state_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// Stateids of one TEST_STATEID: a message of 2 KiB.
constexpr size_t kTestedAtOnce = 100;

bool gone(nfs4::nfsstat4 status) {
  switch (status) {
    case nfs4::NFS4ERR_BAD_STATEID:
    case nfs4::NFS4ERR_STALE_STATEID:
    case nfs4::NFS4ERR_EXPIRED:
    case nfs4::NFS4ERR_ADMIN_REVOKED:
    case nfs4::NFS4ERR_DELEG_REVOKED: return true;
    default: return false;
  }
}

bool gone(const Error& e) {
  return e.layer == Layer::kNfs && gone(static_cast<nfs4::nfsstat4>(e.status));
}

bool has_local_locks(const FileState& file) {
  MutexLock lock(file.node.mutex);
  return std::any_of(file.opens.begin(), file.opens.end(), [](const OpenStateRef& open) {
    return std::any_of(open->locks.begin(), open->locks.end(), [](const LockState& l) { return l.local; });
  });
}

}  // namespace

bool DelegationStates::keep(FileState& file, const DelegationRef& delegation) {
  MutexLock lock(file.node.mutex);
  // The file has one already, or this one is from before a restart of the server.
  if (file.delegation || delegation->epoch != session_.epoch()) return false;
  file.delegation = delegation;
  delegations_.add(delegation, Delegations::Came::kGranted);
  return true;
}

DelegationStates::Again DelegationStates::comes_again(FileState& file, DelegationRef& delegation) {
  DelegationRef before;
  {
    MutexLock lock(file.node.mutex);
    const DelegationRef& held = file.delegation;
    if (!held || !held->stateid.same_state(delegation->stateid) || held->epoch != delegation->epoch)
      return delegations_.went_lately(delegation->stateid) ? Again::kGone : Again::kNo;
    if (!file.delegated()) return Again::kGone;
    if (!is_newer(delegation->stateid, held->stateid)) {
      delegation = held;
      return Again::kStands;
    }
    before = std::exchange(file.delegation, delegation);
    before->phase.enter(Delegation::Phase::kEnded);
    delegation->change = before->change;
    file.delegation_ended.notify_all();
    delegations_.add(delegation, Delegations::Came::kGranted);
  }
  delegations_.remove(before, Delegations::Went::kReplaced);
  return Again::kStands;
}

void DelegationStates::recall_all() {
  for (const DelegationRef& delegation : delegations_.all()) hooks_.recalled(delegation);
}

bool DelegationStates::end_delegation(FileState& file, const DelegationRef& delegation,
                                      Delegations::Went went) {
  bool lost_locks = false;
  {
    MutexLock lock(file.node.mutex);
    if (file.delegation != delegation) return false;
    delegation->phase.enter(Delegation::Phase::kEnded);
    file.delegation.reset();
    for (const OpenStateRef& state : file.opens) {
      for (LockState& owner : state->locks)
        lost_locks |= std::exchange(owner.local, false) && (owner.lost = true);
    }
    file.node.attributes.promise({});
    file.delegation_ended.notify_all();
    delegations_.remove(delegation, went);
  }
  if (lost_locks)
    registry_.report_lost_locks(NodeRef(&file.node), "the server revoked the delegation they were under");
  if (went == Delegations::Went::kRevoked) hooks_.delegation_ended(NodeRef(&file.node));
  return true;
}

Task<> DelegationStates::give_back(NodeRef node, std::shared_ptr<FileState> file, DelegationRef delegation,
                                   Purpose* purpose) {
  AsyncMutex::Guard locking;
  if (has_local_locks(*file)) {
    // Our record of the local locks must not change while they are established on the server.
    auto guard = co_await file->lock_mutex.lock();
    locking = std::move(guard);
  }
  {
    auto returning = co_await file->return_mutex.lock();
    std::vector<OpenStateRef> opens;
    {
      MutexLock lock(file->node.mutex);
      opens = file->opens;
    }
    bool known = true;
    for (size_t i = 0; known && i < opens.size(); ++i) {
      auto claiming = claim_opens(*file, opens[i], delegation);
      known = co_await std::move(claiming);
    }
    for (size_t i = 0; known && i < opens.size(); ++i) {
      auto claiming = claim_locks(node, *file, opens[i], delegation);
      co_await std::move(claiming);
    }
    // If another coroutine holds one of these mutexes, it closes what is left open itself, afterwards.
    AsyncMutex::Guard opening;
    if (!locking && file->lock_mutex.try_lock()) locking = AsyncMutex::Guard(&file->lock_mutex);
    if (locking && file->open_mutex.try_lock()) opening = AsyncMutex::Guard(&file->open_mutex);
    OpenStateRef idle;
    {
      MutexLock lock(file->node.mutex);
      for (const OpenStateRef& state : opens) {
        if (opening && state->idle() && state->established) idle = state;
      }
      known = known && file->delegation == delegation;
      delegation->sent_back = known;
      if (purpose != nullptr && !may_go_together(*file, idle, *delegation, *purpose)) purpose = nullptr;
    }
    bool returned = !known;
    if (known && idle) co_await closer_.drop_locks(file, idle, false);
    if (known && (idle || purpose != nullptr)) {
      auto together = return_together(file, idle, delegation, purpose);
      returned = co_await std::move(together);
    }
    if (!returned) co_await delegreturn(delegation);
    const bool ended =
        end_delegation(*file, delegation, known ? Delegations::Went::kReturned : Delegations::Went::kRevoked);
    if (ended && !known) co_await acknowledge_revoked(file, delegation);
  }
  locking.unlock();
  co_await closer_.close_idle(node, file);
}

// Section 10.4.4: "opens that were done locally" are established by OPEN with "a claim type of
// CLAIM_DELEGATE_CUR", or by file handle.
Task<bool> DelegationStates::claim_opens(FileState& file, OpenStateRef state, DelegationRef delegation) {
  std::vector<uint32_t> modes;
  {
    MutexLock lock(file.node.mutex);
    if (file.delegation != delegation) co_return false;
    modes = state->unopened_modes();
  }
  for (const uint32_t mode : modes) {
    const uint64_t epoch = session_.epoch();
    auto claiming = claim_open(file, *state, *delegation, mode);
    const Result<nfs4::OPEN4resok> opened = co_await std::move(claiming);
    if (!opened) {
      // The next request that needs the open reopens it.
      log::info("a file opened under a delegation: {}", describe(opened.error()));
      if (gone(opened.error())) co_return false;
      continue;
    }
    MutexLock lock(file.node.mutex);
    if (file.delegation != delegation) co_return false;  // a restart: the new open is gone, too
    const nfs4::stateid4& stateid = opened->stateid;
    const bool same = state->established && state->stateid.same_state(stateid);
    const bool lost_locks = state->established && !same && lose(*state);  // the server had dropped it
    if (!same) ++state->version;
    if (!same || is_newer(stateid, state->stateid)) state->stateid = stateid;
    state->established = true;
    state->epoch = epoch;
    state->held_access |= mode;
    state->opened |= 1u << mode;
    lock.unlock();
    if (lost_locks) registry_.report_lost_locks(NodeRef(&file.node), "the server revoked them");
  }
  co_return true;
}

Task<Result<nfs4::OPEN4resok>> DelegationStates::claim_open(FileState& file, const OpenState& state,
                                                            const Delegation& delegation, uint32_t mode) {
  nfs4::OPEN4args open;
  open.owner = registry_.open_owner(state.uid);
  open.share_access = mode | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  open.claim.claim = nfs4::CLAIM_DELEG_CUR_FH;
  open.claim.delegate_stateid = delegation.current();
  if (claims_by_handle_) {
    auto build = [&](CompoundBuilder& b) {
      open.owner.clientid = session_.client_id();
      b.putfh(delegation.fh).add(open);
    };
    const Request request{
        .op = nfs4::OP_OPEN, .credential = state.credential, .cache_this = true, .build = build};
    Result<CompoundReply> reply = co_await session_.run(request);
    const bool unknown = reply && reply->status() == nfs4::NFS4ERR_NOTSUPP;
    Result<nfs4::OPEN4res> res = take_behind_putfh<nfs4::OPEN4res>(reply);
    if (res) co_return std::move(res->resok4);
    if (!unknown || !names_.name_of(file.node)) co_return fail(std::move(res.error()));
    claims_by_handle_ = false;  // nfs-ganesha has only version 4.0's claims
  }
  const std::optional<NameCache::Name> name = names_.name_of(file.node);
  if (!name) co_return fail(system_error(ESTALE, "OPEN", "no name is known to claim it by"));
  open.claim.claim = nfs4::CLAIM_DELEGATE_CUR;
  open.claim.file = name->name;
  const nfs4::nfs_fh4 directory = nfs4_node(name->directory).fh();
  auto build = [&](CompoundBuilder& b) {
    open.owner.clientid = session_.client_id();
    b.putfh(directory).add(open).add(nfs4::GETFH4args{});
  };
  const Request request{
      .op = nfs4::OP_OPEN, .credential = state.credential, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  Result<nfs4::OPEN4res> res = take_behind_putfh<nfs4::OPEN4res>(reply);
  if (!res) co_return fail(std::move(res.error()));
  const auto found = reply->take<nfs4::GETFH4res>();
  if (found && found->resok4.object == delegation.fh) co_return std::move(res->resok4);
  // The name belongs to another file now, and the server opened that one without checking the delegation.
  if (found && !registry_.note_upgrade(res->resok4.stateid, mode)) {
    auto closing = close_other(found->resok4.object, res->resok4.stateid, state.credential);
    co_await std::move(closing);
  }
  co_return fail(system_error(ESTALE, "OPEN", "its name leads to another file"));
}

Task<> DelegationStates::close_other(nfs4::nfs_fh4 fh, nfs4::stateid4 stateid,
                                     rpc::CredentialPtr credential) {
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(nfs4::CLOSE4args{0, stateid}); };
  const Request request{
      .op = nfs4::OP_CLOSE, .credential = std::move(credential), .cache_this = true, .build = build};
  (void)co_await session_.run(request);
}

// Section 10.4.4: "... each such lock is to be established on the server" before the delegation is returned.
Task<> DelegationStates::claim_locks(NodeRef node, FileState& file, OpenStateRef state,
                                     DelegationRef delegation) {
  std::vector<std::pair<LockState*, std::vector<LockRange>>> held;  // they stay: lock_mutex is held
  {
    MutexLock lock(file.node.mutex);
    for (LockState& owner : state->locks) {
      if (owner.local) held.emplace_back(&owner, owner.ranges);
    }
  }
  for (const auto& [owner, ranges] : held) {
    Result<nfs4::LOCK4res> res = fail(Error{});
    for (const LockRange& range : ranges) {
      auto build = [&, o = owner](CompoundBuilder& b) {
        nfs4::LOCK4args args;
        {
          MutexLock lock(file.node.mutex);
          if (file.delegation != delegation)
            return b.refuse(system_error(EIO, "LOCK", "the delegation has gone"));
          args = lock_args(session_.client_id(), *state, *o, range, false);
        }
        args.locker.stateid.seqid = 0;  // the current one: an OPEN may have incremented it
        b.putfh(file.node.fh()).add(args);
      };
      const Request request{
          .op = nfs4::OP_LOCK, .credential = state->credential, .cache_this = true, .build = build};
      Result<CompoundReply> reply = co_await session_.run(request);
      res = take_behind_putfh<nfs4::LOCK4res>(reply);
      MutexLock lock(file.node.mutex);
      if (file.delegation != delegation) co_return;
      if (!res) break;
      owner->stateid = res->resok4.lock_stateid;
      owner->established = true;
    }
    bool newly_lost = false;
    {
      MutexLock lock(file.node.mutex);
      if (file.delegation != delegation) co_return;
      owner->local = false;
      newly_lost = !res && !std::exchange(owner->lost, true);
    }
    if (newly_lost) registry_.report_lost_locks(node, describe(res.error()).c_str());
  }
}

// With the Node's mutex held. Also false if an open would remain: if the request removes the file, that open
// could not be closed afterwards.
bool DelegationStates::may_go_together(const FileState& file, const OpenStateRef& idle,
                                       const Delegation& delegation, const Purpose& purpose) const {
  constexpr uint32_t kInFront = 4;  // SEQUENCE, PUTFH, CLOSE, DELEGRETURN
  const rpc::Credential& user = *purpose.request.credential;
  return kInFront + purpose.operations <= session_.fore_channel().operations() &&
         user.same_user(*delegation.credential) && (!idle || user.same_user(*idle->credential)) &&
         std::none_of(file.opens.begin(), file.opens.end(),
                      [&](const OpenStateRef& open) { return open->established && open != idle; });
}

Task<bool> DelegationStates::return_together(std::shared_ptr<FileState> file, OpenStateRef idle,
                                             DelegationRef delegation, Purpose* purpose) {
  nfs4::stateid4 open;
  bool with_purpose = false;
  auto build = [&](CompoundBuilder& b) {
    with_purpose = purpose != nullptr && !purpose->given_up();
    b.putfh(delegation->fh);
    if (idle) {
      {
        MutexLock lock(file->node.mutex);
        open = idle->stateid;
      }
      b.add(nfs4::CLOSE4args{0, open});
    }
    b.add(nfs4::DELEGRETURN4args{delegation->current()});
    if (with_purpose) purpose->request.build(b);
  };
  const rpc::CredentialPtr credential = idle ? idle->credential : delegation->credential;
  const nfs4::nfs_opnum4 op = purpose != nullptr ? purpose->request.op : nfs4::OP_DELEGRETURN;
  const Request request{.op = op, .credential = credential, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) {  // shutdown, or a malformed reply: nothing more can be done
    if (purpose != nullptr) purpose->reply = fail(std::move(reply.error()));
    co_return true;
  }
  if (with_purpose) purpose->maybe_executed_before = reply->maybe_executed_before;
  if (!reply->expect<nfs4::PUTFH4res>()) co_return false;
  if (idle) {
    // The CLOSE may have been executed before, if a later operation returned DELAY and the COMPOUND was sent
    // again. The caller then sends DELEGRETURN alone.
    if (!reply->take<nfs4::CLOSE4res>()) co_return false;
    OpenCloser::note_closed(*file, *idle, open);
  }
  const Result<> done = reply->expect<nfs4::DELEGRETURN4res>();
  if (!done) co_await acknowledge(delegation, reply->status());
  if (with_purpose && done) purpose->reply = std::move(reply);
  co_return true;
}

Task<> DelegationStates::delegreturn(DelegationRef delegation) {
  auto build = [&](CompoundBuilder& b) {
    b.putfh(delegation->fh).add(nfs4::DELEGRETURN4args{delegation->current()});
  };
  const Request request{
      .op = nfs4::OP_DELEGRETURN, .credential = delegation->credential, .cache_this = true, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply || reply->ok()) co_return;
  log::debug("DELEGRETURN: {}", nfs4::name_of(reply->status()));
  co_await acknowledge(delegation, reply->status());
}

// Until FREE_STATEID, SEQUENCE reports revoked state (section 18.46.3), and nothing is answered locally.
Task<> DelegationStates::acknowledge(DelegationRef delegation, nfs4::nfsstat4 status) {
  if (status == nfs4::NFS4ERR_BAD_STATEID || !gone(status)) co_return;
  co_await registry_.free_stateid(delegation->stateid, delegation->credential);
}

Task<> DelegationStates::return_unwanted(DelegationRef delegation) {
  delegations_.add(delegation, Delegations::Came::kUnwanted);
  co_await delegreturn(delegation);
  delegations_.remove(delegation, Delegations::Went::kReturned);
}

Task<> DelegationStates::revoked(std::shared_ptr<FileState> file, DelegationRef delegation) {
  if (!end_delegation(*file, delegation, Delegations::Went::kRevoked)) co_return;
  auto acknowledging = acknowledge_revoked(file, delegation);
  co_await std::move(acknowledging);
}

Task<> DelegationStates::acknowledge_revoked(std::shared_ptr<FileState> file, DelegationRef delegation) {
  const NodeRef node(&file->node);
  log::warn("the delegation of {} was revoked by the server", registry_.describe_file(node));
  // Section 18.38: acknowledges the revocation.
  co_await registry_.free_stateid(delegation->stateid, delegation->credential);
  // Not awaited: the caller may hold the file's mutexes.
  Loop::current()->spawn(closer_.close_idle(node, file));
}

Task<std::vector<DelegationRef>> DelegationStates::gone_among(std::vector<DelegationRef> delegations) {
  nfs4::TEST_STATEID4args test;
  for (const DelegationRef& d : delegations) test.ts_stateids.push_back(d->stateid);
  auto build = [&](CompoundBuilder& b) { b.add(test); };
  const Request request{
      .op = nfs4::OP_TEST_STATEID, .credential = delegations.front()->credential, .build = build};
  std::vector<DelegationRef> lost;
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return lost;
  auto res = reply->take<nfs4::TEST_STATEID4res>();
  if (!res || res->resok4.tsr_status_codes.size() != delegations.size()) co_return lost;
  for (size_t i = 0; i < delegations.size(); ++i) {
    if (gone(res->resok4.tsr_status_codes[i])) lost.push_back(delegations[i]);
  }
  co_return lost;
}

Task<bool> DelegationStates::test_delegation(std::shared_ptr<FileState> file, DelegationRef delegation) {
  auto testing = gone_among({delegation});
  const std::vector<DelegationRef> lost = co_await std::move(testing);
  if (lost.empty()) {
    MutexLock lock(file->node.mutex);
    co_return file->delegation != delegation;
  }
  for (;;) {
    MutexLock lock(file->node.mutex);
    if (file->delegation != delegation) co_return true;
    if (!delegation->sent_back) break;
    co_await file->delegation_ended.wait(lock);
  }
  auto ending = revoked(file, delegation);
  co_await std::move(ending);
  co_return true;
}

Task<> DelegationStates::test_delegations() {
  const std::vector<DelegationRef> all = delegations_.all();
  std::unordered_set<DelegationRef> lost;
  for (size_t at = 0; at < all.size(); at += kTestedAtOnce) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    std::vector<DelegationRef> some(
        first, first + static_cast<std::ptrdiff_t>(std::min(kTestedAtOnce, all.size() - at)));
    auto testing = gone_among(std::move(some));
    const std::vector<DelegationRef> gone = co_await std::move(testing);
    lost.insert(gone.begin(), gone.end());
  }
  if (lost.empty()) co_return;
  // First end all of them, so that nothing more is answered under any.
  struct Ended {
    NodeRef node;
    std::shared_ptr<FileState> file;
    DelegationRef delegation;
  };
  std::vector<Ended> ended;
  for (const NodeRef& node : registry_.files()) {
    std::shared_ptr<FileState> file;
    DelegationRef delegation;
    {
      MutexLock lock(nfs4_node(node).mutex);
      file = nfs4_node(node).file;
      if (file) delegation = file->delegation;
    }
    if (delegation && lost.contains(delegation) &&
        end_delegation(*file, delegation, Delegations::Went::kRevoked))
      ended.push_back({node, std::move(file), std::move(delegation)});
  }
  for (const Ended& e : ended) {
    auto acknowledging = acknowledge_revoked(e.file, e.delegation);
    co_await std::move(acknowledging);
  }
}

void DelegationStates::reclaimed(FileState& file, const DelegationRef& before,
                                 const nfs4::open_delegation4& answer, uint64_t epoch,
                                 std::optional<uint64_t> change) {
  if (!answer.granted()) return;
  auto delegation = std::make_shared<Delegation>(before->fh, answer, before->credential, epoch);
  // A read delegation does not cover what was opened and locked under the write delegation. So it is
  // returned, and opens and locks are reclaimed one by one.
  if (before->write && !delegation->write)
    return Loop::current()->spawn(return_unwanted(std::move(delegation)));
  {
    MutexLock lock(file.node.mutex);
    if (file.delegation != before) return;
    before->phase.enter(Delegation::Phase::kEnded);
    // It is granted anew: "c" is the file's present change attribute (section 10.4.3).
    delegation->change = change ? change : before->change;
    file.delegation = delegation;
    file.delegation_ended.notify_all();
    delegations_.add(delegation, Delegations::Came::kReclaimed);
  }
  delegations_.remove(before, Delegations::Went::kReplaced);
  // RFC 8881 section 10.2.1: with `recall` set, the server wants the delegation back at once.
  if (answer.recall) hooks_.recalled(delegation);
}

}  // namespace nfsrdma::client::nfs4
