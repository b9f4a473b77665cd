// SPDX-License-Identifier: Apache-2.0
// Finds READ's data in a reply that is still being received: BulkLocators (transport/rpc/rpc_transport.h) for
// the two COMPOUNDs that read. Pure; any thread. The bytes come from the network and are not trusted: a reply
// of another shape has no data (kNone). A verdict on a prefix holds for every longer prefix.
#pragma once

#include "client/nfs4/protocol_types.h"
#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::client::nfs4 {

// RPC reply header with an AUTH_NONE verifier (24), COMPOUND4res up to its results (12), SEQUENCE (44), PUTFH
// (8), READ up to its data (16).
inline constexpr size_t kReadDataOffset = 24 + 12 + 44 + 8 + 16;
// The same with these before READ: OPEN without a delegation (8 + 16 + 20 + 4 + 4 + 4), ACCESS (16) and
// GETATTR (about 220).
inline constexpr size_t kDataReadWithOpenOffset = kReadDataOffset + 56 + 16 + 220;

// For SEQUENCE, PUTFH, READ, and at most one more operation.
rpc::Locate locate_read_data(ConstBytes prefix, rpc::BulkPlace& place);
// For SEQUENCE, PUTFH, OPEN, ACCESS, GETATTR, READ, and at most one more operation.
rpc::Locate locate_data_read_with_open(ConstBytes prefix, rpc::BulkPlace& place);

}  // namespace nfsrdma::client::nfs4
