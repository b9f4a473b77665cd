#include "client/cache/read_pace.h"

#include <algorithm>

namespace nfsrdma::client {
namespace {

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

void ReadPace::turn(TimePoint now) const {
  if (now - since_ < kMemory) return;
  before_ = now - since_ < 2 * kMemory ? now_ : Period{};
  now_ = {};
  since_ = now;
}

ReadPace::Sent ReadPace::sending(TimePoint now) const {
  std::lock_guard lock(mutex_);
  return {now, delivered_};
}

void ReadPace::answered(const Sent& sent, uint64_t bytes, TimePoint now) {
  const Duration took = std::max<Duration>(now - sent.at, std::chrono::microseconds(1));
  std::lock_guard lock(mutex_);
  turn(now);
  delivered_ += bytes;
  now_.delay = std::min(now_.delay, took);
  now_.wait = std::min<Duration>(now_.wait, took - std::chrono::nanoseconds(bytes * kLocalNanoseconds));
  now_.rate = std::max(now_.rate, static_cast<double>(delivered_ - sent.delivered) / seconds(took));
}

uint64_t ReadPace::window(TimePoint now) const {
  std::lock_guard lock(mutex_);
  turn(now);
  const Duration delay = std::min(now_.delay, before_.delay);
  if (delay == Duration::max() || std::min(now_.wait, before_.wait) < kWorthwhile) return 0;
  return static_cast<uint64_t>(2 * std::max(now_.rate, before_.rate) * seconds(delay));
}

}  // namespace nfsrdma::client
