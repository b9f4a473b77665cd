#include "transport/tcp/pending_calls.h"

#include <algorithm>
#include <cassert>

namespace nfsrdma::tcp {
namespace {

constexpr size_t kFirstTableSize = 256;
// Bounds of what a sink's expected_offset may ask for: at least a reply header, at most what the reader looks
// through.
constexpr size_t kMinHint = 32;

}  // namespace

PendingCalls::PendingCalls(uint32_t first_xid, size_t direct_min_bytes)
    : direct_min_bytes_(direct_min_bytes), next_xid_(first_xid), table_(kFirstTableSize) {}

PendingCalls::~PendingCalls() {
  assert(size_ == 0);
}

void PendingCalls::add(PendingCall& p, TimePoint now) {
  if ((size_ + 1) * 2 >= table_.size()) grow();
  while (slot(next_xid_) != nullptr) ++next_xid_;
  p.xid = next_xid_++;
  p.issued = now;
  slot(p.xid) = &p;
  store_be32(p.call->head.data(), p.xid);
  p.older = newest_;
  p.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &p;
  newest_ = &p;
  ++size_;
}

void PendingCalls::grow() {
  std::vector<PendingCall*> old(table_.size() * 2);
  old.swap(table_);
  for (PendingCall* p : old) {
    if (p != nullptr) slot(p->xid) = p;  // distinct before under a shorter mask: distinct now
  }
}

void PendingCalls::remove(PendingCall& p) {
  assert(slot(p.xid) == &p);
  count_in_place(p, false);
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

void PendingCalls::sent(PendingCall& p) {
  p.stage = PendingCall::Stage::kSent;
  const rpc::Sink& sink = p.call->sink;
  if (sink.locate != nullptr && sink.destination.size() >= direct_min_bytes_ && sink.destination.size() > 0) {
    count_in_place(p, true);
    prefix_hint_ = std::clamp(sink.expected_offset, kMinHint, RecordReader::kMaxPrefixBytes);
  }
}

void PendingCalls::count_in_place(PendingCall& p, bool due) {
  if (p.due_in_place == due) return;
  p.due_in_place = due;
  due_in_place_ += due ? size_t{1} : size_t{0} - 1;
}

void PendingCalls::connection_lost() {
  abandoned_.clear();
  for (PendingCall* p = oldest_; p != nullptr; p = p->newer) {
    p->stage = PendingCall::Stage::kWaiting;
    count_in_place(*p, false);
  }
}

Expected PendingCalls::expect(uint32_t xid) {
  PendingCall* p = find(xid);
  if (p == nullptr) {
    return {abandoned_.erase(xid) != 0 ? Expected::Kind::kAbandoned : Expected::Kind::kUnknown, nullptr};
  }
  if (p->stage != PendingCall::Stage::kSent) return {Expected::Kind::kEarly, nullptr};
  p->stage = PendingCall::Stage::kReceiving;
  count_in_place(*p, false);
  return {Expected::Kind::kAwaited, &p->call->sink};
}

}  // namespace nfsrdma::tcp
