// SPDX-License-Identifier: Apache-2.0
// Where READ's data lies in a reply that is still coming in: BulkLocators (transport/rpc/rpc_transport.h) for
// the two COMPOUNDs that read. Pure; any thread. The bytes are the network's: what is not of the shape that
// was asked for has no data (kNone), and what is said of a prefix is said of every longer one.
#pragma once

#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::client {

// RPC reply header with an AUTH_NONE verifier (24), COMPOUND4res up to its results (12), SEQUENCE (44), PUTFH
// (8), READ up to its data (16).
inline constexpr size_t kReadDataOffset = 24 + 12 + 44 + 8 + 16;
// With OPEN that gives no delegation (8 + 16 + 20 + 4 + 4 + 4), ACCESS (16) and GETATTR (some 220) before
// READ.
inline constexpr size_t kDataReadWithOpenOffset = kReadDataOffset + 56 + 16 + 220;

// SEQUENCE, PUTFH, READ, and at most one more.
rpc::Locate locate_read_data(ConstBytes prefix, rpc::BulkPlace& place);
// SEQUENCE, PUTFH, OPEN, ACCESS, GETATTR, READ, and at most one more.
rpc::Locate locate_data_read_with_open(ConstBytes prefix, rpc::BulkPlace& place);

}  // namespace nfsrdma::client
