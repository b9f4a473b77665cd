// SPDX-License-Identifier: Apache-2.0
// Exchange: one call on its way over one RPC-over-RDMA connection: which memory is open for it, and until
// when.
//
// Begins when the call is sent and ends when its reply is in and nothing of this side's memory is reachable
// any more; only then does the caller get the reply. Exchanges are used again: their vectors keep their
// memory. Owner: a connection. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/memory/piped_place.h"
#include "transport/rdma/plan.h"
#include "transport/rpc/connection.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::rdma {

struct Exchange {
  enum class State : uint8_t {
    kFree,
    kSent,       // waits for its reply
    kClosing,    // has its answer; waits for invalidate()
    kAbandoned,  // the caller has gone; waits for its reply, so that its credit is free again
    kUnsent      // only a part could be opened: closes that again, its call is queued
  };
  uint32_t number = 0;  // from 1; PendingCall::mark, and the cookie of its invalidations
  State state = State::kFree;
  rpc::PendingCall* call = nullptr;  // null: kUnsent, kAbandoned, or kClosing after it
  uint32_t xid = 0;
  Plan plan;
  bool invalidating = false;  // on_invalidated() will come
  bool again = false;         // kClosing: to be sent once more, for the reason an error gave
  unsigned repeats = 0;       // how often it was
  size_t reply_at_least = 0;  // bytes the Responder asked a Reply chunk to have
  bool no_read_chunk = false;
  bool no_write_chunk = false;

  std::vector<rpcrdma::segment> exposed;  // all that is open: first the Read chunk's...
  size_t read_segments = 0;
  std::vector<Slice> keep;  // what keeps the memory of Read chunks alive
  PipedPlace piped;         // kWriteChunk: the sink, and what keeps it alive
  Slice reply_chunk;
  size_t reply_bytes = 0;  // of a long reply: so much of reply_chunk

  // The answer, while kClosing.
  rpc::ReceivedReply reply;
  std::unique_ptr<Error> refused;

  std::span<const rpcrdma::segment> reply_segments() const {
    return std::span(exposed).subspan(read_segments);
  }
  void clear();
};

// The exchanges of one connection, by number.
class Exchanges {
 public:
  Exchange& take(rpc::PendingCall& call);
  void release(Exchange& x);
  Exchange& at(uint64_t number) { return *all_[number - 1]; }
  // Null: nobody has abandoned this XID. There are few.
  Exchange* find_abandoned(uint32_t xid);
  size_t in_use() const { return in_use_; }
  template <class F>
  void for_each(F f) {
    for (const auto& x : all_) {
      if (x->state != Exchange::State::kFree) f(*x);
    }
  }

 private:
  std::vector<std::unique_ptr<Exchange>> all_;
  std::vector<Exchange*> free_;
  size_t in_use_ = 0;
};

}  // namespace nfsrdma::rdma
