// SPDX-License-Identifier: Apache-2.0
// SEQUENCE: is this a new request, a retry, or neither? (RFC 8881 sections 2.10.6, 18.46)
//
// begin() decides and, for a new request, takes the slot: it is then in progress, and a retry is answered
// with DELAY until finish() has put the reply into the cache. "Any time SEQUENCE or CB_SEQUENCE
// returns an error, the sequence ID of the slot MUST NOT change"; nothing does, on any error here.
#pragma once

#include <cstdint>

#include "filer/nfs/context.h"

namespace nfsrdma::filer {

struct SequenceVerdict {
  enum class Kind : uint8_t {
    kNew,       // execute; `result` is SEQUENCE's
    kRefused,   // `result.status` is the whole answer
    kReplay,    // what is in `*kept` is the whole answer
    kUncached,  // a retry whose reply was not kept: `result`, then RETRY_UNCACHED_REP
  };
  Kind kind = Kind::kRefused;
  nfs4::SEQUENCE4res result;
  const Slot* kept = nullptr;
};

// What is around SEQUENCE's arguments and result.
struct Message {
  uint64_t digest = 0;       // of the operations behind SEQUENCE
  size_t request_bytes = 0;  // of the whole RPC message
  size_t reply_bytes = 0;    // the least that the whole reply has, if SEQUENCE succeeds
};

SequenceVerdict begin_sequence(Context& c, const nfs4::SEQUENCE4args& args, const Message& message);

// The request has been executed; `reply` is its answer, and `items` what of it may be placed. The
// session may have been destroyed by it.
void finish_sequence(Core& core, const nfs4::SEQUENCE4args& args, uint32_t operations,
                     const ByteVector& reply, const BulkPlaces& items);

}  // namespace nfsrdma::filer
