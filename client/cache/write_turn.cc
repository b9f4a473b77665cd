#include "client/cache/write_turn.h"

#include <algorithm>

namespace nfsrdma::client {

WriteTurn::WriteTurn(CachedFileRef file, uint64_t offset, uint64_t end)
    : file_(std::move(file)), offset_(offset), end_(end) {}

void WriteTurn::begin() {
  if (!waiting_) place_ = file_->turns.insert(file_->turns.end(), this);
  waiting_ = true;
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
  waiting_ = false;
  file_->written.notify_all();
}

}  // namespace nfsrdma::client
