// SPDX-License-Identifier: Apache-2.0
#include "client/core/nodes/handle_index.h"

#include <algorithm>
#include <utility>

#include "client/core/nodes/cached_node.h"

namespace nfsrdma::client {

CachedNode* HandleIndex::find(uint64_t hash, std::string_view handle) const {
  if (size_ == 0) return nullptr;
  for (size_t at = home(hash); places_[at].node != nullptr; at = next(at)) {
    if (places_[at].hash == hash && places_[at].node->handle() == handle) return places_[at].node;
  }
  return nullptr;
}

void HandleIndex::insert(uint64_t hash, CachedNode& node) {
  if (2 * (size_ + 1) > places_.size()) resize(2 * places_.size());
  put({hash, &node});
  ++size_;
}

bool HandleIndex::erase(uint64_t hash, const CachedNode& node) {
  if (size_ == 0) return false;
  size_t hole = home(hash);
  while (places_[hole].node != &node || places_[hole].hash != hash) {
    if (places_[hole].node == nullptr) return false;
    hole = next(hole);
  }
  // Entries that this one displaced move up, so that a search may end at the first free place.
  for (size_t at = next(hole); places_[at].node != nullptr; at = next(at)) {
    if (home(at - home(places_[at].hash)) < home(at - hole)) continue;  // it would precede its home
    places_[hole] = places_[at];
    hole = at;
  }
  places_[hole] = {};
  if (--size_ < places_.size() / 16 && places_.size() > kLeast) resize(places_.size() / 4);
  return true;
}

void HandleIndex::put(const Place& place) {
  size_t at = home(place.hash);
  while (places_[at].node != nullptr) at = next(at);
  places_[at] = place;
}

void HandleIndex::resize(size_t places) {
  const std::vector<Place> old = std::exchange(places_, std::vector<Place>(std::max(places, kLeast)));
  for (const Place& place : old) {
    if (place.node != nullptr) put(place);
  }
}

}  // namespace nfsrdma::client
