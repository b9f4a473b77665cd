// SPDX-License-Identifier: Apache-2.0
#include "client/core/attributes/attribute_cache.h"

#include <algorithm>

namespace nfsrdma::client {

AttributeCache::Update AttributeCache::update(const Attributes& attributes, uint64_t started,
                                              uint64_t arrived, TimePoint now, Limits limits) {
  const bool first = !known();
  const bool changed = !first && attributes.change != attributes_.change;
  const bool together = !first && started < arrived_;
  if (together && attributes.change <= attributes_.change) {
    // Several changes may share one tick of the server's clock, and so one change attribute. Among WRITEs,
    // the last one executed left the larger size. A truncation may have left the smaller one, so the
    // attributes are fetched again.
    const bool resized = attributes.size != attributes_.size;
    if (!changed && attributes.size > attributes_.size) attributes_.size = attributes.size;
    if (changed || resized) {
      expires_ = TimePoint::min();
      arrived_ = std::max(arrived_, arrived);  // replies that overlapped this one may be older, too
    }
    started_ = std::max(started_, started);
    return Update::kIgnored;
  }
  if (first || changed) {
    timeout_ = brief(limits.min);
  } else if (now >= expires_) {
    timeout_ = brief(std::min<Duration>(std::max<Duration>(2 * Duration(timeout_), limits.min), limits.max));
  }
  const Update result = first ? Update::kFirst : changed ? Update::kChanged : Update::kUnchanged;
  attributes_ = attributes;
  expires_ = started < expired_ || (together && changed) ? TimePoint::min() : now + timeout_;
  started_ = std::max(started_, started);
  arrived_ = std::max(arrived_, arrived);
  return result;
}

}  // namespace nfsrdma::client
