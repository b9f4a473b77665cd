// SPDX-License-Identifier: Apache-2.0
// Error: the one value that says what failed, where, and what the caller can do about it.
//
// Errors travel as values (Result<T>), never as exceptions. A caller branches on the recovery class, not on
// codes: the class is what RFC 8881 section 15 and its recovery sections (8.4, 10.2) ask the client to do.
// Immutable once made, movable, safe to hand between loops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "xdr/support/source_location.h"

namespace nfsrdma {

// Which room of the program saw the failure.
enum class Layer : uint8_t { kXdr, kRpc, kTransport, kSession, kNfs, kFuse, kCli, kSystem };

// What can be done about it.
enum class Recovery : uint8_t {
  kPermanent,     // the answer is final: report it
  kRetry,         // DELAY and its like: same request again after a back-off
  kWait,          // GRACE: again when the server's grace period is over
  kReconnect,     // the connection is gone: same slot, sequence id and bytes on the next one
  kNewSession,    // BADSESSION, DEADSESSION: a new session, then the request in a new slot
  kRecoverState,  // STALE_CLIENTID, EXPIRED, BAD_STATEID...: client ID or state first, then again
  kInterrupted,   // the application gave up, or the mount is being torn down
};

struct Error {
  Layer layer = Layer::kSystem;
  Recovery recovery = Recovery::kPermanent;
  int errnum = 0;       // errno the application sees
  uint32_t status = 0;  // nfsstat4, accept_stat, rdma error...: meaning by layer; 0 = none
  const char* op = "";  // static string: the operation that failed, e.g. "OPEN", "EXCHANGE_ID", "connect"
  std::string cause;    // one clause for people; empty on hot paths
  SourceLocation where = SourceLocation::current();

  bool is_status(uint32_t s) const { return layer == Layer::kNfs && status == s; }
};

std::string_view to_string(Layer layer);
std::string_view to_string(Recovery recovery);

// One line for people, e.g. "OPEN: NFS4ERR_ACCESS: Permission denied". No newline, no full stop.
std::string describe(const Error& error);

// An error that comes from errno.
Error system_error(int errnum, const char* op, std::string cause = {},
                   SourceLocation where = SourceLocation::current());

}  // namespace nfsrdma
