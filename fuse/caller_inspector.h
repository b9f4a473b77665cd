// SPDX-License-Identifier: Apache-2.0
// CallerInspector: reads the signals of callers that may not be waiting in their request, on a thread of its
// own.
//
// A read of /proc/<tid> holds a reference to that thread's memory. If the process is killed in that moment,
// the reader is the last holder and tears the memory down. The kernel then makes the reader wait, in a way
// that no signal ends, until the process's asynchronous I/O is answered and its mappings are written back. We
// may have to answer both, so a loop that reads /proc could wait for itself. A separate thread reads instead,
// and the loops go on answering, which ends that thread's wait. (While the server is silent this thread may
// be stuck, and other killed background requests wait with it.) A caller that waits in its request keeps its
// memory until the answer; a loop may read the signals of such a caller directly.
//
// Owner: Adaptor; FuseMount starts and ends it. Any thread. It runs one thread.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fuse/thread_status.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

class CallerInspector {
 public:
  using Intents = std::unordered_map<pid_t, SignalIntent>;
  using Done = std::function<void(const Intents&)>;

  // `look` reads the signals of a thread; tests pass their own.
  explicit CallerInspector(std::function<SignalIntent(pid_t)> look = look_into_proc);
  ~CallerInspector();
  CallerInspector(const CallerInspector&) = delete;
  CallerInspector& operator=(const CallerInspector&) = delete;

  void start();
  // Calls `done` on the inspector's thread, or never if stop() comes first.
  void ask(std::vector<pid_t> callers, Done done);
  // Drops the queued questions. The thread may still be in the kernel.
  void stop();
  // Blocks until the thread has left the kernel. Call it when the mount's requests have been answered or its
  // connection has ended.
  void join();

 private:
  struct Question {
    std::vector<pid_t> callers;
    Done done;
  };

  static SignalIntent look_into_proc(pid_t tid);
  void run();
  void look_at(const Question& question) const;

  const std::function<SignalIntent(pid_t)> look_;
  Mutex mutex_;
  ConditionVariable wake_;
  std::deque<Question> questions_ NFSRDMA_GUARDED_BY(mutex_);
  bool stop_ NFSRDMA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace nfsrdma::fuse
