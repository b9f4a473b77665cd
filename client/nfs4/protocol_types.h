// SPDX-License-Identifier: Apache-2.0
// The protocol's types and constants (xdr/nfs4) in the namespace of the client that speaks it: in client/,
// nfs4::stateid4 is XDR's and nfs4::Session is the client's. Every header of client/nfs4 includes this one.
#pragma once

#include "xdr/nfs4/basic.h"

namespace nfsrdma::client::nfs4 {

using namespace nfsrdma::nfs4;

}  // namespace nfsrdma::client::nfs4
