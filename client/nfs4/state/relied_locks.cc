// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/relied_locks.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

bool counts(const LockState& lock) {
  return !lock.ranges.empty() || lock.lost;
}

// The processes with locks on the file, of which `thread` may be a thread. Locks that were taken through
// `handle` are left out: the I/O relies on them in any case. The list ends at kFewLockers + 1 entries,
// because process_among() then looks up the thread's process instead. Empty if nothing need be looked up: the
// thread is not known (0), or it is the main thread of such a process, whose ID it has. The Node mutex is
// held.
std::vector<uint32_t> lockers_to_ask(const Nfs4File& handle, uint32_t thread) {
  std::vector<uint32_t> lockers;
  if (thread == 0) return lockers;
  for (const OpenStateRef& open : handle.file->opens) {
    for (const LockState& lock : open->locks) {
      if (lock.pid == 0 || !counts(lock)) continue;
      if (lock.pid == thread) return {};
      if (lockers.size() > kFewLockers || asked_through(lock, handle)) continue;
      if (std::ranges::find(lockers, lock.pid) == lockers.end()) lockers.push_back(lock.pid);
    }
  }
  return lockers;
}

uint32_t process_among(const std::vector<uint32_t>& lockers, uint32_t thread, const ThreadGroups& groups) {
  if (lockers.size() > kFewLockers) return groups.process_of(thread);
  const auto his = std::ranges::find_if(lockers, [&](uint32_t p) { return groups.has(p, thread); });
  return his == lockers.end() ? 0 : *his;
}

// The Node mutex is held. `process`: the thread's process. It is 0, or the thread's own number, if the result
// does not depend on a process that holds locks.
std::vector<std::string> owners(const Nfs4File& handle, uint32_t thread, uint32_t process) {
  std::vector<std::string> all;
  for (const OpenStateRef& open : handle.file->opens) {
    for (const LockState& lock : open->locks) {
      if (!counts(lock)) continue;
      const bool his = thread == 0 ? lock.lost : process != 0 && lock.pid == process;
      if (his || asked_through(lock, handle)) all.push_back(lock.owner);
    }
  }
  return all;
}

}  // namespace

std::vector<std::string> locks_relied_on(const Nfs4File& handle, uint32_t thread,
                                         const ThreadGroups& groups) {
  MutexLock lock(handle.file->node.mutex);
  const std::vector<uint32_t> lockers = lockers_to_ask(handle, thread);
  if (lockers.empty()) return owners(handle, thread, thread);
  lock.unlock();
  // A lock that is taken meanwhile was not held when this I/O began.
  const uint32_t process = process_among(lockers, thread, groups);
  lock.lock();
  return owners(handle, thread, process);
}

}  // namespace nfsrdma::client::nfs4
