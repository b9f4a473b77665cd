// SPDX-License-Identifier: Apache-2.0
#include "cli/server/retry.h"

#include <algorithm>
#include <cstring>

namespace nfsrdma::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLongestPause{30};
// An attempt may take timeo * (retrans + 1): with the defaults 3 minutes, as in nfs(5), retry ("For TCP the
// default is 3 minutes"). The transport limits connecting to an address to 10 seconds, so this time is for a
// server that accepts and is silent. If timeo is tiny, an attempt may take kShortestAttempt.
constexpr seconds kShortestAttempt{30};
// Time for the child to report why it gives up.
constexpr seconds kGrace{5};

}  // namespace

milliseconds longest_attempt(const MountOptions& options) {
  return std::max<milliseconds>(options.timeo * (int64_t{options.retrans} + 1), kShortestAttempt);
}

RetryPolicy::RetryPolicy(const MountOptions& options, Clock::time_point start)
    : background_(options.background),
      version_3_(options.major_version == 3),
      once_(options.retry_time() == milliseconds(0)),
      deadline_(start + (once_ ? longest_attempt(options) : options.retry_time())) {}

bool RetryPolicy::is_passing(const Error& error) const {
  switch (error.recovery) {
    case Recovery::kPermanent:
      // At boot the name service may start later than a bg mount, and a server's NFS later than its
      // portmapper. (On the ladder the error of another rung is more useful.)
      return (background_ && std::strcmp(error.op, "resolve") == 0) ||
             (version_3_ && std::strcmp(error.op, "portmap") == 0);
    case Recovery::kInterrupted: return false;
    default: return true;
  }
}

std::optional<milliseconds> RetryPolicy::after_failure(const Error& error, Clock::time_point now) {
  if (once_ || !is_passing(error) || now >= deadline_) return std::nullopt;
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - now);
  const milliseconds wait = std::min<milliseconds>(next_wait_, left);
  next_wait_ = std::min(next_wait_ * 2, kLongestPause);
  return wait;
}

milliseconds longest_wait(const MountOptions& options) {
  if (options.background) return longest_attempt(options) + kGrace;
  const auto start = RetryPolicy::Clock::time_point();
  return std::chrono::ceil<milliseconds>(RetryPolicy(options, start).deadline() - start) + kGrace;
}

}  // namespace nfsrdma::cli
