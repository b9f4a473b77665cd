// When an OPEN is answered with a delegation, and which (RFC 8881 sections 10.4, 18.16.3).
//
// Whether the server gives delegations at all is a switch (Switches::delegations). None is given without a
// back channel, or where another client's open or delegation is in the way. Recalls are Core::recall(). Under
// the server's lock.
#pragma once

#include "filer/nfs/context.h"

namespace nfsrdma::filer {

// The delegation part of OPEN's result. `share_access` as in the arguments, with what the client wants.
nfs4::open_delegation4 offer_delegation(Context& c, const NodePtr& node, uint32_t share_access);

// A delegation that existed before the server restarted: "In this case, delegation will always be granted".
nfs4::open_delegation4 reclaim_delegation(Context& c, const NodePtr& node, nfs4::open_delegation_type4 type);

}  // namespace nfsrdma::filer
