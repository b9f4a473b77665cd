// SPDX-License-Identifier: Apache-2.0
#include "client/cache/write_turn.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::client {

WriteTurn::WriteTurn(CachedFileRef file, uint64_t offset, uint64_t end)
    : file_(std::move(file)), offset_(offset), end_(end) {}

void WriteTurn::begin() {
  if (std::exchange(waiting_, true)) return;
  place_ = file_->turns.insert(file_->turns.end(), this);
  serial_ = file_->next_serial++;
  file_->under_way.insert(serial_);
}

bool WriteTurn::others_first() const {
  const std::list<const WriteTurn*>& turns = file_->turns;
  const std::list<const WriteTurn*>::const_iterator mine = waiting_ ? place_ : turns.end();
  return std::any_of(turns.begin(), mine,
                     [this](const WriteTurn* t) { return t->offset_ < end_ && offset_ < t->end_; });
}

void WriteTurn::end() {
  if (!waiting_) return;
  std::lock_guard lock(file_->cached.mutex);
  file_->turns.erase(place_);
  file_->no_longer_under_way(serial_);
  waiting_ = false;
  file_->written.notify_all();
}

}  // namespace nfsrdma::client
