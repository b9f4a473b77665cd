// What the attribute `acl` (RFC 8881 section 6.2.1) says of an object whose permissions are mode bits alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "filer/tree/node.h"

namespace nfsrdma::filer {

// Permissions (access.h), and what of an ACE's mask each is.
extern const std::pair<uint32_t, uint32_t> kPermissionAces[3];

// What OWNER@, GROUP@ and EVERYONE@ are allowed, behind what one of them lacks that those after him have: a mode
// asks one class alone, an ACL goes on to the next entry. Where every caller is one user, what that one may is
// everybody's.
std::vector<nfs4::nfsace4> acl_of_mode(const Node& node);

}  // namespace nfsrdma::filer
