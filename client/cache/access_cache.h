// SPDX-License-Identifier: Apache-2.0
// AccessCache: what users may do with one file, as the server has answered (ACCESS, RFC 8881 section 18.1),
// and of a directory whether its ACL lets everybody search it.
//
// A value inside a Node, guarded by its mutex; a pointer's size while nobody has asked. An answer holds for
// one value of the change attribute (mode, owner and ACL move it) and until a time; under a promise
// (AttributeCache::promise) for as long as that. Every bit is asked for each time. The kMost latest users are
// remembered. Pure: time comes in as a parameter.
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
  // Bits of ACCESS4_*; nothing: he must be asked about.
  std::optional<uint32_t> find(const rpc::Credential& who, uint64_t change, bool promised,
                               TimePoint now) const;
  void note(rpc::CredentialPtr who, uint32_t allowed, Validity validity);
  // The change attribute moved from `before`, and not for anything that says who may do what.
  void moved(uint64_t before, uint64_t after);

  // Whether the directory's ACL of that change attribute lets everybody search it; nothing: not known.
  std::optional<bool> everybody_searches(uint64_t change, TimePoint now) const;
  // True: an answer of before, of whatever change attribute and age, let everybody.
  bool note_everybody(bool search, Validity validity);

 private:
  struct Answer {
    rpc::CredentialPtr who;  // null: everybody, by the ACL
    uint32_t allowed = 0;
    Validity validity;
  };
  std::forward_list<Answer> answers_;  // the latest first
};

}  // namespace nfsrdma::client
