// SPDX-License-Identifier: Apache-2.0
// SEQUENCE: decides whether a request is new, a retry, or neither (RFC 8881 sections 2.10.6, 18.46).
//
// begin_sequence() decides and, for a new request, takes the slot. The slot is then in progress, and a retry
// gets NFS4ERR_DELAY until finish_sequence() has put the reply into the cache. "Any time SEQUENCE or
// CB_SEQUENCE returns an error, the sequence ID of the slot MUST NOT change"; on an error here nothing
// changes.
#pragma once

#include <cstdint>

#include "filer/nfs/context.h"

namespace nfsrdma::filer::nfs {

struct SequenceVerdict {
  enum class Kind : uint8_t {
    kNew,       // execute the request; `result` is the result of SEQUENCE
    kRefused,   // `result.status` is the whole reply
    kReplay,    // the cached reply in `*kept` is the whole reply
    kUncached,  // a retry whose reply was not cached: `result`, then NFS4ERR_RETRY_UNCACHED_REP
  };
  Kind kind = Kind::kRefused;
  nfs4::SEQUENCE4res result;
  const state::Slot* kept = nullptr;
};

// Facts about the request that SEQUENCE checks.
struct Message {
  uint64_t digest = 0;       // of the operations after SEQUENCE
  size_t request_bytes = 0;  // of the whole RPC message
  size_t reply_bytes = 0;    // the shortest possible reply if SEQUENCE succeeds
};

SequenceVerdict begin_sequence(Context& c, const nfs4::SEQUENCE4args& args, const Message& message);

// A reply for the cache: `front` bytes of room for the RPC header, then the results. `items` are the parts of
// `reply` that are eligible for direct data placement (RFC 8267 section 6.1).
struct ReplyToKeep {
  const ByteVector& reply;
  const links::BulkPlaces& items;
  size_t front;
};

// Stores the reply of an executed request. The request may have destroyed the session.
void finish_sequence(Core& core, const nfs4::SEQUENCE4args& args, uint32_t operations,
                     const ReplyToKeep& made);

}  // namespace nfsrdma::filer::nfs
