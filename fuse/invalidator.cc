// SPDX-License-Identifier: Apache-2.0
#include "fuse/invalidator.h"

#include <fuse_lowlevel.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

using client::NodeRef;

namespace {

// Longer than the kernel takes to drop pages that nobody holds.
constexpr std::chrono::milliseconds kMoment{10};
// Idle threads: one takes the next notice, one stands by. Further ones end after kSpareFor.
constexpr size_t kSpareThreads = 2;
constexpr std::chrono::seconds kSpareFor{10};

// libfuse 3.14.0 takes a flag; later releases of the same major version dropped the argument.
using ExpireEntry = int (*)(fuse_session*, fuse_ino_t, const char*, size_t);
template <class Flags>
using ExpireEntryOfFlags = int (*)(fuse_session*, fuse_ino_t, const char*, size_t, Flags);

[[maybe_unused]] int expire_entry(ExpireEntry notify, fuse_session* session, fuse_ino_t directory,
                                  const std::string& name) {
  return notify(session, directory, name.c_str(), name.size());
}

template <class Flags>
int expire_entry(ExpireEntryOfFlags<Flags> notify, fuse_session* session, fuse_ino_t directory,
                 const std::string& name) {
  constexpr auto kExpireOnly = static_cast<Flags>(1);  // FUSE_LL_EXPIRE_ONLY
  return notify(session, directory, name.c_str(), name.size(), kExpireOnly);
}

}  // namespace

Invalidator::Invalidator(InodeTable& inodes, size_t max_nodes) : inodes_(inodes), queue_(max_nodes) {}

Invalidator::~Invalidator() {
  disable();
  join();
}

void Invalidator::start(fuse_session* session) {
  MutexLock lock(mutex_);
  session_ = session;
  enabled_ = true;
  begin_thread();
  name_thread_ = std::thread([this] { send_names(); });
  ++running_;
  pthread_setname_np(name_thread_.native_handle(), "fuse-names");
}

void Invalidator::disable() {
  // The NodeRefs are released, and the waiters resumed, after the lock is released.
  std::vector<Notice> notices;
  std::set<Name, NameOrder> names;
  {
    MutexLock lock(mutex_);
    enabled_ = false;
    stop_ = true;
    notices = queue_.clear();
    names.swap(names_);
    for (auto* wait : {&notices_wait_, &names_wait_, &moment_}) wait->notify_all();
  }
  for (const Notice& notice : notices) tell(notice.waiting);
}

bool Invalidator::idle() const {
  MutexLock lock(mutex_);
  return running_ == 0;
}

void Invalidator::join() {
  Threads threads;
  {
    MutexLock lock(mutex_);
    threads.swap(node_threads_);
    threads.push_back(std::move(ended_thread_));
    threads.push_back(std::move(name_thread_));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

bool Invalidator::enqueue(NodeRef node, bool data, Done done) {
  if (!node || !inodes_.known(node)) return false;
  std::vector<Notice> merged;
  MutexLock lock(mutex_);
  if (!enabled_) return false;
  merged = queue_.ask(std::move(node), data, std::move(done));
  if (queue_.ready()) notices_wait_.notify_one();
  return true;
}

Task<> Invalidator::drop_data(NodeRef node) {
  auto done = std::make_shared<Completion<bool>>();
  if (!enqueue(std::move(node), true, done)) co_return;
  auto told = done->wait();
  co_await told;
}

void Invalidator::invalidate_entry(NodeRef directory, std::string name) {
  if (!directory || !inodes_.known(directory)) return;
  MutexLock lock(mutex_);
  if (!enabled_) return;
  if (!names_.emplace(std::move(directory), std::move(name)).second) ++of_names_.merged;
  names_wait_.notify_one();
}

void Invalidator::send_nodes(Threads::iterator self) {
  Lock lock(mutex_);
  while (await_notice(lock)) {
    if (queue_.take_flood()) gather_everything(lock);
    auto notice = queue_.take();
    if (!notice) continue;
    --idle_;
    have_one_stand_by();
    if (queue_.ready()) notices_wait_.notify_one();
    lock.unlock();
    send(*std::move(notice));
    lock.lock();
    ++idle_;
  }
  end_thread(lock, self);
}

// False when the thread must end.
bool Invalidator::await_notice(Lock& lock) {
  for (;;) {
    const TimePoint until = Clock::now() + kSpareFor;
    const bool spare = idle_ > kSpareThreads;
    while (!stop_ && !queue_.ready()) {
      if (!spare) {
        notices_wait_.wait(lock);
      } else if (!notices_wait_.wait_until(lock, until)) {
        break;
      }
    }
    if (spare && !stop_ && !queue_.ready() && idle_ > kSpareThreads) return false;
    stand_by(lock);
    if (stop_) return false;
    if (queue_.ready()) return true;
  }
}

// Usually the other threads are in the kernel only briefly. So the last thread outside of it takes a notice,
// and then starts a further thread, only if the others have taken none for kMoment.
void Invalidator::stand_by(Lock& lock) {
  while (!stop_ && queue_.ready() && idle_ == 1 && node_threads_.size() > 1) {
    const uint64_t before = queue_.numbers().sent;
    moment_.wait_until(lock, Clock::now() + kMoment);
    if (queue_.numbers().sent == before) return;
  }
}

void Invalidator::gather_everything(Lock& lock) {
  lock.unlock();
  std::vector<NodeRef> everything = inodes_.snapshot();
  lock.lock();
  if (!stop_) return queue_.set_rest(std::move(everything));
  lock.unlock();
  everything.clear();
  lock.lock();
}

void Invalidator::begin_thread() {
  const auto self = node_threads_.emplace(node_threads_.end());
  try {
    *self = std::thread([this, self] { send_nodes(self); });
  } catch (...) {
    node_threads_.erase(self);
    throw;
  }
  pthread_setname_np(self->native_handle(), "fuse-invalidate");
  ++running_;
  ++idle_;
}

void Invalidator::have_one_stand_by() {
  if (idle_ != 0 || node_threads_.size() >= kMaxThreads) return;
  try {
    begin_thread();
  } catch (const std::system_error&) {
    // No thread can be started now; the next notice tries again.
  }
}

void Invalidator::end_thread(Lock& lock, Threads::iterator self) {
  std::thread before;
  if (!stop_) {  // otherwise join() has taken all threads
    before = std::exchange(ended_thread_, std::move(*self));
    node_threads_.erase(self);
  }
  --idle_;
  --running_;
  lock.unlock();
  if (before.joinable()) before.join();
}

void Invalidator::send_names() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stop_ && names_.empty()) names_wait_.wait(lock);
    if (stop_) break;
    {
      const auto name = names_.extract(names_.begin());
      ++of_names_.sent;
      lock.unlock();
      send(name.value());
    }  // releases the NodeRef without the lock
    lock.lock();
  }
  --running_;
}

void Invalidator::send(Notice notice) {
  check(fuse_lowlevel_notify_inval_inode(session_, inodes_.id(notice.node), notice.data ? 0 : -1, 0));
  inodes_.size_doubts().begin(*notice.node.get(), Clock::now());
  {
    MutexLock lock(mutex_);
    queue_.told(notice.node.get());
  }
  tell(notice.waiting);
}

void Invalidator::tell(const std::vector<Done>& waiting) {
  for (const Done& done : waiting) done->set(true);
}

void Invalidator::send(const Name& name) {
  // The kernel looks up an expired name before it uses it again. A dropped name detaches what is in use below
  // it: getcwd(2) of a process there fails. Before Linux 6.2 names can only be dropped.
  const auto directory = inodes_.id(name.first);
  const std::string& text = name.second;
  const int expired = expire_entry(&fuse_lowlevel_notify_expire_entry, session_, directory, text);
  check(expired == -ENOSYS ? fuse_lowlevel_notify_inval_entry(session_, directory, text.c_str(), text.size())
                           : expired);
}

void Invalidator::check(int result) {
  // ENOENT: not in the kernel's caches. ENODEV, ENOTCONN, EPERM: the mount is ending.
  if (result == 0 || result == -ENOENT || result == -ENODEV || result == -ENOTCONN || result == -EPERM)
    return;
  log::debug("fuse: kernel cache invalidation: {}", strerrordesc_np(-result));
}

Invalidator::Numbers Invalidator::numbers() const {
  MutexLock lock(mutex_);
  Numbers all = queue_.numbers();
  all.sent += of_names_.sent;
  all.merged += of_names_.merged;
  return all;
}

}  // namespace nfsrdma::fuse
