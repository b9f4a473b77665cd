// SPDX-License-Identifier: Apache-2.0
// Byte-range locks: POSIX locks and flock, both as LOCK, LOCKT and LOCKU (RFC 8881 sections 9.1-9.8, 10.3.2,
// 18.10-18.12).
//
// Locks order accesses to data. Before LOCKU, and before a write lock becomes a read lock, the data written
// under it is put on the server. After LOCK the kernel's pages are dropped if another client changed the
// file. A waiting request repeats its LOCK with back-off; a lock released on this mount, or CB_NOTIFY_LOCK,
// ends a pause early. Under a write delegation locks are recorded only here (LockState::local) until the
// delegation is returned. POSIX owners of this mount that wait for each other get EDEADLK, as on a local file
// system. Deadlocks with other clients are not detected.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/nfs4/ops/lock_service.h"
#include "client/nfs4/state/locks.h"
#include "client/nfs4/state/relied_locks.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

// A request that must not block tries again while this mount releases locks of the file, but at most this
// often: after each release another lock may conflict.
constexpr unsigned kMostDroppedLocks = 8;
constexpr Duration kFirstPause = 20ms;
constexpr Duration kLongestPause = 2s;
// How many lock-owners without a lock are kept for reuse.
constexpr size_t kIdleOwners = 32;

struct Found {
  OpenStateRef state;
  LockState* lock = nullptr;
};

// The current lock-owner with the kernel's name `locker`. A POSIX lock belongs to the process: any of its
// descriptors may change it, whichever was used to take it. A flock belongs to its open file description. The
// Node mutex is held.
Found find_locker(const FileState& file, const std::string& locker, const Nfs4File* description) {
  for (const OpenStateRef& state : file.opens) {
    for (LockState& lock : state->locks) {
      if (lock.over || lock.locker != locker) continue;
      if (description == nullptr || asked_through(lock, *description)) return {state, &lock};
    }
  }
  return {};
}

// Finds the lock-owner by its lock_owner4; null: it does not exist any more. The Node mutex is held.
const LockState* find_holder(const FileState& file, const std::string& owner) {
  for (const OpenStateRef& state : file.opens) {
    if (const LockState* lock = find_owner(std::as_const(*state), owner)) return lock;
  }
  return nullptr;
}

// The owner's locks within `range`.
std::vector<LockRange> held_of(const LockRange& range, const Nfs4File& handle, const LockState& owner) {
  MutexLock lock(handle.file->node.mutex);
  const std::span<const LockRange> held = overlapping(owner.ranges, range);
  return {held.begin(), held.end()};
}

// True if a write lock of the owner becomes a read lock while written data is not on the server.
bool lets_readers_in(const Nfs4File& handle, const LockState& owner, const Lock& lock) {
  if (lock.type != LockType::kRead) return false;
  MutexLock node_lock(handle.file->node.mutex);
  return handle.file->unsaved() &&
         std::ranges::any_of(overlapping(owner.ranges, {lock.start, lock.end, lock.type}),
                             [](const LockRange& r) { return r.type == LockType::kWrite; });
}

uint64_t unlocks_ended(const FileState& file) {
  MutexLock lock(file.node.mutex);
  return file.unlocks_ended;
}

// How far this mount has released locks on the file. kEnded: a release ended since unlocks_ended() was
// `ended_before`. kUnderWay: one is in progress. kCertain: one is in progress, and the owner `holder` of the
// conflicting lock ("": another client's) has closed the file, so its lock will be released.
enum class Drops : uint8_t { kNone, kUnderWay, kCertain, kEnded };
Drops drops_since(const FileState& file, uint64_t ended_before, const std::string& holder) {
  MutexLock lock(file.node.mutex);
  if (file.unlocks_ended != ended_before) return Drops::kEnded;
  if (file.unlocks_under_way == 0) return Drops::kNone;
  const LockState* const in_the_way = find_holder(file, holder);
  return in_the_way != nullptr && in_the_way->over ? Drops::kCertain : Drops::kUnderWay;
}

// The kernel's name of the lock-owner `holder`, for LockWaits. Empty if that owner is gone or has closed the
// file: then it waits for nothing.
std::string awaited(const FileState& file, const std::string& holder) {
  MutexLock lock(file.node.mutex);
  const LockState* const in_the_way = find_holder(file, holder);
  return in_the_way == nullptr || in_the_way->over ? std::string() : in_the_way->locker;
}

// Resumes on `loop`, after what that loop has queued; also if it is the current loop.
struct Behind {
  Loop& loop;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) { loop.post(h); }
  void await_resume() const noexcept {}
};

struct LockPause {
  WaitQueue::Waiter* waiter = nullptr;
  bool over = false;
};

void end_pause(FileState& file, LockPause& pause) {
  MutexLock lock(file.node.mutex);
  if (!pause.over && pause.waiter != nullptr) file.unlocked.cancel(pause.waiter);
}

// The caller cancels `timer` when the pause ends, because this coroutine must not outlive the mount.
Task<> end_pause_later(NodeRef node, std::shared_ptr<FileState> file, std::shared_ptr<LockPause> pause,
                       std::shared_ptr<Timer> timer, Duration after) {
  {
    MutexLock lock(file->node.mutex);
    if (pause->over) co_return;
  }
  co_await timer->wait_for(after);
  end_pause(*file, *pause);
  (void)node;
}

}  // namespace

IoAccount Nfs4File::account(const RequestContext& ctx) const {
  if (!file->locked) return {state, credential, {}};
  return {state, credential, locks_relied_on(*this, ctx.thread, ThreadGroups())};
}

// The last close(2) of a descriptor releases locks, but it returns before the kernel's RELEASE arrives here.
// A later request, on whichever loop, must see that release first. The RELEASE was in the kernel's queue
// before the request, so a loop has read it by now. Each loop is visited twice, because a message that it has
// just read may wait behind others in its queue.
Task<> LockService::hear_other_loops() {
  Loop& here = *Loop::current();
  for (unsigned i = 0; i < loops_.size(); ++i) {
    if (&loops_[i] == &here) continue;
    co_await Behind{loops_[i]};
    co_await Behind{loops_[i]};
  }
  if (loops_.size() > 1) co_await Behind{here};
}

Task<LockUse> LockService::use_owner(OpenFileRef open, std::string locker, bool of_description) {
  Nfs4File& handle = nfs4_file(open);
  const std::shared_ptr<FileState> file = handle.file;
  for (bool heard = false;; heard = true) {
    if (heard) co_await hear_other_loops();
    bool many = false;
    LockUse use;
    {
      MutexLock guard(file->node.mutex);
      Found found = find_locker(*file, locker, of_description ? &handle : nullptr);
      const bool busy = found.lock != nullptr && (!found.lock->idle() || found.lock->requests != 0);
      // Two descriptors of one process, or a closed one whose owner number another process has got: look
      // again when the other loops have processed the close.
      if (busy && !heard && !asked_through(*found.lock, handle)) continue;
      // Do not reuse an owner of another open, which may be closed at any moment.
      if (found.lock != nullptr && !busy && found.state != handle.state) {
        found.lock->over = true;
        found.lock = nullptr;
      }
      if (found.lock == nullptr) {
        file->locked = true;
        found = {handle.state, &handle.state->locks.emplace_back()};
        found.lock->locker = locker;
        found.lock->owner = lock_owner_name(locker, ++lock_owners_);
        many = handle.state->locks.size() % kIdleOwners == 0;
      }
      if (!asked_through(*found.lock, handle)) found.lock->descriptors.push_back(&handle);
      use = LockUse(file, found.state, *found.lock);
    }
    if (many) Loop::current()->spawn(forget_idle_owners(file, handle.state));
    co_return use;
  }
}

std::vector<LockUse> LockService::end_owners(Nfs4File& handle, const std::string* locker) {
  std::vector<LockUse> ended;
  MutexLock guard(handle.file->node.mutex);
  for (const OpenStateRef& state : handle.file->opens) {
    for (LockState& lock : state->locks) {
      if (lock.over) continue;
      if (locker != nullptr) {
        lock.over = lock.locker == *locker;
      } else if (std::erase(lock.descriptors, &handle) != 0) {
        lock.over = lock.descriptors.empty();
      }
      if (!lock.over) continue;
      lock_waits_.changed(lock.locker);
      if (!lock.idle() || lock.requests != 0) ended.emplace_back(handle.file, state, lock);
    }
  }
  return ended;
}

Task<Result<LockService::LockHolder>> LockService::find_lock_holder(RequestContext ctx, OpenFileRef open,
                                                                    uint64_t owner, Lock lock) {
  Nfs4File& handle = nfs4_file(open);
  co_await confirm_local_locks(handle.file);
  std::string name = "none";
  LockHolder holder;
  {
    MutexLock guard(handle.file->node.mutex);
    const Found asking = find_locker(*handle.file, posix_owner(owner), nullptr);
    if (asking.lock != nullptr) name = asking.lock->owner;
    const LockRange range{lock.start, lock.end, lock.type};
    if (const LockState* here = local_conflict(*handle.file, name, range)) {
      for (const LockRange& r : overlapping(here->ranges, range)) {
        if (r.type != LockType::kWrite && range.type != LockType::kWrite) continue;
        holder = {{r.type, r.start, r.end, here->pid}, here->owner, true};
        break;
      }
    }
    if (holder.ours || handle.file->locks_are_local()) co_return holder;
  }
  const nfs4::nfs_fh4 fh = nfs4_node(handle.node).fh();
  nfs4::LOCKT4args args;
  args.locktype = lock.type == LockType::kWrite ? nfs4::WRITE_LT : nfs4::READ_LT;
  args.offset = lock.start;
  args.length = lock_length(lock.start, lock.end);
  auto build = [&](CompoundBuilder& b) {
    args.owner = {session_.client_id(), name};
    b.putfh(fh).add(args);
  };
  const Request request{.op = nfs4::OP_LOCKT, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  auto res = reply->take_any<nfs4::LOCKT4res>();
  if (!res) co_return fail(std::move(res.error()));
  if (res->status == nfs4::NFS4_OK) co_return holder;
  if (res->status != nfs4::NFS4ERR_DENIED) co_return fail(nfs4::nfs_error(res->status, "LOCKT"));
  const auto& denied = res->denied;
  holder.lock.type = denied.locktype == nfs4::WRITE_LT || denied.locktype == nfs4::WRITEW_LT
                         ? LockType::kWrite
                         : LockType::kRead;
  holder.lock.start = denied.offset;
  holder.lock.end = lock_end(denied.offset, denied.length);
  holder.ours = denied.owner.clientid == session_.client_id();
  if (!holder.ours) co_return holder;
  holder.owner = denied.owner.owner;
  MutexLock guard(handle.file->node.mutex);
  if (const LockState* l = find_holder(*handle.file, holder.owner)) holder.lock.pid = l->pid;
  co_return holder;
}

Task<Result<Lock>> LockService::getlk(RequestContext ctx, OpenFileRef open, uint64_t owner, Lock lock) {
  const std::shared_ptr<FileState> file = nfs4_file(open).file;
  for (unsigned dropped = 0;;) {
    const uint64_t ended_before = unlocks_ended(*file);
    auto finding = find_lock_holder(ctx, open, owner, lock);
    const Result<LockHolder> holder = co_await std::move(finding);
    if (!holder) co_return fail(holder.error());
    if (!holder->ours) co_return holder->lock;
    co_await hear_other_loops();
    const Drops dropping = drops_since(*file, ended_before, holder->owner);
    if (dropping == Drops::kNone || (dropping != Drops::kCertain && dropped++ == kMostDroppedLocks))
      co_return holder->lock;
    if (dropping == Drops::kEnded) continue;
    (void)co_await wait_for_unlock(ctx, file, kFirstPause);
  }
}

Task<Result<>> LockService::setlk(RequestContext ctx, OpenFileRef open, uint64_t owner, Lock lock,
                                  bool wait) {
  if (lock.type == LockType::kUnlock) co_return co_await unlock(open, posix_owner(owner), false, lock);
  auto using_it = use_owner(open, posix_owner(owner), false);
  const LockUse use = co_await std::move(using_it);
  if (!wait) co_return co_await lock_owner_request(ctx, open, use, lock, false, nullptr);
  LockWaits::Wait waiting(lock_waits_, posix_owner(owner));
  co_return co_await lock_owner_request(ctx, open, use, lock, true, &waiting);
}

Task<Result<>> LockService::flock(RequestContext ctx, OpenFileRef open, uint64_t owner, LockType type,
                                  bool wait) {
  Lock whole;
  whole.type = type;
  if (type == LockType::kUnlock) co_return co_await unlock(open, flock_owner(owner), true, whole);
  auto using_it = use_owner(open, flock_owner(owner), true);
  const LockUse use = co_await std::move(using_it);
  co_return co_await lock_owner_request(ctx, open, use, whole, wait, nullptr);
}

Task<Result<>> LockService::lock_owner_request(RequestContext ctx, OpenFileRef open, const LockUse& use,
                                               Lock lock, bool wait, LockWaits::Wait* waiting) {
  const std::shared_ptr<FileState> file = nfs4_file(open).file;
  if (lets_readers_in(nfs4_file(open), use.lock(), lock))
    co_await write_back_.write_back(nfs4_file(open).node, file);
  Duration pause = kFirstPause;
  // The error for a caller that gives up. Before the error is returned, a LOCK that does not wait is sent: a
  // server may keep a list of waiting owners (RFC 8881 section 9.6), and such a LOCK removes the owner from
  // it. Without it, nfs-ganesha 6 refuses conflicting locks for minutes after the waiting owner has gone.
  std::optional<Error> given_up;
  for (unsigned dropped = 0;;) {
    const uint64_t ended_before = unlocks_ended(*file);
    if (waiting != nullptr) waiting->ask();
    // Held until the application has the lock, or the lock is released again: the application may have got
    // EINTR meanwhile and may ask again.
    auto turn_of_file = co_await file->lock_mutex.lock();
    std::vector<LockRange> held_before =
        held_of({lock.start, lock.end, lock.type}, nfs4_file(open), use.lock());
    auto tried = co_await try_lock(open, use, lock, wait && !given_up);
    if (!tried) co_return fail(std::move(tried.error()));
    const std::optional<nfs4::lock_owner4>& holder = *tried;
    if (!holder) {
      auto keeping = keep_or_give_back(ctx, open, use, lock, std::move(held_before));
      co_return co_await std::move(keeping);
    }
    turn_of_file.unlock();
    const bool ours = holder->clientid == session_.client_id();
    if (given_up) co_return fail(std::move(*given_up));
    if (waiting != nullptr && waiting->denied(ours ? awaited(*file, holder->owner) : std::string())) {
      given_up = system_error(EDEADLK, "LOCK");
      continue;
    }
    // A request after a close(2) must not fail because of a lock that the close releases.
    if (ours && !wait) co_await hear_other_loops();
    const Drops dropping = drops_since(*file, ended_before, ours ? holder->owner : std::string());
    const bool last = dropping != Drops::kCertain && dropped++ == kMostDroppedLocks;
    if (!wait && (dropping == Drops::kNone || last)) co_return fail(system_error(EAGAIN, "LOCK"));
    if (dropping == Drops::kEnded) continue;
    if (!co_await wait_for_unlock(ctx, file, pause)) given_up = system_error(EINTR, "LOCK");
    if (wait) pause = std::min(pause * 2, kLongestPause);
  }
}

Task<Result<>> LockService::keep_or_give_back(RequestContext ctx, OpenFileRef open, const LockUse& use,
                                              Lock lock, std::vector<LockRange> held_before) {
  // Section 10.3.2: "after obtaining a lock, the client must... validate its cached data".
  const NodeRef node = nfs4_file(open).node;
  Nfs4Node& n = nfs4_node(node);
  uint64_t before = 0;
  bool known = false, promised = false;
  {
    MutexLock guard(n.mutex);
    before = n.contents.change;
    known = n.contents.known;
    // A delegation guarantees that no other client has changed the file.
    promised = attributes_.vouched_for(n);
  }
  Result<> asked;
  if (!promised) {
    co_await write_back_.settle_node(node);
    asked = co_await attributes_.fetch(ctx, node);
  }
  bool changed = false;
  {
    MutexLock guard(n.mutex);
    // Without attributes the lock is still granted, but all data must be read again.
    changed = !asked || !known || n.contents.change != before || n.contents.mixed || n.kernel.dropping();
    n.contents.mixed = false;
  }
  if (changed) co_await kept_.drop_data(node);
  if (ctx.cancellation && ctx.cancellation->cancelled()) {
    // The application got EINTR while the last request was in progress, so it keeps its earlier locks.
    const LockRange range{lock.start, lock.end, lock.type};
    for (const LockRange& step : steps_back(held_before, range)) {
      const Lock back{step.type, step.start, step.end, lock.pid};
      if (step.type == LockType::kUnlock) {
        (void)co_await unlock_in_turn(open, use, back);
      } else {
        (void)co_await try_lock(open, use, back, false);
      }
    }
    co_return fail(system_error(EINTR, "LOCK"));
  }
  co_return Result<>{};
}

Task<Result<std::optional<nfs4::lock_owner4>>> LockService::try_lock(OpenFileRef open, const LockUse& use,
                                                                     Lock lock, bool waiting) {
  Nfs4File& handle = nfs4_file(open);
  const std::shared_ptr<FileState> file = handle.file;
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it must outlive the requests below
  const OpenStateRef state = use.state();
  LockState* const mine = &use.lock();
  // flock(2), NFS: "in order to place an exclusive lock, the file must be opened for writing", and a shared
  // lock needs a file opened for reading. The kernel checks POSIX locks.
  const uint32_t access = lock.type == LockType::kWrite ? CachedOpen::kWrite : CachedOpen::kRead;
  if ((handle.access & access) == 0) co_return fail(system_error(EBADF, "LOCK"));
  co_await confirm_local_locks(file);
  {
    MutexLock node_lock(file->node.mutex);
    if (mine->lost) co_return fail(system_error(EIO, "LOCK", "an earlier lock was lost; release it first"));
    mine->pid = lock.pid;
    if (file->locks_are_local()) {
      const LockRange wanted{lock.start, lock.end, lock.type};
      if (const LockState* other = local_conflict(*file, mine->owner, wanted))
        co_return std::optional<nfs4::lock_owner4>({session_.client_id(), other->owner});
      record_lock(mine->ranges, wanted);
      mine->local = true;
      lock_waits_.changed(mine->locker);
      co_return std::optional<nfs4::lock_owner4>();
    }
  }
  const LockRange range{lock.start, lock.end, lock.type};
  const nfs4::nfs_fh4 fh = nfs4_node(handle.node).fh();
  auto build = [&](CompoundBuilder& b) {
    nfs4::LOCK4args args;
    {
      MutexLock node_lock(file->node.mutex);
      if (mine->lost) return b.refuse(system_error(EIO, "LOCK", "an earlier lock was lost meanwhile"));
      args = lock_args(session_.client_id(), *state, *mine, range, waiting);
    }
    b.putfh(fh).add(args);
  };
  const Request request{
      .op = nfs4::OP_LOCK, .credential = handle.credential, .cache_this = true, .build = build};
  const StateUse state_use = StateUse::by_owner(handle.node, file, state, *mine);
  Result<CompoundReply> reply = co_await states_.run(request, state_use);
  if (!reply) co_return fail(std::move(reply.error()));
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  auto res = reply->take_any<nfs4::LOCK4res>();
  if (!res) co_return fail(std::move(res.error()));
  if (res->status == nfs4::NFS4ERR_DENIED) {
    // nfs-ganesha 6 does not name the holder when it denies a LOCK that waits. LockWaits needs the holder if
    // it is of this mount, so look for it here.
    MutexLock node_lock(file->node.mutex);
    if (res->denied.owner.clientid != session_.client_id()) {
      if (const LockState* other = local_conflict(*file, mine->owner, range))
        co_return std::optional<nfs4::lock_owner4>({session_.client_id(), other->owner});
    }
    co_return std::optional(std::move(res->denied.owner));
  }
  if (res->status != nfs4::NFS4_OK) co_return fail(nfs4::nfs_error(res->status, "LOCK"));
  MutexLock node_lock(file->node.mutex);
  const auto& stateid = res->resok4.lock_stateid;
  mine->stateid = stateid;
  mine->established = true;
  record_lock(mine->ranges, range);
  lock_waits_.changed(mine->locker);  // perhaps a write lock became a read lock
  co_return std::optional<nfs4::lock_owner4>();
}

Task<> LockService::confirm_local_locks(std::shared_ptr<FileState> file) {
  DelegationRef delegation;
  {
    MutexLock lock(file->node.mutex);
    if (session_.lease().holds() || !file->locks_are_local()) co_return;
    delegation = file->delegation;
  }
  co_await session_.confirm_lease();
  if (!session_.lease().holds()) (void)co_await states_.delegation_states().test_delegation(file, delegation);
}

Task<Result<>> LockService::unlock(OpenFileRef open, std::string locker, bool of_description, Lock lock) {
  Nfs4File& handle = nfs4_file(open);
  std::vector<LockUse> owners;
  {
    MutexLock guard(handle.file->node.mutex);
    const Found found = find_locker(*handle.file, locker, of_description ? &handle : nullptr);
    if (found.lock != nullptr && (!found.lock->ranges.empty() || found.lock->lost))
      owners.emplace_back(handle.file, found.state, *found.lock);
  }
  co_return co_await drop_locks_of(open, std::move(owners), lock);
}

Task<Result<>> LockService::drop_locks_of(OpenFileRef open, std::vector<LockUse> owners, Lock lock) {
  if (owners.empty()) co_return Result<>{};
  Nfs4File& handle = nfs4_file(open);
  const std::shared_ptr<FileState> file = handle.file;
  bool dirty = false;
  {
    MutexLock node_lock(file->node.mutex);
    dirty = file->unsaved();
    ++file->unlocks_under_way;
  }
  // The lock's next holder must see the data written under it, so it is written back before LOCKU. Under a
  // write delegation the recall would cause that, too, but not if this host crashes before the recall. fsync
  // and close report write errors.
  if (dirty) co_await write_back_.write_back(handle.node, file);
  Result<> unlocked;
  {
    auto guard = co_await file->lock_mutex.lock();
    for (const LockUse& use : owners) {
      auto unlocking = unlock_in_turn(open, use, lock);
      Result<> one = co_await std::move(unlocking);
      if (!one && unlocked) unlocked = std::move(one);
    }
  }
  MutexLock node_lock(file->node.mutex);
  --file->unlocks_under_way;
  ++file->unlocks_ended;
  file->unlocked.notify_all();
  co_return unlocked;
}

Task<Result<>> LockService::unlock_in_turn(OpenFileRef open, const LockUse& use, Lock lock) {
  Nfs4File& handle = nfs4_file(open);
  const std::shared_ptr<FileState> file = handle.file;
  LockState& mine = use.lock();
  {
    MutexLock node_lock(file->node.mutex);
    if (mine.ranges.empty() && !mine.lost) co_return Result<>{};
    // LOCKU is sent for a lost owner, too: the server may have granted the reclaim of some of its ranges
    // before it refused one.
    if (mine.ranges.empty() || !mine.established || mine.local) {
      note_unlocked(*file, mine, lock);  // at once: a reclaim reads the record when its reply arrives
      co_return Result<>{};
    }
  }
  auto unlocking = unlock_at_server(handle, use.state(), mine, lock);
  Result<> unlocked = co_await std::move(unlocking);
  MutexLock node_lock(file->node.mutex);
  if (mine.lost) unlocked = {};  // the owner holds nothing any more
  if (unlocked) note_unlocked(*file, mine, lock);
  co_return unlocked;
}

Task<Result<>> LockService::unlock_at_server(Nfs4File& handle, OpenStateRef state, LockState& owner,
                                             Lock lock) {
  const std::shared_ptr<FileState> file = handle.file;
  const nfs4::nfs_fh4 fh = nfs4_node(handle.node).fh();
  auto build = [&](CompoundBuilder& b) {
    nfs4::LOCKU4args args;
    {
      MutexLock node_lock(file->node.mutex);
      if (!owner.established) return b.refuse(system_error(EIO, "LOCKU", "the lock was lost meanwhile"));
      args.lock_stateid = owner.stateid;
    }
    args.locktype = nfs4::WRITE_LT;  // ignored (section 18.12.3), but must be valid
    args.offset = lock.start;
    args.length = lock_length(lock.start, lock.end);
    b.putfh(fh).add(args);
  };
  const Request request{
      .op = nfs4::OP_LOCKU, .credential = handle.credential, .cache_this = true, .build = build};
  const StateUse state_use = StateUse::by_owner(handle.node, file, state, owner);
  Result<CompoundReply> reply = co_await states_.run(request, state_use);
  Result<nfs4::LOCKU4res> res = take_behind_putfh<nfs4::LOCKU4res>(reply);
  if (!res) co_return fail(std::move(res.error()));
  MutexLock node_lock(file->node.mutex);
  owner.stateid = res->lock_stateid;
  co_return Result<>{};
}

void LockService::note_unlocked(FileState& file, LockState& owner, const Lock& lock) {
  record_lock(owner.ranges, {lock.start, lock.end, LockType::kUnlock});
  if (owner.ranges.empty()) owner.lost = owner.local = false;
  lock_waits_.changed(owner.locker);
  file.unlocked.notify_all();
}

Task<> LockService::forget_idle_owners(std::shared_ptr<FileState> file, OpenStateRef state) {
  auto guard = co_await file->lock_mutex.lock();
  std::vector<nfs4::stateid4> stateids;
  {
    MutexLock lock(file->node.mutex);
    const auto unused = [](const LockState& l) { return l.idle() && l.requests == 0; };
    for (const LockState& owner : state->locks) {
      if (unused(owner) && owner.established) stateids.push_back(owner.stateid);
    }
    std::erase_if(state->locks, unused);
  }
  for (const nfs4::stateid4& stateid : stateids)
    co_await states_.registry().free_stateid(stateid, state->credential);
}

Task<bool> LockService::wait_for_unlock(RequestContext ctx, std::shared_ptr<FileState> file,
                                        Duration longest) {
  auto pause = std::make_shared<LockPause>();
  const NodeRef node(&file->node);
  if (ctx.cancellation) {
    ctx.cancellation->on_cancel([node, file, pause] { end_pause(*file, *pause); });
    if (ctx.cancellation->cancelled()) co_return false;
  }
  const auto timer = std::make_shared<Timer>(*Loop::current());
  Loop::current()->spawn(end_pause_later(node, file, pause, timer, longest));
  {
    MutexLock lock(file->node.mutex);
    co_await file->unlocked.wait(lock, &pause->waiter);
  }
  timer->cancel();
  MutexLock lock(file->node.mutex);
  pause->over = true;
  co_return !(ctx.cancellation && ctx.cancellation->cancelled());
}

}  // namespace nfsrdma::client::nfs4
