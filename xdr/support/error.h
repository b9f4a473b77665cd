// SPDX-License-Identifier: Apache-2.0
// Error: says what failed, where, and what the caller can do about it.
//
// Errors are values (Result<T>), never exceptions. A caller branches on the recovery class, not on codes. The
// class is what RFC 8881 section 15 and its recovery sections (8.4, 10.2) ask the client to do. A layer may
// adjust an Error, such as its `op`, before it passes it on. Errors may be moved between loops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "xdr/support/source_location.h"

namespace nfsrdma {

// The part of the program that found the failure.
enum class Layer : uint8_t { kXdr, kRpc, kSecurity, kTransport, kSession, kNfs, kFuse, kCli, kSystem };

// How to recover from it.
enum class Recovery : uint8_t {
  kPermanent,     // the answer is final: report it
  kRetry,         // NFS4ERR_DELAY and similar: send the same request again after a pause
  kWait,          // NFS4ERR_GRACE: send it again when the server's grace period is over
  kReconnect,     // the connection is lost: send the same slot, sequence ID and bytes on the next one
  kNewSession,    // BADSESSION, DEADSESSION: create a session, then send the request in a new slot
  kRecoverState,  // STALE_CLIENTID, EXPIRED, BAD_STATEID...: recover client ID or state, then send it again
  kInterrupted,   // the application has given up, or the mount is ending
};

struct Error {
  Layer layer = Layer::kSystem;
  Recovery recovery = Recovery::kPermanent;
  int errnum = 0;       // the errno that the application gets
  uint32_t status = 0;  // nfsstat4, accept_stat, RDMA error...; the layer says which; 0: none
  const char* op = "";  // static string: the operation that failed, e.g. "OPEN", "EXCHANGE_ID", "connect"
  std::string cause{};  // one clause for a message to the user; empty on hot paths
  SourceLocation where = SourceLocation::current();

  bool is_status(uint32_t s) const { return layer == Layer::kNfs && status == s; }
};

std::string_view to_string(Layer layer);
std::string_view to_string(Recovery recovery);

// One line for the user, e.g. "OPEN: NFS4ERR_ACCESS: Permission denied". No newline, no full stop.
std::string describe(const Error& error);

// An error from errno.
Error system_error(int errnum, const char* op, std::string cause = {},
                   SourceLocation where = SourceLocation::current());

}  // namespace nfsrdma
