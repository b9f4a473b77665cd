#include "client/cache/sweeps.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::client {

Sweeps::Place& Sweeps::place(const Node& directory) {
  auto at =
      std::find_if(places_.begin(), places_.end(), [&](const Place& p) { return p.directory == &directory; });
  if (at == places_.end()) {
    if (places_.size() == kMost) places_.pop_back();
    at = places_.insert(places_.end(), Place{&directory, nullptr});
  }
  std::rotate(places_.begin(), at, at + 1);
  return places_.front();
}

SweepRef Sweeps::missed(const Node& directory, TimePoint now, Duration window) {
  std::lock_guard lock(mutex_);
  SweepRef& sweep = place(directory).sweep;
  if (!sweep || now - sweep->since > window) {
    sweep = std::make_shared<Sweep>();
    sweep->since = now;
  }
  return ++sweep->misses >= Sweep::kFirst ? sweep : nullptr;
}

void Sweeps::put(const Node& directory, SweepRef sweep) {
  std::lock_guard lock(mutex_);
  place(directory).sweep = std::move(sweep);
}

void Sweeps::forget(const Node& directory) {
  std::lock_guard lock(mutex_);
  std::erase_if(places_, [&](const Place& p) { return p.directory == &directory; });
}

}  // namespace nfsrdma::client
