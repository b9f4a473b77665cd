// SPDX-License-Identifier: Apache-2.0
// RetryPolicy: when and how long the mount command tries again, and after which failures (nfs(5), retry, fg,
// bg).
//
// A failure is passing if the state of the server or the network may change: no answer, refused, unreachable,
// in grace. An answer is permanent (no such export, access denied, no common version). The exceptions are
// vers=3 with a portmapper that does not know NFS yet, and bg with a host name that does not resolve yet.
// Attempts are repeated after 1, 2, 4... 30 seconds until the time of `retry` is over; an attempt in progress
// is then cut off. retry=0 means one attempt, limited by longest_attempt(). Pure; the caller provides the
// time.
#pragma once

#include <chrono>
#include <optional>

#include "cli/options/mount_options.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

class RetryPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  RetryPolicy(const MountOptions& options, Clock::time_point start);

  // The wait before the next attempt; nothing if there is none.
  std::optional<std::chrono::milliseconds> after_failure(const Error& error, Clock::time_point now);
  // The time when an unanswered attempt must be given up.
  Clock::time_point deadline() const { return deadline_; }

  bool is_passing(const Error& error) const;

 private:
  bool background_;
  bool version_3_;
  bool once_;
  Clock::time_point deadline_;
  std::chrono::seconds next_wait_{1};
};

// The longest time for one attempt that has no other limit: the only one of retry=0, and the first one of bg.
std::chrono::milliseconds longest_attempt(const MountOptions& options);

// How long the parent of the mounting process waits: until the last attempt, or with bg the first one, must
// have ended.
std::chrono::milliseconds longest_wait(const MountOptions& options);

}  // namespace nfsrdma::cli
