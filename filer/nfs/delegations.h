// SPDX-License-Identifier: Apache-2.0
// Decides whether an OPEN is answered with a delegation, and with which kind (RFC 8881 sections 10.4,
// 18.16.3).
//
// Switches::delegations says which delegations the server grants at all. It grants none to a client without a
// back channel, and none that conflicts with another client's open or delegation. Core::recall() sends
// recalls. CB_GETATTR asks the holder of a write delegation for the attributes that it may know better
// (sections 10.4.3, 20.1). Under the server's lock.
#pragma once

#include <cstdint>
#include <optional>

#include "filer/nfs/context.h"

namespace nfsrdma::filer::nfs {

// The delegation part of OPEN's result. `share_access` is OPEN's argument, including its WANT flags.
nfs4::open_delegation4 offer_delegation(Context& c, const tree::NodePtr& node, uint32_t share_access);

// The attributes for a GETATTR from another client than the holder of a write delegation (section 10.4.3).
struct HeldAttributes {
  // NFS4ERR_DELAY: the holder is being asked, or its delegation is being recalled
  nfs4::nfsstat4 status = nfs4::NFS4_OK;
  std::optional<uint64_t> size;  // set if the holder has modified data
};
HeldAttributes ask_holder(Context& c, tree::Node& node);

// Grants a delegation that the client held before the restart: "In this case, delegation will always be
// granted".
nfs4::open_delegation4 reclaim_delegation(Context& c, const tree::NodePtr& node,
                                          nfs4::open_delegation_type4 type);

}  // namespace nfsrdma::filer::nfs
