// SPDX-License-Identifier: Apache-2.0
// RetryPolicy: how long, how often and after which failures the mount command tries again (nfs(5), retry, fg,
// bg).
//
// A failure that the server's state or the network's may end (no answer, refused, unreachable, in grace) is
// passing; an answer is not (no such export, access denied, no common version), but for vers=3 and a port
// mapper that does not know of NFS yet. Attempts are repeated after
// 1, 2, 4... 30 seconds until `retry` is over, and an attempt that is under way then is cut off. retry=0
// means one attempt, which may take as long as its connection does. Pure; time comes from the caller.
#pragma once

#include <chrono>
#include <optional>

#include "cli/mount_options.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

class RetryPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  RetryPolicy(const MountOptions& options, Clock::time_point start);

  // How long to wait before the next attempt; nothing when it is over.
  std::optional<std::chrono::milliseconds> after_failure(const Error& error, Clock::time_point now);
  // When an attempt that has no answer yet is to be given up.
  Clock::time_point deadline() const { return deadline_; }

  bool is_passing(const Error& error) const;

 private:
  bool background_;
  bool version_3_;
  bool once_;
  Clock::time_point deadline_;
  std::chrono::seconds next_wait_{1};
};

// What one attempt may take where nothing else limits it: the only one of retry=0, and the first one of bg.
std::chrono::milliseconds longest_attempt(const MountOptions& options);

// What the parent of the mounting process waits: until the last attempt, or with bg the first one, must have
// ended.
std::chrono::milliseconds longest_wait(const MountOptions& options);

}  // namespace nfsrdma::cli
