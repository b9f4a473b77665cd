// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/message_capture.h"

#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::cli {

void MessageCapture::stop() {
  turn(false);
  MutexLock lock(mutex_);
  kept_.clear();
  kept_bytes_ = 0;
  lost_ = 0;
}

void MessageCapture::message(const rpc::TappedMessage& about, ByteVector message) {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(about.at.time_since_epoch());
  MutexLock lock(mutex_);
  if (!on()) return;  // stop() was called meanwhile
  if (kept_bytes_ + message.size() > kMostBytes) {
    ++lost_;
    return;
  }
  kept_bytes_ += message.size();
  kept_.push_back({about.sent, since.count(), std::string(about.protocol), std::string(about.local),
                   std::string(about.peer), std::move(message)});
}

std::vector<CapturedMessage> MessageCapture::take(size_t most_bytes) {
  std::vector<CapturedMessage> taken;
  MutexLock lock(mutex_);
  for (size_t bytes = 0;
       !kept_.empty() && (taken.empty() || bytes + kept_.front().bytes.size() <= most_bytes);) {
    const size_t size = kept_.front().bytes.size();
    bytes += size;
    kept_bytes_ -= size;
    taken.push_back(std::move(kept_.front()));
    kept_.pop_front();
  }
  return taken;
}

uint64_t MessageCapture::take_lost() {
  MutexLock lock(mutex_);
  return std::exchange(lost_, 0);
}

}  // namespace nfsrdma::cli
