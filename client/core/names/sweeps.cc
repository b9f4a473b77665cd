// SPDX-License-Identifier: Apache-2.0
#include "client/core/names/sweeps.h"

#include <algorithm>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

Sweeps::Places::iterator Sweeps::place(const Node& directory) {
  return std::find_if(places_.begin(), places_.end(),
                      [&](const Place& p) { return p.directory == &directory; });
}

void Sweeps::drop_waiting(Sweep& sweep) {
  waiting_ -= sweep.waiting_.size();
  sweep.waiting_.clear();
}

void Sweeps::erase(Places::iterator at) {
  drop_waiting(*at->sweep);
  places_.erase(at);
}

SweepRef Sweeps::asked(const Node& directory, TimePoint now, Duration window) {
  SweepRef sweep = at(directory, now, window);
  sweep->earn();
  return sweep;
}

SweepRef Sweeps::at(const Node& directory, TimePoint now, Duration window) {
  MutexLock lock(mutex_);
  auto at = place(directory);
  if (at != places_.end() && now - at->sweep->used_ > window) {
    erase(at);
    at = places_.end();
  }
  if (at == places_.end()) {
    if (places_.size() == kMost) erase(places_.end() - 1);
    at = places_.insert(places_.end(), Place{&directory, std::make_shared<Sweep>()});
  }
  std::rotate(places_.begin(), at, at + 1);
  places_.front().sweep->used_ = now;
  return places_.front().sweep;
}

SweepRef Sweeps::find(const Node& directory, TimePoint now, Duration window) {
  MutexLock lock(mutex_);
  const auto at = place(directory);
  return at == places_.end() || now - at->sweep->used_ > window ? nullptr : at->sweep;
}

void Sweeps::forget(const Node& directory) {
  MutexLock lock(mutex_);
  if (const auto at = place(directory); at != places_.end()) erase(at);
}

void Sweeps::keep(const Node& directory, std::vector<ListedEntry> entries, const NameBelief& belief) {
  MutexLock lock(mutex_);
  const auto at = place(directory);
  if (at == places_.end()) return;
  for (auto last = places_.rbegin(); waiting_ + entries.size() > kMostWaiting && last != places_.rend();
       ++last)
    drop_waiting(*last->sweep);
  Sweep::WaitingByName& kept = at->sweep->waiting_;
  const size_t before = kept.size();
  for (ListedEntry& entry : entries) {
    std::string name = std::move(entry.name);
    kept.insert_or_assign(std::move(name), WaitingEntry{std::move(entry), belief});
  }
  waiting_ += kept.size() - before;
}

std::optional<WaitingEntry> Sweeps::take(const Node& directory, std::string_view name) {
  if (waiting_ == 0) return std::nullopt;
  MutexLock lock(mutex_);
  const auto at = place(directory);
  if (at == places_.end()) return std::nullopt;
  Sweep::WaitingByName& kept = at->sweep->waiting_;
  const auto found = kept.find(name);
  if (found == kept.end()) return std::nullopt;
  std::optional<WaitingEntry> taken(std::move(found->second));
  kept.erase(found);
  --waiting_;
  return taken;
}

void Sweeps::drop_old(TimePoint now, Duration window) {
  MutexLock lock(mutex_);
  std::erase_if(places_, [&](const Place& p) NFSRDMA_REQUIRES(mutex_) {
    const bool old = now - p.sweep->used_ > window;
    if (old) drop_waiting(*p.sweep);
    return old;
  });
}

}  // namespace nfsrdma::client
