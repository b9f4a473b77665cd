// SPDX-License-Identifier: Apache-2.0
// When an OPEN is answered with a delegation, and which (RFC 8881 sections 10.4, 18.16.3).
//
// Whether the server gives delegations at all is a switch (Switches::delegations). None is given without a
// back channel, or where another client's open or delegation is in the way. Recalls are Core::recall(). The
// holder of a write delegation is asked by CB_GETATTR for what it may know better (sections 10.4.3, 20.1).
// Under the server's lock.
#pragma once

#include <cstdint>
#include <optional>

#include "filer/nfs/context.h"

namespace nfsrdma::filer {

// The delegation part of OPEN's result. `share_access` as in the arguments, with what the client wants.
nfs4::open_delegation4 offer_delegation(Context& c, const NodePtr& node, uint32_t share_access);

// What GETATTR by somebody else than the holder of a write delegation is to answer (section 10.4.3).
struct HeldAttributes {
  nfs4::nfsstat4 status = nfs4::NFS4_OK;  // NFS4ERR_DELAY: the holder is being asked, or recalled
  std::optional<uint64_t> size;           // the holder has modified data
};
HeldAttributes ask_holder(Context& c, Node& node);

// A delegation that existed before the server restarted: "In this case, delegation will always be granted".
nfs4::open_delegation4 reclaim_delegation(Context& c, const NodePtr& node, nfs4::open_delegation_type4 type);

}  // namespace nfsrdma::filer
