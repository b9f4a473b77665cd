#include "client/cache/access_cache.h"

#include <utility>

namespace nfsrdma::client {

std::optional<uint32_t> AccessCache::find(const rpc::Credential& who, uint64_t change, bool promised,
                                          TimePoint now) const {
  for (const Answer& a : answers_) {
    if (!a.who->same_user(who)) continue;
    const bool holds = a.validity.change == change && (now < a.validity.expires || promised);
    return holds ? std::optional(a.allowed) : std::nullopt;
  }
  return std::nullopt;
}

void AccessCache::note(rpc::CredentialPtr who, uint32_t allowed, Validity validity) {
  answers_.remove_if([&](const Answer& a) { return a.who->same_user(*who); });
  answers_.push_front({std::move(who), allowed, validity});
  unsigned kept = 0;
  answers_.remove_if([&](const Answer&) { return ++kept > kMost; });
}

void AccessCache::moved(uint64_t before, uint64_t after) {
  for (Answer& a : answers_) {
    if (a.validity.change == before) a.validity.change = after;
  }
}

}  // namespace nfsrdma::client
