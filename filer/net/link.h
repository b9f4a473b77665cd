// Link: the server's end of one connection, whatever carries it.
//
// TCP today (net/connection.h); RPC-over-RDMA stands behind the same interface. A link is shared between the
// listener and whoever answers on it; it outlives its connection and is silent then. All functions may be
// called from any thread, and return at once: what is sent leaves in the order of the calls.
#pragma once

#include <cstdint>
#include <memory>

#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

using LinkId = uint64_t;  // 1, 2, 3... in the order of arrival; never reused

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkId id() const = 0;
  // One RPC message, from XID to the end; framing is the link's.
  virtual void send(ByteVector message) = 0;
  // Bytes as they are, framing included: for faults.
  virtual void send_raw(ByteVector bytes) = 0;
  // Ends the connection after what has been sent before; `abort` ends it at once, with a reset.
  virtual void close(bool abort) = 0;
};

using LinkPtr = std::shared_ptr<Link>;

}  // namespace nfsrdma::filer
