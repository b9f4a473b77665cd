// SPDX-License-Identifier: Apache-2.0
#include "transport/rpc/credential.h"

#include <algorithm>

#include "xdr/rpc.h"

namespace nfsrdma::rpc {

Credential::Credential(const std::string& machine, uint32_t uid, uint32_t gid, std::vector<uint32_t> groups)
    : uid_(uid), gid_(gid), groups_(std::move(groups)) {
  groups_.resize(std::min(groups_.size(), kMaxGroups));
  authsys_parms parms;
  parms.machinename = machine.substr(0, kMaxMachineName);
  parms.uid = uid_;
  parms.gid = gid_;
  parms.gids = groups_;
  const ByteVector body = encode_authsys(parms);
  xdr::Encoder x(encoded_);
  x(opaque_auth{AUTH_SYS, body});
}

}  // namespace nfsrdma::rpc
