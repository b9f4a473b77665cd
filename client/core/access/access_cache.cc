// SPDX-License-Identifier: Apache-2.0
#include "client/core/access/access_cache.h"

#include <utility>

#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

std::optional<uint32_t> AccessCache::find(const rpc::Credential& who, uint64_t change, bool promised,
                                          TimePoint now) const {
  for (const Answer& a : answers_) {
    if (!a.who || !a.who->same_user(who)) continue;
    const bool holds = a.validity.change == change && (now < a.validity.expires || promised);
    return holds ? std::optional(a.allowed) : std::nullopt;
  }
  return std::nullopt;
}

void AccessCache::note(rpc::CredentialPtr who, uint32_t allowed, Validity validity) {
  answers_.remove_if([&](const Answer& a) { return a.who && a.who->same_user(*who); });
  answers_.push_front({std::move(who), allowed, validity});
  unsigned kept = 0;
  answers_.remove_if([&](const Answer& a) { return a.who && ++kept > kMost; });
}

void AccessCache::moved(uint64_t before, uint64_t after) {
  for (Answer& a : answers_) {
    if (a.validity.change == before) a.validity.change = after;
  }
}

std::optional<bool> AccessCache::everybody_searches(uint64_t change, TimePoint now) const {
  for (const Answer& a : answers_) {
    if (a.who || a.validity.change != change || now >= a.validity.expires) continue;
    return (a.allowed & nfs4::ACCESS4_LOOKUP) != 0;
  }
  return std::nullopt;
}

bool AccessCache::note_everybody(bool search, Validity validity) {
  bool could = false;
  answers_.remove_if([&](const Answer& a) {
    could = could || (!a.who && a.allowed != 0);
    return !a.who;
  });
  answers_.push_front({nullptr, search ? uint32_t{nfs4::ACCESS4_LOOKUP} : 0, validity});
  return could;
}

}  // namespace nfsrdma::client
