// SPDX-License-Identifier: Apache-2.0
// CallerInspector: what the signals of those callers ask for who may not be waiting in their request.
//
// Whoever reads /proc/<tid> holds that thread's memory for a moment. If its process is killed just then, it
// is the reader who takes the memory down, and the kernel makes him wait, beyond any signal, until
// asynchronous I/O from it has been answered and its mappings are written back; both may be ours to answer. A
// loop would wait for itself, so a thread of its own reads: the loops go on answering, which frees it. (While
// the filer is silent it may so be stuck, and others' killed background requests wait with it.) A caller who
// waits in his request keeps his memory until the answer: him a loop may look at itself.
//
// Owner: Adaptor; FuseMount starts and ends it. Any thread. One thread inside.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fuse/thread_status.h"

namespace nfsrdma::fuse {

class CallerInspector {
 public:
  using Intents = std::unordered_map<pid_t, SignalIntent>;
  using Done = std::function<void(const Intents&)>;

  // `look` for tests.
  explicit CallerInspector(std::function<SignalIntent(pid_t)> look = look_into_proc);
  ~CallerInspector();
  CallerInspector(const CallerInspector&) = delete;
  CallerInspector& operator=(const CallerInspector&) = delete;

  void start();
  // `done` is called on the inspector's thread, unless stop() comes first.
  void ask(std::vector<pid_t> callers, Done done);
  // Drops what was asked. The thread may still be in the kernel.
  void stop();
  // Blocks until the thread is out of the kernel: for the mount's part, when its requests have been answered
  // or its connection has ended.
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
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Question> questions_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nfsrdma::fuse
