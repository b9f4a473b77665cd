// SPDX-License-Identifier: Apache-2.0
// The longest result of each operation that this client sends, in bytes, with operation number and status. If
// a reply of this size does not fit inline, the transport provides a Reply chunk for it (RFC 8267 section
// 6.2).
//
// READ's data is not included: it is a bulk item. Strings without a protocol limit (user names, symbolic
// links) count with the limit that real servers have. If a reply is longer anyway, the transport repeats the
// call with more room. Pure; any thread.
#pragma once

#include "client/nfs4/protocol_types.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::client::nfs4 {

namespace reply_bounds {

inline constexpr size_t kBare = 8;  // opnum, status
inline constexpr size_t kStateid = 16;
inline constexpr size_t kChangeInfo = 20;
inline constexpr size_t kBitmap = 4 + 3 * 4;   // three words hold every attribute of RFC 8881 and 7862
inline constexpr size_t kHandle = 4 + 128;     // NFS4_FHSIZE
inline constexpr size_t kPrincipal = 4 + 256;  // user@domain
inline constexpr size_t kLink = 4 + 4096;      // PATH_MAX
inline constexpr size_t kOwner = 4 + 1024;     // NFS4_OPAQUE_LIMIT
inline constexpr size_t kLockDenied = 8 + 8 + 4 + 8 + kOwner;
inline constexpr size_t kAce = 12 + kPrincipal;
inline constexpr size_t kUnbounded = 64u << 10;  // ACLs, locations

// fattr4 with every attribute of the mask.
size_t attributes(const nfs4::bitmap4& mask);

}  // namespace reply_bounds

// RPC reply header with an empty verifier, and COMPOUND4res with an empty tag, up to the results.
inline constexpr size_t kReplyHeadBytes = 24 + 12;

template <class Args>
size_t max_result_bytes(const Args& args) {
  using namespace nfs4;
  using namespace reply_bounds;
  if constexpr (std::is_same_v<Args, SEQUENCE4args>) {
    return kBare + 16 + 5 * 4;
  } else if constexpr (std::is_same_v<Args, GETATTR4args>) {
    return kBare + attributes(args.attr_request);
  } else if constexpr (std::is_same_v<Args, GETFH4args>) {
    return kBare + kHandle;
  } else if constexpr (std::is_same_v<Args, READ4args>) {
    return kBare + 8;
  } else if constexpr (std::is_same_v<Args, READDIR4args>) {
    return kBare + args.maxcount;
  } else if constexpr (std::is_same_v<Args, READLINK4args>) {
    return kBare + kLink;
  } else if constexpr (std::is_same_v<Args, OPEN4args>) {
    return kBare + kStateid + kChangeInfo + 4 + kBitmap + 4 + kStateid + 4 + 12 + kAce;
  } else if constexpr (std::is_same_v<Args, CREATE4args>) {
    return kBare + kChangeInfo + kBitmap;
  } else if constexpr (std::is_same_v<Args, SETATTR4args>) {
    return kBare + kBitmap;
  } else if constexpr (std::is_same_v<Args, RENAME4args>) {
    return kBare + 2 * kChangeInfo;
  } else if constexpr (std::is_same_v<Args, REMOVE4args> || std::is_same_v<Args, LINK4args>) {
    return kBare + kChangeInfo;
  } else if constexpr (std::is_same_v<Args, LOCK4args> || std::is_same_v<Args, LOCKT4args>) {
    return kBare + kLockDenied;
  } else if constexpr (std::is_same_v<Args, TEST_STATEID4args>) {
    return kBare + 4 + 4 * args.ts_stateids.size();
  } else if constexpr (std::is_same_v<Args, EXCHANGE_ID4args>) {
    return kBare + 20 + 8 + 2 * kOwner + 4 + 2 * kOwner + 12;
  } else if constexpr (std::is_same_v<Args, CREATE_SESSION4args>) {
    return kBare + 16 + 8 + 2 * 36;
  } else {
    // The result is a status. Some operations add a stateid, a verifier, or a session ID and one or two
    // words. BIND_CONN_TO_SESSION has the longest result.
    return kBare + 24;
  }
}

}  // namespace nfsrdma::client::nfs4
