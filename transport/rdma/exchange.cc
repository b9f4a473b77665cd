// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/exchange.h"

#include <utility>

namespace nfsrdma::rdma {

void Exchange::clear() {
  state = State::kFree;
  call = nullptr;
  xid = 0;
  plan = {};
  repeats = 0;
  invalidating = again = no_read_chunk = no_write_chunk = false;
  reply_at_least = 0;
  exposed.clear();
  read_segments = 0;
  keep.clear();
  piped = {};
  reply_chunk = {};
  reply_bytes = 0;
  reply = {};
  refused.reset();
}

Exchange& Exchanges::take(rpc::PendingCall& call) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Exchange>());
    all_.back()->number = static_cast<uint32_t>(all_.size());
    free_.push_back(all_.back().get());
  }
  Exchange& x = *free_.back();
  free_.pop_back();
  ++in_use_;
  x.call = &call;
  x.xid = call.xid;
  call.mark = x.number;
  return x;
}

void Exchanges::release(Exchange& x) {
  x.clear();
  free_.push_back(&x);
  --in_use_;
}

Exchange* Exchanges::find_abandoned(uint32_t xid) {
  for (const auto& x : all_) {
    if (x->state == Exchange::State::kAbandoned && x->xid == xid) return x.get();
  }
  return nullptr;
}

}  // namespace nfsrdma::rdma
