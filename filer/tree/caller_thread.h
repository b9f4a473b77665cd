// SPDX-License-Identifier: Apache-2.0
// CallerThread: a thread that runs system calls with the file system identity of a caller.
//
// Only this thread's identity changes (setfsuid(2), setfsgid(2), the raw setgroups system call). It also
// gives up all capabilities, including those that override permissions, quotas and the blocks reserved for
// root. If it cannot return to its own identity the process aborts, so that no thread continues with a
// caller's rights. It is a thread of its own because of RDMA: a thread that has changed its identity may not
// use an RDMA connection manager that it opened before, not even after changing back ("changed security
// contexts after opening file descriptor"; Linux 6.1, 2026-11-23).
//
// If the process may not change identities, or the caller is root in root's group, the call runs with the
// process's own identity, on the calling thread. A HostStore owns the object; one call at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <semaphore>
#include <thread>

#include "filer/tree/principal.h"

namespace nfsrdma::filer::tree {

class CallerThread {
 public:
  CallerThread() = default;
  ~CallerThread();
  CallerThread(const CallerThread&) = delete;
  CallerThread& operator=(const CallerThread&) = delete;

  // Whether the process may take other identities. Tried once, on the thread.
  bool can_impersonate();

  // Runs `act` and returns when it has finished; errno is not passed on. Returns false, without running
  // `act`, if the thread could not take the identity.
  bool act_as(const Principal& who, const std::function<void()>& act);

 private:
  void serve();

  std::thread thread_;  // started only if the process is root
  std::binary_semaphore asked_{0};
  std::binary_semaphore answered_{0};
  bool can_ = false;  // valid after the thread's first answer

  // The current call. `act_` null: the thread ends.
  const Principal* who_ = nullptr;
  const std::function<void()>* act_ = nullptr;
  bool ok_ = false;
};

}  // namespace nfsrdma::filer::tree
