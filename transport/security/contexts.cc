// SPDX-License-Identifier: Apache-2.0
#include "transport/security/contexts.h"

#include <algorithm>
#include <utility>

namespace nfsrdma::security {

std::shared_ptr<GssSecurity> Contexts::ready(uint32_t user) {
  const auto it = entries_.find(user);
  if (it == entries_.end() || !it->second.security) return nullptr;
  const TimePoint now = Clock::now();
  if (!it->second.security->usable(now)) return nullptr;
  it->second.used = now;
  return it->second.security;
}

// Makes room by forgetting whoever has not made a request for longest. Calls in progress keep their context.
Contexts::Entry& Contexts::entry(uint32_t user) {
  const auto it = entries_.find(user);
  if (it != entries_.end()) return it->second;
  if (entries_.size() >= kMostUsers) {
    auto oldest = entries_.end();
    for (auto i = entries_.begin(); i != entries_.end(); ++i) {
      if (i->second.busy[0] || i->second.busy[1]) continue;
      if (oldest == entries_.end() || i->second.used < oldest->second.used) oldest = i;
    }
    if (oldest != entries_.end()) {
      hide(oldest->first);
      entries_.erase(oldest);
    }
  }
  return entries_[user];
}

Task<Result<std::shared_ptr<GssSecurity>>> Contexts::get(uint32_t user, bool handshake) {
  for (;;) {
    if (std::shared_ptr<GssSecurity> there = ready(user)) co_return there;
    // Stays in place while it is busy.
    Entry& mine = entry(user);
    if (mine.refusal && Clock::now() < mine.refused_until) co_return fail(*mine.refusal);
    if (!mine.busy[handshake]) break;
    Completion<bool> ended;
    mine.waiting[handshake].push_back(&ended);
    (void)co_await ended.wait();
  }
  Entry& mine = entry(user);
  mine.busy[handshake] = true;
  mine.used = Clock::now();
  Establishing e{.transport = transport_,
                 .tokens = *tokens_,
                 .request = {.user = user, .host = options_.host},
                 .service = options_.service,
                 .program = options_.program,
                 .handshake = handshake};
  Task<Made> establishing = establish(std::move(e));
  Made made = co_await std::move(establishing);
  note(user, mine, made, handshake);
  co_return made;
}

// The entry may be gone when a waiter has been resumed.
void Contexts::note(uint32_t user, Entry& entry, const Made& made, bool handshake) {
  entry.busy[handshake] = false;
  if (made) {
    entry.security = *made;
    entry.refusal.reset();
    show({.user = user, .expires = (*made)->expires(), .refusal = {}});
  } else if (made.error().layer == Layer::kSecurity) {
    entry.refusal = made.error();
    entry.refused_until = Clock::now() + kRefusalKept;
    show({.user = user, .expires = {}, .refusal = made.error().cause});
  }
  Loop& loop = transport_.loop();
  for (Completion<bool>* waiter : std::exchange(entry.waiting[handshake], {}))
    loop.post([waiter] { waiter->set(true); });
}

void Contexts::refused(uint32_t user, const rpc::CallSecurity& security) {
  const auto it = entries_.find(user);
  if (it == entries_.end() || it->second.security.get() != &security) return;
  it->second.security.reset();
  hide(user);
}

void Contexts::show(Holder holder) {
  MutexLock lock(shown_mutex_);
  shown_.insert_or_assign(holder.user, std::move(holder));
}

void Contexts::hide(uint32_t user) {
  MutexLock lock(shown_mutex_);
  shown_.erase(user);
}

Task<> Contexts::destroy_all() {
  std::vector<std::shared_ptr<GssSecurity>> all;
  for (auto& [user, entry] : entries_) {
    if (entry.security) all.push_back(std::move(entry.security));
    hide(user);
  }
  // A get() that still waits for a token has a reference to its entry.
  std::erase_if(entries_, [](const auto& one) { return !one.second.busy[0] && !one.second.busy[1]; });
  const TimePoint now = Clock::now();
  for (std::shared_ptr<GssSecurity>& one : all) {
    if (!one->usable(now)) continue;
    Task<> ending = destroy(transport_, std::move(one), options_.program);
    co_await std::move(ending);
  }
}

std::vector<Contexts::Holder> Contexts::holders() const {
  std::vector<Holder> all;
  const TimePoint now = Clock::now();
  MutexLock lock(shown_mutex_);
  for (const auto& [user, holder] : shown_) {
    if (!holder.refusal.empty() || holder.expires > now) all.push_back(holder);
  }
  return all;
}

}  // namespace nfsrdma::security
