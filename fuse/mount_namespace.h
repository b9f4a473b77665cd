// SPDX-License-Identifier: Apache-2.0
// MountNamespace: where the mount is made: in this process' mount namespace, or in another one (mount(8) -N).
//
// The other one's owner decides what is found there under any name: configuration, log, /proc, sockets. So
// the process stays where it is, and one thread of its own goes inside, for what only works there: resolving
// the mount point, mount(2), umount2(2). What is mounted there is read from our own /proc. Owner: main. Any
// thread may call run().
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transport/runtime/fd.h"
#include "xdr/support/result.h"

namespace nfsrdma::fuse {

class MountNamespace {
 public:
  static std::shared_ptr<const MountNamespace> ours();
  // `ns`: of a namespace file, /proc/PID/ns/mnt. Starts the thread. Errors: kSystem.
  static Result<std::shared_ptr<const MountNamespace>> enter(const Fd& ns);

  ~MountNamespace();
  MountNamespace(const MountNamespace&) = delete;
  MountNamespace& operator=(const MountNamespace&) = delete;

  bool foreign() const { return thread_ != nullptr; }

  // Runs `work` inside and waits for its end. It must open nothing that is trusted afterwards.
  template <class Work>
  auto run(const Work& work) const {
    std::optional<decltype(work())> result;
    run_inside([&] { result.emplace(work()); });
    return std::move(*result);
  }

  // The text of mountinfo(5) of the namespace; paths are seen from its root.
  std::string mountinfo() const;

 private:
  class Thread;
  explicit MountNamespace(std::unique_ptr<Thread> thread);
  void run_inside(const std::function<void()>& work) const;

  std::unique_ptr<Thread> thread_;  // none: in this process' own
};

}  // namespace nfsrdma::fuse
