#include "client/cache/attribute_cache.h"

#include <algorithm>

namespace nfsrdma::client {

AttributeCache::Update AttributeCache::update(const Attributes& attributes, uint64_t started,
                                              uint64_t arrived, TimePoint now, Limits limits) {
  const bool changed = known_ && attributes.change != attributes_.change;
  const bool together = known_ && started < arrived_;
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
  if (!known_ || changed) {
    timeout_ = limits.min;
  } else if (now >= expires_) {
    timeout_ = std::min(std::max(timeout_ * 2, limits.min), limits.max);
  }
  const Update result = !known_ ? Update::kFirst : changed ? Update::kChanged : Update::kUnchanged;
  attributes_ = attributes;
  expires_ = started < expired_ || (together && changed) ? TimePoint::min() : now + timeout_;
  started_ = std::max(started_, started);
  arrived_ = std::max(arrived_, arrived);
  known_ = true;
  return result;
}

}  // namespace nfsrdma::client
