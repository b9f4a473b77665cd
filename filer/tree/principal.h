// SPDX-License-Identifier: Apache-2.0
// Principal: the user that an RPC credential names (RFC 5531 section 8.2 and appendix A, RFC 2203). A value;
// any thread.
//
// AUTH_NONE is the anonymous user 65534. Of AUTH_SYS only the supplementary groups in the credential count
// (at most 16). A Kerberos principal is the user and the groups that this host knows by its name, or the
// anonymous user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "filer/tree/flavors.h"
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
  std::string name{};              // RPCSEC_GSS: "alice@EXAMPLE.ORG"
  Flavor security = Flavor::kSys;  // how the present call is protected

  static Principal superuser() { return {rpc::AUTH_SYS, 0, 0, {}}; }
  // Whether the credential names a user, truthfully or not.
  bool has_user() const { return flavor == rpc::AUTH_SYS || flavor == rpc::RPCSEC_GSS; }
  bool root() const { return has_user() && uid == 0; }
  bool in_group(uint32_t group) const {
    return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
  }
  // Whether both are the same user for client IDs, sessions and retries ("principal" in RFC 8881 section
  // 18.35.4). Kerberos principals are compared by name: all that have no account here share a user, for
  // example all machines. The service (none, integrity, privacy) may differ from call to call.
  bool same_user(const Principal& b) const {
    if (flavor != b.flavor) return false;
    return flavor == rpc::RPCSEC_GSS ? name == b.name : uid == b.uid;
  }
};

}  // namespace nfsrdma::filer::tree
