// SPDX-License-Identifier: Apache-2.0
// MountNamespace: the mount namespace in which the mount is made: this process's, or another one (mount(8)
// -N).
//
// The owner of another namespace controls everything in it: configuration, log, /proc, sockets. So the
// process stays in its own namespace. One thread enters the other one, for the steps that only work there:
// resolving the mount point, mount(2), umount2(2). The mount table of that namespace is read through our own
// /proc. Owner: main. Any thread may call run().
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
  // `ns`: an open namespace file, /proc/PID/ns/mnt. Starts the thread. Errors: kSystem.
  static Result<std::shared_ptr<const MountNamespace>> enter(const Fd& ns);

  ~MountNamespace();
  MountNamespace(const MountNamespace&) = delete;
  MountNamespace& operator=(const MountNamespace&) = delete;

  bool foreign() const { return thread_ != nullptr; }

  // Runs `work` inside the namespace and waits for its end. `work` must not open anything that is trusted
  // afterwards.
  template <class Work>
  auto run(const Work& work) const {
    std::optional<decltype(work())> result;
    run_inside([&] { result.emplace(work()); });
    return std::move(*result);
  }

  // The text of the namespace's mountinfo(5). Its paths are relative to that namespace's root.
  std::string mountinfo() const;

 private:
  class Thread;
  explicit MountNamespace(std::unique_ptr<Thread> thread);
  void run_inside(const std::function<void()>& work) const;

  std::unique_ptr<Thread> thread_;  // null: this process's own namespace
};

}  // namespace nfsrdma::fuse
