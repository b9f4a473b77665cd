// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/open_closer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/nfs4/state/locks.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/handle_ops.h"
#include "xdr/nfs4/lock_ops.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// CLOSEs of one COMPOUND: a message of 2.5 KiB with the longest file handles.
constexpr size_t kCloseTogether = 16;

// Section 8.4.3: the state is revoked, and FREE_STATEID must acknowledge the revocation.
bool revoked_status(nfs4::nfsstat4 status) {
  return status == nfs4::NFS4ERR_EXPIRED || status == nfs4::NFS4ERR_ADMIN_REVOKED;
}

}  // namespace

Task<> OpenCloser::drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all) {
  const nfs4::nfs_fh4 fh = file->node.fh();
  std::vector<LockState*> holders;  // they stay: only the holder of lock_mutex erases them
  {
    MutexLock lock(file->node.mutex);
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
        MutexLock lock(file->node.mutex);
        args.lock_stateid = owner->stateid;
      }
      b.putfh(fh).add(args);
    };
    const Request request{
        .op = nfs4::OP_LOCKU, .credential = state->credential, .cache_this = true, .build = build};
    for (int attempt = 0; attempt < kMaxRecoveries; ++attempt) {
      Result<CompoundReply> reply = co_await session_.run(request);
      MutexLock lock(file->node.mutex);
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
  MutexLock lock(file->node.mutex);
  file->unlocked.notify_all();
}

uint32_t OpenCloser::wanted_access(const FileState& file, const OpenState& state) {
  const uint32_t needed = state.needed_access() & ~state.refused_access;
  // Keep open what the delegation covers, until the delegation is returned.
  if (file.delegated()) return state.opened_within(needed | file.delegation->access());
  // Keep all of it if an opener uses another opener's OPEN (opened_as_held()): OPEN_DOWNGRADE can leave only
  // a union of OPENs.
  const bool by_anothers = (needed & ~state.held_access) == 0 && state.opened_within(needed) != needed;
  return by_anothers ? state.held_access : needed;
}

// LOCKs and LOCKUs in progress must end first: a killed process does not wait for them, and a server may
// refuse to CLOSE a file with locks (section 18.2.3) and keep the open. But locks must not wait for an OPEN
// that the server delays until another client has returned its delegation. So a waiter for one mutex never
// holds the other. It keeps the one that it waited for if the other one is free.
Task<OpenCloser::ClosingGuards> OpenCloser::lock_for_closing(std::shared_ptr<FileState> file) {
  const auto alone = co_await file->closing_mutex.lock();
  for (;;) {
    auto locking = co_await file->lock_mutex.lock();
    if (file->open_mutex.try_lock())
      co_return ClosingGuards{std::move(locking), AsyncMutex::Guard(&file->open_mutex)};
    locking.unlock();
    auto opening = co_await file->open_mutex.lock();
    if (file->lock_mutex.try_lock())
      co_return ClosingGuards{AsyncMutex::Guard(&file->lock_mutex), std::move(opening)};
  }
}

Task<> OpenCloser::closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access) {
  Closing closing;
  bool later = false;
  {
    MutexLock lock(file->node.mutex);
    if (state->openers[access] == 0) co_return;  // closed by the unmount
    if (file->delegated() && !file->lock_mutex.locked()) {
      --state->openers[access];
      const bool kept = state->established && wanted_access(*file, *state) == state->held_access;
      if (kept && (!state->idle() || !state->has_locks())) co_return;
      ++state->openers[access];
    }
    if (may_close_later(*file, *state, access)) {
      --state->openers[access];
      later = true;
      if (!std::exchange(state->closing_later, true)) closing = {NodeRef(&file->node), file, state};
    }
  }
  if (closing.state) co_await close_later(std::move(closing));
  if (later) co_return;
  auto locking = lock_for_closing(file);
  const auto guards = co_await std::move(locking);
  auto returning = co_await file->return_mutex.lock();
  {
    MutexLock lock(file->node.mutex);
    if (state->openers[access] == 0) co_return;
    --state->openers[access];
  }
  auto rest = trim(file, state);
  co_await std::move(rest);
}

Task<> OpenCloser::trim(std::shared_ptr<FileState> file, OpenStateRef state) {
  const nfs4::nfs_fh4 fh = file->node.fh();
  std::vector<nfs4::stateid4> gone;
  for (int attempt = 0; attempt < kMaxRecoveries; ++attempt) {
    nfs4::stateid4 stateid;
    uint32_t needed = 0;
    bool idle = false;
    {
      MutexLock lock(file->node.mutex);
      needed = wanted_access(*file, *state);
      idle = state->idle();
      if (!state->established || (needed != 0 && needed == state->held_access && !idle)) break;
    }
    // The locks end with the last descriptor, even if its open is kept.
    if (idle || needed == 0) co_await drop_locks(file, state, attempt != 0);
    {
      MutexLock lock(file->node.mutex);
      if (needed != 0 && needed == state->held_access) break;
      stateid = state->stateid;
    }
    // Some attempts failed: the reply with the newest seqid was probably lost. A seqid of 0 stands for the
    // current one (section 8.2.2).
    if (attempt >= kMaxContradictions) stateid.seqid = 0;
    auto build = [&](CompoundBuilder& b) {
      b.putfh(fh);
      if (needed == 0) {
        b.add(nfs4::CLOSE4args{0, stateid});
      } else {
        b.add(nfs4::OPEN_DOWNGRADE4args{stateid, 0, needed, nfs4::OPEN4_SHARE_DENY_NONE});
      }
    };
    const Request request{.op = needed == 0 ? nfs4::OP_CLOSE : nfs4::OP_OPEN_DOWNGRADE,
                          .credential = state->credential,
                          .cache_this = true,
                          .build = build};
    Result<CompoundReply> reply = co_await session_.run(request);
    // An OPEN of the same file by name overtook us: try again after its reply (RFC 8881 section 9.10.1). Or
    // this request was executed before, in a session that is gone.
    if (reply && reply->status() == nfs4::NFS4ERR_OLD_STATEID) {
      if (reply->maybe_executed_before) {
        MutexLock lock(file->node.mutex);
        count_up(state->stateid, stateid);
      } else {
        co_await Loop::current()->sleep(std::chrono::milliseconds(5));
      }
      continue;
    }
    if (reply && reply->status() == nfs4::NFS4ERR_LOCKS_HELD && attempt < 2) continue;
    MutexLock lock(file->node.mutex);
    // Recovery replaced the state while the request waited: the new one must be closed as well.
    if (!state->stateid.same_state(stateid)) continue;
    if (needed == 0) {
      // This state is not used again, whatever the answer is.
      if (reply && revoked_status(reply->status())) gone = stateids_of(*state);
      state->established = false;
      state->held_access = state->opened = 0;
    } else if (state->established) {
      Result<nfs4::OPEN_DOWNGRADE4res> res = fail(Error{});
      if (reply && reply->expect<nfs4::PUTFH4res>()) res = reply->take<nfs4::OPEN_DOWNGRADE4res>();
      note_downgraded(*state, needed, res);
    }
    break;
  }
  if (!gone.empty()) co_await registry_.free_stateids(std::move(gone), state->credential);
  MutexLock lock(file->node.mutex);
  const bool kept = state->established && file->delegated();
  if (state->idle() && !kept) std::erase(file->opens, state);
}

Task<> OpenCloser::close_idle(NodeRef node, std::shared_ptr<FileState> file) {
  auto locking = lock_for_closing(file);
  const auto guards = co_await std::move(locking);
  auto returning = co_await file->return_mutex.lock();
  std::vector<OpenStateRef> opens;
  {
    MutexLock lock(file->node.mutex);
    opens = file->opens;
  }
  for (const OpenStateRef& state : opens) {
    auto rest = trim(file, state);
    co_await std::move(rest);
  }
  registry_.drop_if_unused(nfs4_node(node));  // perhaps no opener is left that would do it
}

// With the Node's mutex held.
bool OpenCloser::may_close_later(const FileState& file, const OpenState& state, uint32_t access) const {
  uint32_t others = 0;
  for (uint32_t a = 1; a < state.openers.size(); ++a) others += state.openers[a] - (a == access ? 1 : 0);
  return put_off_ && others == 0 && state.established && state.failed == 0 && !file.delegation &&
         !file.unsaved() && file.hidden_name.empty() && !state.has_locks() && !file.lock_mutex.locked();
}

Task<> OpenCloser::close_later(Closing closing) {
  std::vector<Closing> enough;
  bool first = false;
  {
    MutexLock lock(closing_mutex_);
    closing_.push_back(std::move(closing));
    if (closing_.size() >= kCloseTogether) {
      enough = std::exchange(closing_, {});
    } else {
      first = !std::exchange(closing_timed_, true);
    }
  }
  if (first) session_.loops()[0].spawn(close_when_due());
  if (!enough.empty()) co_await close_all(std::move(enough));
}

Task<> OpenCloser::close_when_due() {
  for (;;) {
    (void)co_await closing_timer_.wait_for(close_delay_);
    co_await close_queued();
    const MutexLock lock(closing_mutex_);
    if (!closing_.empty()) continue;
    closing_timed_ = false;
    closing_over_.notify_all();
    co_return;
  }
}

Task<> OpenCloser::close_queued() {
  std::vector<Closing> all;
  {
    MutexLock lock(closing_mutex_);
    all = std::exchange(closing_, {});
  }
  if (!all.empty()) co_await close_all(std::move(all));
}

Task<> OpenCloser::close_now(NodeRef node) {
  std::shared_ptr<FileState> file;
  {
    MutexLock lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file || file->delegation) co_return;
    if (std::none_of(file->opens.begin(), file->opens.end(),
                     [](const OpenStateRef& o) { return o->idle() && o->established; }))
      co_return;
  }
  co_await close_queued();
  co_await close_idle(node, file);
}

bool OpenCloser::open_to_write(Nfs4Node& node) {
  MutexLock lock(node.mutex);
  return node.file && std::any_of(node.file->opens.begin(), node.file->opens.end(), [](const auto& open) {
           return open->closing_later && open->idle() && (open->held_access & CachedOpen::kWrite) != 0;
         });
}

void OpenCloser::close_at_once() {
  put_off_ = false;
  closing_timer_.cancel();
}

Task<> OpenCloser::close_rest() {
  co_await close_queued();
  for (;;) {
    MutexLock lock(closing_mutex_);
    if (!closing_timed_) co_return;
    co_await closing_over_.wait(lock);
  }
}

Task<> OpenCloser::close_all(std::vector<Closing> all) {
  while (!all.empty()) {
    const size_t most = std::max(1u, (session_.fore_channel().operations() - 1) / 2);
    std::vector<Closing> some, rest;
    for (Closing& closing : all) {
      const bool fits = some.size() < std::min(most, kCloseTogether) &&
                        (some.empty() || some.front().state->uid == closing.state->uid);
      (fits ? some : rest).push_back(std::move(closing));
    }
    auto closing = close_together(std::move(some));
    std::vector<Closing> refused = co_await std::move(closing);
    rest.insert(rest.end(), std::make_move_iterator(refused.begin()), std::make_move_iterator(refused.end()));
    all = std::move(rest);
  }
}

bool OpenCloser::try_hold(HeldClosing& held) {
  FileState& file = *held.what.file;
  OpenState& state = *held.what.state;
  if (!file.lock_mutex.try_lock()) return false;
  held.locking = AsyncMutex::Guard(&file.lock_mutex);
  if (!file.open_mutex.try_lock()) return false;
  held.opening = AsyncMutex::Guard(&file.open_mutex);
  if (!file.return_mutex.try_lock()) return false;
  held.returning = AsyncMutex::Guard(&file.return_mutex);
  MutexLock lock(file.node.mutex);
  held.stateid = state.stateid;
  return state.idle() && state.established && !state.has_locks() && !file.delegation;
}

Task<std::vector<OpenCloser::Closing>> OpenCloser::close_together(std::vector<Closing> some) {
  std::vector<HeldClosing> all_held;
  std::vector<Closing> busy;
  for (Closing& closing : some) {
    {
      MutexLock lock(closing.file->node.mutex);
      closing.state->closing_later = false;
      if (!closing.state->idle()) continue;  // opened again: its new opener will close it
    }
    HeldClosing held{std::move(closing), {}, {}, {}, {}};
    if (try_hold(held)) {
      all_held.push_back(std::move(held));
    } else {
      busy.push_back(std::move(held.what));
    }
  }
  size_t done = 0;
  if (!all_held.empty()) {
    auto build = [&](CompoundBuilder& b) {
      for (const HeldClosing& held : all_held)
        b.putfh(held.what.file->node.fh()).add(nfs4::CLOSE4args{0, held.stateid});
    };
    const Request request{.op = nfs4::OP_CLOSE,
                          .credential = all_held.front().what.state->credential,
                          .cache_this = true,
                          .build = build};
    Result<CompoundReply> reply = co_await session_.run(request);
    while (reply && done < all_held.size() && reply->expect<nfs4::PUTFH4res>() &&
           reply->expect<nfs4::CLOSE4res>()) {
      ++done;
    }
  }
  // trim() handles the file whose CLOSE failed. Those after it go into another COMPOUND.
  std::vector<Closing> again;
  for (size_t i = 0; i < all_held.size(); ++i) {
    Closing& closing = all_held[i].what;
    if (i > done) {
      {
        MutexLock lock(closing.file->node.mutex);
        closing.state->closing_later = true;
      }
      again.push_back(std::move(closing));
      continue;
    }
    if (i < done) note_closed(*closing.file, *closing.state, all_held[i].stateid);
    auto rest = trim(closing.file, closing.state);  // does nothing if it is closed
    co_await std::move(rest);
  }
  std::vector<Closing> over;
  for (HeldClosing& held : all_held) {
    if (held.what.state) over.push_back(std::move(held.what));
  }
  all_held.clear();
  for (const Closing& closing : busy) co_await close_idle(closing.node, closing.file);
  for (const Closing& closing : over) registry_.drop_if_unused(nfs4_node(closing.node));
  for (const Closing& closing : busy) registry_.drop_if_unused(nfs4_node(closing.node));
  co_return again;
}

void OpenCloser::note_closed(const FileState& file, OpenState& state, const nfs4::stateid4& sent) {
  MutexLock lock(file.node.mutex);
  if (!state.stateid.same_state(sent)) return;  // recovery has replaced it meanwhile
  state.established = false;
  state.held_access = state.opened = 0;
}

void OpenCloser::note_downgraded(OpenState& state, uint32_t access,
                                 const Result<nfs4::OPEN_DOWNGRADE4res>& res) {
  if (!res) {
    state.stateid.seqid = 0;  // the current one, whichever that is (section 8.2.2)
    return;
  }
  // An OPEN of the same file by name may have been executed after the OPEN_DOWNGRADE and answered before it.
  state.held_access = access | state.needed_access();
  for (uint32_t a = 1; a < state.openers.size(); ++a) {
    if ((a & ~state.held_access) != 0) state.opened &= ~(1u << a);
  }
  if (is_newer(res->resok4.open_stateid, state.stateid)) state.stateid = res->resok4.open_stateid;
}

}  // namespace nfsrdma::client::nfs4
