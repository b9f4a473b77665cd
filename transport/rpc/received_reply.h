// SPDX-License-Identifier: Apache-2.0
// ReceivedReply: a reply as a connection received it, before anything in it is believed.
//
// Owner: the connection, then ClientTransport, which makes a Reply or an error of it. Loop thread only.
#pragma once

#include <cstdint>

#include "transport/memory/bulk_data.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::rpc {

struct ReceivedReply {
  uint32_t xid = 0;
  ByteVector head;  // from the XID on, without the bulk item if it was placed
  bool placed = false;
  size_t bulk_length = 0;
  ByteRange piped;  // the part of the bulk item that is in `pipe`
  PipeRef pipe;
  const char* defect = nullptr;  // set: the reply cannot be used; head is not complete
};

}  // namespace nfsrdma::rpc
