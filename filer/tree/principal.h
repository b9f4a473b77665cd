// SPDX-License-Identifier: Apache-2.0
// Principal: the user that an RPC credential names (RFC 5531 section 8.2 and appendix A). A value; any
// thread.
//
// AUTH_NONE is the anonymous user 65534. Only the supplementary groups in the credential count (at most 16).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "xdr/rpc.h"

namespace nfsrdma::filer::tree {

struct Principal {
  static constexpr uint32_t kAnonymous = 65534;

  rpc::auth_flavor flavor = rpc::AUTH_NONE;
  uint32_t uid = kAnonymous;
  uint32_t gid = kAnonymous;
  std::vector<uint32_t> groups{};
  // The principal for exports that map root (root_squash), and with it group 0, to another user; null: the
  // same.
  std::shared_ptr<const Principal> squashed{};

  static Principal superuser() { return {rpc::AUTH_SYS, 0, 0, {}}; }
  bool root() const { return flavor == rpc::AUTH_SYS && uid == 0; }
  bool in_group(uint32_t group) const {
    return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
  }
  // Whether both are the same user for client IDs, sessions and retries ("principal" in RFC 8881 section
  // 18.35.4).
  bool same_user(const Principal& b) const { return flavor == b.flavor && uid == b.uid; }
};

}  // namespace nfsrdma::filer::tree
