// SPDX-License-Identifier: Apache-2.0
#include "client/core/read/read_pace.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

using namespace std::chrono_literals;

// Length of a probe, in delays: a window of two round trips leaves a queue of one.
constexpr int kProbeDelays = 4;
constexpr Duration kShortestProbe = 100ms, kLongestProbe = 2s;

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

void ReadPace::begin_period(TimePoint now) const {
  if (now - since_ < kMemory) return;
  const bool idle = now - since_ >= 2 * kMemory;
  before_ = idle ? Period{} : now_;
  now_ = {};
  since_ = now;
  if (!idle) return;
  delay_ = Duration::max();
  empty_at_ = now;
  probe_at_ = now + kProbeEach;
  probe_until_ = {};
}

bool ReadPace::probing(TimePoint now) const {
  if (probe_until_ != TimePoint{} && now >= probe_until_) {
    if (probed_ != Duration::max()) delay_ = probed_;
    probe_until_ = {};
    probe_at_ = now + kProbeEach;
  } else if (probe_until_ == TimePoint{} && now >= probe_at_ && delay_ != Duration::max()) {
    probed_ = Duration::max();
    probe_until_ = now + std::clamp<Duration>(kProbeDelays * delay_, kShortestProbe, kLongestProbe);
  }
  return probe_until_ != TimePoint{};
}

ReadPace::Sent ReadPace::sending(TimePoint now) const {
  MutexLock lock(mutex_);
  begin_period(now);
  return {now, delivered_};
}

void ReadPace::answered(const Sent& sent, uint64_t bytes, TimePoint now) {
  const Duration took = std::max<Duration>(now - sent.at, 1us);
  const Duration waited = took - std::chrono::nanoseconds(bytes * kLocalNanoseconds);
  MutexLock lock(mutex_);
  begin_period(now);
  delivered_ += bytes;
  if (probing(now)) probed_ = std::min(probed_, took);
  if (sent.at >= empty_at_) delay_ = std::min(delay_, took);
  now_.wait = std::min(now_.wait, waited);
  now_.rate = std::max(now_.rate, static_cast<double>(delivered_ - sent.delivered) / seconds(took));
}

uint64_t ReadPace::window(TimePoint now) const {
  MutexLock lock(mutex_);
  begin_period(now);
  const double worth = probing(now) ? 0.5 : 2;  // round trips
  if (delay_ == Duration::max() || std::min(now_.wait, before_.wait) < kWorthwhile) return 0;
  return static_cast<uint64_t>(worth * std::max(now_.rate, before_.rate) * seconds(delay_));
}

}  // namespace nfsrdma::client
