// SPDX-License-Identifier: Apache-2.0
#include "fuse/caller_inspector.h"

#include <pthread.h>

#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

CallerInspector::CallerInspector(std::function<SignalIntent(pid_t)> look) : look_(std::move(look)) {}

CallerInspector::~CallerInspector() {
  stop();
  join();
}

void CallerInspector::start() {
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "fuse-callers");
}

void CallerInspector::ask(std::vector<pid_t> callers, Done done) {
  MutexLock lock(mutex_);
  if (stop_) return;
  questions_.push_back({std::move(callers), std::move(done)});
  wake_.notify_one();
}

void CallerInspector::stop() {
  std::deque<Question> dropped;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  stop_ = true;
  dropped.swap(questions_);
  wake_.notify_one();
}

void CallerInspector::join() {
  if (thread_.joinable()) thread_.join();
}

void CallerInspector::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stop_ && questions_.empty()) wake_.wait(lock);
    if (stop_) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    look_at(question);
    lock.lock();
  }
}

void CallerInspector::look_at(const Question& question) const {
  Intents intents;
  for (const pid_t tid : question.callers) {
    if (!intents.contains(tid)) intents.emplace(tid, look_(tid));
  }
  question.done(intents);
}

SignalIntent CallerInspector::look_into_proc(pid_t tid) {
  const auto status = read_thread_status(tid);
  // A thread that is gone may have left its process data to write, so its request goes on.
  if (!status) return SignalIntent::kNone;
  return is_exiting(tid) ? SignalIntent::kFatal : signal_intent(*status);
}

}  // namespace nfsrdma::fuse
