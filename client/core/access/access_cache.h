// SPDX-License-Identifier: Apache-2.0
// AccessCache: the server's ACCESS answers for one file (RFC 8881 section 18.1), per user; for a directory
// also whether its ACL lets everybody search it.
//
// A value inside a Node, guarded by the Node's mutex; it is one pointer while it is empty. An answer is valid
// for one value of the change attribute (a change of mode, owner or ACL moves it) and until its expiry time.
// While a delegation protects the file (AttributeCache::promise), it does not expire. Each ACCESS asks for
// every bit. The cache keeps the kMost latest users. Pure: time is a parameter.
#pragma once

#include <cstdint>
#include <forward_list>
#include <optional>

#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client {

class AccessCache {
 public:
  static constexpr unsigned kMost = 16;

  struct Validity {
    uint64_t change = 0;
    TimePoint expires = TimePoint::min();
  };
  // Bits of ACCESS4_*. Nothing: ask the server for this user.
  std::optional<uint32_t> find(const rpc::Credential& who, uint64_t change, bool promised,
                               TimePoint now) const;
  void note(rpc::CredentialPtr who, uint32_t allowed, Validity validity);
  // The change attribute moved from `before` to `after` by a change that leaves all permissions as they were.
  void moved(uint64_t before, uint64_t after);

  // Whether the directory's ACL, at that change attribute, lets everybody search it. Nothing: not known.
  std::optional<bool> everybody_searches(uint64_t change, TimePoint now) const;
  // True: an earlier answer, of any change attribute and age, let everybody search.
  bool note_everybody(bool search, Validity validity);

 private:
  struct Answer {
    rpc::CredentialPtr who;  // null: everybody, from the ACL
    uint32_t allowed = 0;
    Validity validity;
  };
  std::forward_list<Answer> answers_;  // latest first
};

}  // namespace nfsrdma::client
