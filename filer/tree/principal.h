// SPDX-License-Identifier: Apache-2.0
// Principal: who an RPC credential says is calling (RFC 5531 section 8.2 and appendix A).
//
// AUTH_NONE is the anonymous user 65534. Supplementary groups count as far as the credential carries them
// (16). A value; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "xdr/rpc.h"

namespace nfsrdma::filer {

struct Principal {
  static constexpr uint32_t kAnonymous = 65534;

  rpc::auth_flavor flavor = rpc::AUTH_NONE;
  uint32_t uid = kAnonymous;
  uint32_t gid = kAnonymous;
  std::vector<uint32_t> groups{};
  // Who he is where root is somebody else (root_squash) and group 0 with it; null: the same.
  std::shared_ptr<const Principal> squashed{};

  static Principal superuser() { return {rpc::AUTH_SYS, 0, 0, {}}; }
  bool root() const { return flavor == rpc::AUTH_SYS && uid == 0; }
  bool in_group(uint32_t group) const {
    return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
  }
  // The same user, as far as client IDs, sessions and retries are concerned (RFC 8881 section 18.35.4
  // "principal").
  bool same_user(const Principal& b) const { return flavor == b.flavor && uid == b.uid; }
};

}  // namespace nfsrdma::filer
