// SPDX-License-Identifier: Apache-2.0
// CredentialCache: the AUTH_SYS identity that a request is made with.
//
// With per-caller credentials (the daemon runs as root, allow_other) the identity is the uid, gid and
// supplementary groups of the calling thread. Otherwise it is always the daemon's own. Groups come from /proc
// and are cached for kLifetime per (thread, uid, gid). They are read each time for a thread that may change
// them, so that test programs and daemons that switch identities within one process get what they set. In a
// user namespace the kernel reports inner IDs; credentials hold the outer ones (UserIds).
//
// Operations on an open file use the credential of the open, as the kernel's NFS client does: a page that the
// kernel writes back has no caller at all, and a process may have dropped privileges since.
//
// Callers with the same identity share one Credential object. Any thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/user_ids.h"

namespace nfsrdma::fuse {

struct Caller {
  uint32_t uid = 0;
  uint32_t gid = 0;
  pid_t tid = 0;  // 0: none, or not visible in our PID namespace
  bool operator==(const Caller&) const = default;
};

class CredentialCache {
 public:
  static constexpr std::chrono::seconds kLifetime{1};
  static constexpr size_t kMaxCallers = 4096;
  static constexpr size_t kMaxIdentities = 1024;

  CredentialCache(std::string machine, bool per_caller, UserIds ids = UserIds::of_this_process());

  rpc::CredentialPtr get(const Caller& caller);
  const rpc::CredentialPtr& own() const { return own_; }

 private:
  struct CallerHash {
    size_t operator()(const Caller& c) const {
      return std::hash<uint64_t>()((uint64_t{c.uid} << 32 | c.gid) * 0x9E3779B97F4A7C15u ^
                                   static_cast<uint64_t>(c.tid));
    }
  };
  struct Known {
    rpc::CredentialPtr credential;
    TimePoint expires;
  };
  using Identity = std::tuple<uint32_t, uint32_t, std::vector<uint32_t>>;

  rpc::CredentialPtr shared(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups)
      NFSRDMA_REQUIRES(mutex_);

  const UserIds ids_;
  const std::string machine_;
  const bool per_caller_;
  rpc::CredentialPtr own_;
  Mutex mutex_;
  std::unordered_map<Caller, Known, CallerHash> callers_ NFSRDMA_GUARDED_BY(mutex_);
  std::map<Identity, rpc::CredentialPtr> identities_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::fuse
