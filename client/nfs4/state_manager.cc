#include "client/nfs4/state_manager.h"

#include <algorithm>
#include <cerrno>

#include "client/nfs4/locks.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4/lock_ops.h"

namespace nfsrdma::client {
namespace {

// How often one request may find its state gone: each needs another revocation or restart in between.
constexpr int kMaxRecoveries = 16;
// How often it may be refused while the server says that its state is there.
constexpr int kMaxContradictions = 2;

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

// The request was executed before the session was lost, and its answer, which had the stateid after it, with
// it. A change counts the seqid up by one (section 8.2.2); 0 is skipped. Nothing, when an answer came
// meanwhile.
void count_up(nfs4::stateid4& stateid, const nfs4::stateid4& sent) {
  if (!(stateid == sent)) return;
  if (++stateid.seqid == 0) stateid.seqid = 1;
}

}  // namespace

StateManager::Counts StateManager::counts() const {
  Counts counts;
  for (const NodeRef& node : files()) {
    const std::lock_guard lock(nfs4_node(node).mutex);
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
    std::lock_guard lock(file.node.mutex);
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
    // Of before a restart that this state has survived: the stateid is gone, and run() opens what is missing.
    state.failed = 0;
    state.refused_access &= ~access;
    if (state.established && epoch < state.epoch) return opened;
    const bool same = state.established && state.stateid.same_state(result.stateid);
    if (!same) {
      // The server had taken the open away. Whoever had it in another way is opened again by run().
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
    std::lock_guard lock(nfs4_node(node).mutex);
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

Task<> StateManager::drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all) {
  const nfs4::nfs_fh4 fh = file->node.fh();
  std::vector<LockState*> holders;  // stay: only who has lock_mutex erases them
  {
    std::lock_guard lock(file->node.mutex);
    for (LockState& owner : state->locks) {
      if (std::exchange(owner.local, false)) owner.ranges.clear();
      if (owner.established && (all || !owner.ranges.empty())) holders.push_back(&owner);
    }
  }
  for (LockState* owner : holders) {
    nfs4::LOCKU4args args;
    args.locktype = nfs4::WRITE_LT;
    args.offset = 0;
    args.length = nfs4::NFS4_UINT64_MAX;
    auto build = [&](CompoundBuilder& b) {
      {
        std::lock_guard lock(file->node.mutex);
        args.lock_stateid = owner->stateid;
      }
      b.putfh(fh).add(args);
    };
    const Request request{nfs4::OP_LOCKU, state->credential, true, build, {}};
    for (int turn = 0; turn < kMaxRecoveries; ++turn) {
      Result<CompoundReply> reply = co_await session_.run(request);
      std::lock_guard lock(file->node.mutex);
      owner->ranges.clear();
      if (!reply) break;
      if (reply->status() == nfs4::NFS4ERR_OLD_STATEID && reply->maybe_executed_before) {
        count_up(owner->stateid, args.lock_stateid);
        continue;
      }
      if (!reply->expect<nfs4::PUTFH4res>()) break;
      if (auto res = reply->take<nfs4::LOCKU4res>()) owner->stateid = res->lock_stateid;
      break;
    }
  }
  std::lock_guard lock(file->node.mutex);
  file->unlocked.notify_all();
}

uint32_t StateManager::wanted_access(const FileState& file, const OpenState& state) {
  const uint32_t needed = state.needed_access() & ~state.refused_access;
  // What the delegation covers is kept open, until both go together.
  return file.delegated() ? state.opened_within(needed | file.delegation->access()) : needed;
}

Task<> StateManager::closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access) {
  {
    std::lock_guard lock(file->node.mutex);
    if (file->delegated() && !file->lock_mutex.locked()) {
      --state->openers[access];
      const bool locked = std::any_of(state->locks.begin(), state->locks.end(),
                                      [](const LockState& l) { return !l.ranges.empty() || l.lost; });
      const bool kept = state->established && wanted_access(*file, *state) == state->held_access;
      if (kept && (!state->idle() || !locked)) co_return;
      ++state->openers[access];
    }
  }
  // LOCKs and LOCKUs that are under way come first: a process that was killed does not wait for them. A
  // server may refuse to CLOSE what has locks (section 18.2.3), and would keep the open.
  auto locking = co_await file->lock_mutex.lock();
  auto guard = co_await file->open_mutex.lock();
  auto returning = co_await file->return_mutex.lock();
  {
    std::lock_guard lock(file->node.mutex);
    --state->openers[access];
  }
  auto rest = trim(file, state);
  co_await std::move(rest);
}

Task<> StateManager::trim(std::shared_ptr<FileState> file, OpenStateRef state) {
  const nfs4::nfs_fh4 fh = file->node.fh();
  for (int turn = 0; turn < kMaxRecoveries; ++turn) {
    nfs4::stateid4 stateid;
    uint32_t needed = 0;
    bool idle = false;
    {
      std::lock_guard lock(file->node.mutex);
      needed = wanted_access(*file, *state);
      idle = state->idle();
      if (!state->established || (needed != 0 && needed == state->held_access && !idle)) break;
    }
    // The locks go with the last descriptor, also where its open is kept.
    if (idle || needed == 0) co_await drop_locks(file, state, turn != 0);
    {
      std::lock_guard lock(file->node.mutex);
      if (needed != 0 && needed == state->held_access) break;
      stateid = state->stateid;
    }
    // The answer that has the seqid is not to be had: 0 is the current one (section 8.2.2).
    if (turn >= kMaxContradictions) stateid.seqid = 0;
    auto build = [&](CompoundBuilder& b) {
      b.putfh(fh);
      if (needed == 0) {
        b.add(nfs4::CLOSE4args{0, stateid});
      } else {
        b.add(nfs4::OPEN_DOWNGRADE4args{stateid, 0, needed, nfs4::OPEN4_SHARE_DENY_NONE});
      }
    };
    const Request request{
        needed == 0 ? nfs4::OP_CLOSE : nfs4::OP_OPEN_DOWNGRADE, state->credential, true, build, {}};
    Result<CompoundReply> reply = co_await session_.run(request);
    // An OPEN of the same file by name overtook us: look again once its answer is in (RFC 8881
    // section 9.10.1). Or it was ourselves, in a session that is gone.
    if (reply && reply->status() == nfs4::NFS4ERR_OLD_STATEID) {
      if (reply->maybe_executed_before) {
        std::lock_guard lock(file->node.mutex);
        count_up(state->stateid, stateid);
      } else {
        co_await Loop::current()->sleep(std::chrono::milliseconds(5));
      }
      continue;
    }
    if (reply && reply->status() == nfs4::NFS4ERR_LOCKS_HELD && turn < 2) continue;
    std::lock_guard lock(file->node.mutex);
    // Recovery replaced the state while the request waited: the new one has to go as well.
    if (!state->stateid.same_state(stateid)) continue;
    if (needed == 0) {
      // Whatever the answer: this state is not used again.
      state->established = false;
      state->held_access = state->opened = 0;
    } else if (state->established) {
      Result<nfs4::OPEN_DOWNGRADE4res> res = fail(Error{});
      if (reply && reply->expect<nfs4::PUTFH4res>()) res = reply->take<nfs4::OPEN_DOWNGRADE4res>();
      if (!res) {
        state->stateid.seqid = 0;  // the current one, whichever that is (section 8.2.2)
      } else {
        // An OPEN of the same file by name may have been executed after it, and answered before.
        state->held_access = needed | state->needed_access();
        for (uint32_t a = 1; a < state->openers.size(); ++a) {
          if ((a & ~state->held_access) != 0) state->opened &= ~(1u << a);
        }
        if (is_newer(res->resok4.open_stateid, state->stateid)) state->stateid = res->resok4.open_stateid;
      }
    }
    break;
  }
  std::lock_guard lock(file->node.mutex);
  const bool kept = state->established && file->delegated();
  if (state->idle() && !kept) std::erase(file->opens, state);
}

Result<nfs4::stateid4> StateManager::io_stateid(const FileState& file, const IoAccount& account,
                                                uint32_t access) {
  std::lock_guard lock(file.node.mutex);
  const bool opened = account.state->established && (account.state->held_access & access) != 0;
  const bool lent = (file.lent_access() & access) != 0 && (file.delegated() || !opened);
  nfs4::stateid4 stateid = account.state->stateid;
  for (const std::string& name : account.lock_owners) {
    for (const OpenStateRef& open : file.opens) {
      const LockState* owner = find_owner(std::as_const(*open), name);
      if (owner == nullptr) continue;
      // As the Linux client's lost locks: whoever relied on one must not go on as if nothing had happened.
      if (owner->lost) return fail(system_error(EIO, "I/O", "a lock on this file was lost"));
      if (open == account.state && owner->established && !owner->local && !owner->ranges.empty())
        stateid = owner->stateid;
    }
  }
  if (lent) stateid = file.delegation->stateid;
  stateid.seqid = 0;
  return stateid;
}

Task<Result<CompoundReply>> StateManager::run(Request request, NodeRef node, std::shared_ptr<FileState> file,
                                              OpenStateRef state, LockState* lock_state) {
  for (int turn = 0;; ++turn) {
    if (turn > kMaxRecoveries)
      co_return fail(
          system_error(EIO, nfs4::op_name(request.op), "the server takes the file's open away each time"));
    uint64_t version = 0;
    bool usable = false;
    nfs4::stateid4 sent;
    DelegationRef delegation;
    {
      std::lock_guard lock(file->node.mutex);
      if (lock_state != nullptr) sent = lock_state->stateid;
      if (state->failed != 0) {
        co_return fail({Layer::kNfs, Recovery::kPermanent, state->failed, 0, nfs4::op_name(request.op),
                        "the file's open state is lost"});
      }
      version = state->version;
      delegation = file->delegation;
      // A lock hangs on an open of the server's; data can also be had by the delegation.
      const uint32_t lent = lock_state == nullptr ? file->lent_access() : 0;
      const uint32_t wanted =
          state->idle() ? uint32_t{nfs4::OPEN4_SHARE_ACCESS_WRITE} : missing_access(*state);
      usable = ((state->established ? missing_access(*state) : wanted) & ~lent) == 0 &&
               (state->established || lent != 0);
    }
    if (usable) {
      Result<CompoundReply> reply = co_await session_.run(request);
      if (!reply || turn == kMaxRecoveries) co_return reply;
      // The server's open allows less than was booked: what is needed is opened again.
      if (reply->status() == nfs4::NFS4ERR_OPENMODE && turn < kMaxContradictions) {
        std::lock_guard lock(file->node.mutex);
        if (state->refused_access != 0)
          co_return fail({Layer::kNfs, Recovery::kPermanent, state->refused, 0, nfs4::op_name(request.op),
                          "the file could not be opened anew for this"});
        if (state->version == version) state->held_access = 0;
        continue;
      }
      if (!about_state(reply->status())) co_return reply;
      if (delegation) {
        // It has gone back meanwhile, or the server has taken it away: without it, then.
        bool over = false;
        {
          std::lock_guard lock(file->node.mutex);
          over = file->delegation != delegation;
        }
        if (!over) {
          auto testing = test_delegation(file, delegation);
          over = co_await std::move(testing);
        }
        if (over) continue;
      }
      if (reply->status() == nfs4::NFS4ERR_OLD_STATEID) {
        // Requests of one lock-owner are one at a time: only we ourselves can have counted it up.
        if (lock_state != nullptr && reply->maybe_executed_before) {
          std::lock_guard lock(file->node.mutex);
          count_up(lock_state->stateid, sent);
          continue;
        }
        // A newer seqid is on its way to us, or has been lost: 0 is the current one (section 8.2.2).
        co_await Loop::current()->sleep(std::chrono::milliseconds(5));
        std::lock_guard lock(file->node.mutex);
        if (turn >= kMaxContradictions)
          (lock_state != nullptr && lock_state->established ? lock_state->stateid : state->stateid).seqid = 0;
        continue;
      }
      // It may be the lock that is gone and not the open: what stays valid is kept. Or nothing is: the
      // stateid was of a lock-owner that has been forgotten meanwhile. A server that contradicts itself is
      // not asked again and again.
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
    if (lock.ranges.empty() || lock.local) continue;
    if (!std::exchange(lock.lost, true)) lost_locks = true;
  }
  return lost_locks;
}

void StateManager::report_lost_locks(const NodeRef& node, const char* why) {
  std::string name = "of a file";
  if (auto found = names_.name_of(*node.get())) name = "of \"" + found->name + "\"";
  log::error("locks {} are lost ({}): I/O under them fails until they are released", name, why);
  hooks_.locks_lost(node);
}

}  // namespace nfsrdma::client
