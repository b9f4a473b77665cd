// SPDX-License-Identifier: Apache-2.0
// Exchange: one call that was sent over one RPC-over-RDMA connection, and the memory that is open for it.
//
// It begins when the call is sent. It ends when the reply has arrived and none of our memory is reachable any
// more; only then does the caller get the reply. Exchanges are reused, because their vectors keep their
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
    kClosing,    // has its reply; waits for invalidate()
    kAbandoned,  // the caller has gone; waits for the reply, which frees the credit
    kUnsent      // only part of the memory could be opened and is being closed; its call is queued
  };
  uint32_t number = 0;  // from 1; used as PendingCall::mark and as cookie of its invalidations
  State state = State::kFree;
  rpc::PendingCall* call = nullptr;  // null: kUnsent, kAbandoned, or kClosing after kAbandoned
  uint32_t xid = 0;
  Plan plan;
  bool invalidating = false;  // on_invalidated() will be called
  bool again = false;         // kClosing: send the call once more, because of an RDMA_ERROR
  unsigned repeats = 0;       // how often the call was sent again
  size_t reply_at_least = 0;  // bytes that the Responder required of a Reply chunk
  bool no_read_chunk = false;
  bool no_write_chunk = false;

  std::vector<rpcrdma::segment> exposed;  // all open segments, those of the Read chunk first
  size_t read_segments = 0;
  std::vector<Slice> keep;  // keeps the memory of Read chunks alive
  PipedPlace piped;         // kWriteChunk: the sink, and what keeps its memory alive
  Slice reply_chunk;
  size_t reply_bytes = 0;  // length of a long reply in reply_chunk

  // The result, while kClosing.
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
  // Null: no exchange with this XID is abandoned. Searches all: there are few.
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
