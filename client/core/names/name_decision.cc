// SPDX-License-Identifier: Apache-2.0
#include "client/core/names/name_decision.h"

#include <algorithm>
#include <cerrno>

namespace nfsrdma::client {

bool follow_own_change(ContentState& contents, NamesState& names, uint64_t before, uint64_t after,
                       bool atomic) {
  if (!contents.are_of(before)) {
    contents.known = false;
    names.others_changed();
    return false;
  }
  contents.change = after;
  if (!atomic) names.uncertain = true;
  return true;
}

bool believes(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
              Duration acdirmax) {
  return directory.holds && directory.remaining > Duration::zero() &&
         (!directory.uncertain || now - belief.since < acdirmax);
}

Duration name_ttl(const DirectoryKnowledge& directory, const NameBelief& belief, TimePoint now,
                  Duration acdirmax, LookupCache lookupcache, bool free) {
  if (lookupcache == LookupCache::kNone || !free || !directory.holds) return Duration::zero();
  if (!directory.uncertain) return directory.remaining;
  return std::clamp<Duration>(belief.since + acdirmax - now, Duration::zero(), directory.remaining);
}

bool leaves_doubt(const Error& error, bool maybe_executed) {
  const int e = error.errnum;
  return maybe_executed || e == EEXIST || e == ENOENT || e == ENOTEMPTY;
}

}  // namespace nfsrdma::client
