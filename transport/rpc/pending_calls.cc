// SPDX-License-Identifier: Apache-2.0
#include "transport/rpc/pending_calls.h"
#include "transport/runtime/check.h"

namespace nfsrdma::rpc {
namespace {

constexpr size_t kFirstTableSize = 256;

}  // namespace

PendingCalls::PendingCalls(uint32_t first_xid) : next_xid_(first_xid), table_(kFirstTableSize) {}

PendingCalls::~PendingCalls() {
  NFSRDMA_CHECK(size_ == 0);
}

void PendingCalls::add(PendingCall& p, TimePoint now) {
  if ((size_ + 1) * 2 >= table_.size()) grow();
  give_xid(p);
  p.issued = now;
  p.older = newest_;
  p.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &p;
  newest_ = &p;
  ++size_;
}

void PendingCalls::give_xid(PendingCall& p) {
  while (slot(next_xid_) != nullptr) ++next_xid_;
  p.xid = next_xid_++;
  slot(p.xid) = &p;
  store_be32(p.call->head.data(), p.xid);
}

void PendingCalls::renew_xid(PendingCall& p) {
  slot(p.xid) = nullptr;
  give_xid(p);
}

void PendingCalls::grow() {
  std::vector<PendingCall*> old(table_.size() * 2);
  old.swap(table_);
  for (PendingCall* p : old) {
    if (p != nullptr) slot(p->xid) = p;  // their places differed in the smaller table, so they differ here
  }
}

void PendingCalls::remove(PendingCall& p) {
  NFSRDMA_CHECK(slot(p.xid) == &p);
  slot(p.xid) = nullptr;
  (p.older != nullptr ? p.older->newer : oldest_) = p.newer;
  (p.newer != nullptr ? p.newer->older : newest_) = p.older;
  p.older = p.newer = nullptr;
  --size_;
}

PendingCall* PendingCalls::find(uint32_t xid) const {
  PendingCall* p = table_[xid & (table_.size() - 1)];
  return p != nullptr && p->xid == xid ? p : nullptr;
}

void PendingCalls::queued(PendingCall& p, TimePoint now) {
  p.stage = PendingCall::Stage::kQueued;
  p.queued = now;
}

void PendingCalls::connection_lost() {
  for (PendingCall* p = oldest_; p != nullptr; p = p->newer) {
    p->stage = PendingCall::Stage::kWaiting;
    p->mark = 0;
    p->end = 0;
  }
}

}  // namespace nfsrdma::rpc
