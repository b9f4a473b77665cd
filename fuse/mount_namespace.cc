// SPDX-License-Identifier: Apache-2.0
#include "fuse/mount_namespace.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "transport/runtime/mutex.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::fuse {

class MountNamespace::Thread {
 public:
  explicit Thread(int ns) : thread_([this, ns] { main(ns); }) {
    pthread_setname_np(thread_.native_handle(), "mount-namespace");
    run([] {});  // waits until the thread has entered the namespace
  }
  ~Thread() {
    {
      MutexLock lock(mutex_);
      end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  int error() const { return error_; }
  pid_t tid() const { return tid_; }

  void run(const std::function<void()>& work) {
    MutexLock lock(mutex_);
    while (work_ != nullptr) changed_.wait(lock);
    work_ = &work;
    changed_.notify_all();
    while (work_ == &work) changed_.wait(lock);
  }

 private:
  void main(int ns) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    tid_ = gettid();
    // setns(2): "a process can't join a new mount namespace if it is sharing filesystem-related attributes".
    if (unshare(CLONE_FS) != 0 || setns(ns, CLONE_NEWNS) != 0) error_ = errno;
    MutexLock lock(mutex_);
    while (true) {
      while (!end_ && work_ == nullptr) changed_.wait(lock);
      if (end_) return;
      const std::function<void()>& work = *work_;
      lock.unlock();
      work();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  Mutex mutex_;
  ConditionVariable changed_;
  const std::function<void()>* work_ NFSRDMA_GUARDED_BY(mutex_) = nullptr;
  bool end_ NFSRDMA_GUARDED_BY(mutex_) = false;
  // Fixed when the first run() has returned.
  int error_ = 0;
  pid_t tid_ = 0;
  std::thread thread_;  // last: it uses the members above
};

MountNamespace::MountNamespace(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
MountNamespace::~MountNamespace() = default;

std::shared_ptr<const MountNamespace> MountNamespace::ours() {
  return std::shared_ptr<const MountNamespace>(new MountNamespace(nullptr));
}

Result<std::shared_ptr<const MountNamespace>> MountNamespace::enter(const Fd& ns) {
  auto thread = std::make_unique<Thread>(ns.get());
  if (thread->error() != 0) return fail(system_error(thread->error(), "setns"));
  return std::shared_ptr<const MountNamespace>(new MountNamespace(std::move(thread)));
}

void MountNamespace::run_inside(const std::function<void()>& work) const {
  if (thread_ == nullptr) return work();
  thread_->run(work);
}

std::string MountNamespace::mountinfo() const {
  const std::string of =
      thread_ ? std::to_string(getpid()) + "/task/" + std::to_string(thread_->tid()) : "self";
  return Proc::ours().read(of + "/mountinfo");
}

}  // namespace nfsrdma::fuse
