// SPDX-License-Identifier: Apache-2.0
// CallerThread: a thread that acts with the file system identity of a caller, and does nothing else.
//
// Only that thread's identity changes (setfsuid(2), setfsgid(2), the raw setgroups system call); with it go
// all capabilities, those that override permissions, quotas and the blocks that are kept for root among them.
// Where the way back fails the process ends: no thread goes on with somebody else's rights. It is not the
// thread of the server's loop: a thread that was somebody else is no longer let use an RDMA connection
// manager that it opened before ("changed security contexts after opening file descriptor"; Linux 6.1,
// 2026-11-23), though it is who it was again.
//
// Where the process may not take on identities, or the caller is root in root's group, the process acts as
// who it is, on the thread that asks. Owner: a HostStore; one call at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <semaphore>
#include <thread>

#include "filer/tree/principal.h"

namespace nfsrdma::filer {

class CallerThread {
 public:
  CallerThread() = default;
  ~CallerThread();
  CallerThread(const CallerThread&) = delete;
  CallerThread& operator=(const CallerThread&) = delete;

  // Whether the process may take on other identities: tried once, on the thread.
  bool can_impersonate();

  // Returns when `act` has; errno is not carried over. False: the identity could not be taken, and nothing
  // was done.
  bool act_as(const Principal& who, const std::function<void()>& act);

 private:
  void serve();

  std::thread thread_;  // of a process that is root
  std::binary_semaphore asked_{0};
  std::binary_semaphore answered_{0};
  bool can_ = false;  // known when the thread has first answered

  // The call under way. Without `act`: to end.
  const Principal* who_ = nullptr;
  const std::function<void()>* act_ = nullptr;
  bool ok_ = false;
};

}  // namespace nfsrdma::filer
