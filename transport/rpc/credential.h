// SPDX-License-Identifier: Apache-2.0
// Credential: the user for whom a request is made (RFC 5531 section 8.2, AUTH_SYS in appendix A).
//
// Immutable, shared between requests, loops and reconnects; the encoded opaque_auth is made once. AUTH_SYS
// carries at most 16 supplementary groups: further groups are left out, and the server does not see them
// (docs/conformance/limits.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xdr/support/bytes.h"

namespace nfsrdma::rpc {

class Credential {
 public:
  static constexpr size_t kMaxGroups = 16;

  // AUTH_SYS. `machine` is cut at 255 bytes.
  Credential(const std::string& machine, uint32_t uid, uint32_t gid, std::vector<uint32_t> groups);

  uint32_t uid() const { return uid_; }
  uint32_t gid() const { return gid_; }
  const std::vector<uint32_t>& groups() const { return groups_; }
  bool same_user(const Credential& other) const {
    return uid_ == other.uid_ && gid_ == other.gid_ && groups_ == other.groups_;
  }
  // The complete opaque_auth: flavor, length, body. A multiple of four bytes.
  ConstBytes encoded() const { return encoded_; }

 private:
  uint32_t uid_;
  uint32_t gid_;
  std::vector<uint32_t> groups_;
  ByteVector encoded_;
};

using CredentialPtr = std::shared_ptr<const Credential>;

}  // namespace nfsrdma::rpc
