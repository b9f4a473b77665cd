#include "client/cache/attribute_cache.h"

#include <algorithm>

namespace nfsrdma::client {

AttributeCache::Update AttributeCache::update(const Attributes& attributes, uint64_t started,
                                              uint64_t arrived, TimePoint now, Limits limits) {
  const bool first = !known();
  const bool changed = !first && attributes.change != attributes_.change;
  const bool together = !first && started < arrived_;
  if (together && attributes.change <= attributes_.change) {
    if (changed) expires_ = TimePoint::min();
    // A server's clock may tick once for several WRITEs: the one that was executed last left the larger file.
    if (!changed && attributes.size > attributes_.size) {
      attributes_.size = attributes.size;
      expires_ = TimePoint::min();
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
