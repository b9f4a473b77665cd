// SPDX-License-Identifier: Apache-2.0
#include "client/core/read/read_history.h"

#include <algorithm>

#include "client/core/read/read_ahead.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

ReadHistory::ReadHistory() = default;
ReadHistory::~ReadHistory() = default;

ReadHistory::UnderWay::UnderWay(ReadHistory& history, uint64_t offset, uint64_t size)
    : history_(history), size_(size) {
  MutexLock lock(history_.mutex_);
  if (!history_.pattern_) history_.pattern_ = std::make_unique<ReadPattern>();
  history_.pattern_->note(offset, size);
  history_.asked_ += size;
  history_.most_asked_ = std::max(history_.asked_, history_.most_asked_ - history_.most_asked_ / 16);
}

ReadHistory::UnderWay::~UnderWay() {
  MutexLock lock(history_.mutex_);
  history_.asked_ -= size_;
}

std::optional<ReadRange> ReadHistory::next(uint64_t window, uint64_t piece, uint64_t end) {
  MutexLock lock(mutex_);
  if (!pattern_ || window <= most_asked_) return std::nullopt;
  return pattern_->next(window, piece, end);
}

void ReadHistory::put_back(const ReadRange& rest) {
  MutexLock lock(mutex_);
  if (pattern_) pattern_->put_back(rest);
}

void ReadHistory::missed(uint64_t offset, uint64_t size) {
  MutexLock lock(mutex_);
  if (pattern_) pattern_->missed(offset, size);
}

bool ReadHistory::foretells() const {
  MutexLock lock(mutex_);
  return pattern_ && pattern_->kind() != ReadPattern::Kind::kNone;
}

}  // namespace nfsrdma::client
