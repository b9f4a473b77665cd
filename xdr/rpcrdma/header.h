// SPDX-License-Identifier: Apache-2.0
// The transport header in front of every RPC message (RFC 8166 section 4;
// draft-cel-nfsv4-rpcrdma-version-two-09, "v2" below). Four words have the same place and meaning in all
// versions (RFC 8166 section 7):
//
//     w0 xid   w1 vers   w2 credit   w3 type
//
// Version 1, then:
//
//     0 RDMA_MSG    chunk lists, RPC message
//     1 RDMA_NOMSG  chunk lists
//     2 RDMA_MSGP   align, thresh, chunk lists...
//     3 RDMA_DONE   nothing
//     4 RDMA_ERROR  w4 = error, its words
//
// Version 2 (w4 = flags), then:
//
//     0 RDMA2_MSG       w5 = inv_handle, chunk lists, RPC message
//     1 RDMA2_NOMSG     w5 = inv_handle, chunk lists
//     4 RDMA2_ERROR     w5 = error, its words
//     5 RDMA2_CONNPROP  w5 = count, { which, opaque data<> }*
//
// At least 28 (version 1) or 36 (version 2) bytes precede the RPC message, whose first word is the XID again.
// ERR_VERS is always sent with the layout of version 1; both layouts are understood.
//
// Values only; no I/O; any thread. A decode never allocates more than the message's own length justifies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "xdr/rpcrdma/chunk_lists.h"

namespace nfsrdma::rpcrdma {

inline constexpr uint32_t kVersion1 = 1;
inline constexpr uint32_t kVersion2 = 2;
inline constexpr size_t kPrefixBytes = 16;

// RFC 8166 section 4.2.4; the first, second and fifth are fixed for all versions.
enum proc : uint32_t {
  RDMA_MSG = 0,
  RDMA_NOMSG = 1,
  RDMA_MSGP = 2,  // "MUST NOT" be sent (RFC 8166 section 4.6.1)
  RDMA_DONE = 3,  // "MUST NOT" be sent (RFC 8166 section 4.6.2)
  RDMA_ERROR = 4,
  RDMA2_CONNPROP = 5,  // version 2
};

inline constexpr uint32_t RPCRDMA2_F_RESPONSE = 1;  // v2 section 3.2

enum errcode : uint32_t {
  ERR_VERS = 1,   // every version
  ERR_CHUNK = 2,  // version 1; the rest is version 2's (v2 section 5.3.3)
  RDMA2_ERR_BAD_XDR = 2,
  RDMA2_ERR_INVAL_HTYPE = 3,
  RDMA2_ERR_READ_CHUNKS = 4,     // max_chunks
  RDMA2_ERR_WRITE_CHUNKS = 5,    // max_chunks
  RDMA2_ERR_SEGMENTS = 6,        // max_segments
  RDMA2_ERR_WRITE_RESOURCE = 7,  // chunk_index (from 1; 0: not known), length_needed
  RDMA2_ERR_REPLY_RESOURCE = 8,  // length_needed
  RDMA2_ERR_SYSTEM = 9,
};

// An error. Its code says how many of the two words it has.
struct error {
  errcode code = ERR_CHUNK;
  uint32_t first = 0;   // low; max_chunks, max_segments; chunk_index; REPLY_RESOURCE's length_needed
  uint32_t second = 0;  // high; WRITE_RESOURCE's length_needed
  bool operator==(const error&) const = default;
};

// v2 section 4.2. An absent property has its default and never changes.
enum propid : uint32_t { RDMA2_PROPID_RBSIZ = 1, RDMA2_PROPID_BRS = 2 };
enum rvreqsup : uint32_t { RDMA2_RVREQSUP_NONE = 0, RDMA2_RVREQSUP_INLINE = 1, RDMA2_RVREQSUP_GENL = 2 };

struct properties {
  uint32_t receive_buffer_bytes = 4096;                      // RBSIZ
  rvreqsup reverse_request_support = RDMA2_RVREQSUP_INLINE;  // BRS
  bool operator==(const properties&) const = default;
};

// One header of any type; `type` says which members are encoded.
struct header {
  uint32_t xid = 0;
  uint32_t vers = kVersion1;
  uint32_t credit = 0;  // requested in a call, granted in a reply
  proc type = RDMA_MSG;

  uint32_t flags = 0;              // version 2
  uint32_t inv_handle = 0;         // version 2: the one handle that the reply may invalidate; 0: none
  chunk_lists chunks;              // RDMA_MSG, RDMA_NOMSG
  rpcrdma::error error;            // RDMA_ERROR
  rpcrdma::properties properties;  // RDMA2_CONNPROP

  bool response() const { return (flags & RPCRDMA2_F_RESPONSE) != 0; }
  bool carries_rpc() const { return type == RDMA_MSG || type == RDMA_NOMSG; }
  // Resets the header and keeps the memory of the lists.
  void clear();
};

// What is wrong with a header; it decides the answer.
enum class Defect : uint8_t {
  kNone,
  kShort,    // shorter than the four fixed words: nothing in it can be trusted
  kVersion,  // neither 1 nor 2; only the prefix was decoded
  kType,     // not a type of its version, or an obsolete type of version 1; only the prefix was decoded
  kXdr,      // the rest cannot be decoded
  kForeign,  // version 2 of another draft (draft-ietf-nfsv4-rpcrdma-version-two), with other types and errors
};

// Appends the header to `out`. Returns false if vers is neither 1 nor 2, or if the type must not be sent in
// it.
bool encode(ByteVector& out, const header& h);
// The number of bytes that encode() would append.
size_t encoded_bytes(const header& h);

// Decodes the header at the start of `message` into `h`. `*length` is where the RPC message begins
// (RDMA_MSG), or the end of the header. An unknown property is skipped; a malformed one is kXdr. Bytes after
// other headers than RDMA_MSG are ignored.
Defect decode(ConstBytes message, header& h, size_t* length);

}  // namespace nfsrdma::rpcrdma
