#include "client/cache/attribute_cache.h"

#include <algorithm>

namespace nfsrdma::client {

AttributeCache::Update AttributeCache::update(const Attributes& attributes, uint64_t started, TimePoint now,
                                              Limits limits) {
  const bool changed = known_ && attributes.change != attributes_.change;
  if (known_ && started < started_ && attributes.change <= attributes_.change) return Update::kIgnored;
  if (!known_ || changed) {
    timeout_ = limits.min;
  } else if (now >= expires_) {
    timeout_ = std::min(std::max(timeout_ * 2, limits.min), limits.max);
  }
  const Update result = !known_ ? Update::kFirst : changed ? Update::kChanged : Update::kUnchanged;
  attributes_ = attributes;
  expires_ = now + timeout_;
  started_ = std::max(started_, started);
  known_ = true;
  return result;
}

}  // namespace nfsrdma::client
