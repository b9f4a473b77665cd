// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/due_replies.h"

#include <algorithm>

namespace nfsrdma::tcp {
namespace {

// Lower bound of prefix_hint(), which is the expected_offset of a sink: the length of a reply header. The
// upper bound is the part of a reply that the reader searches for a bulk item.
constexpr size_t kMinHint = 32;

}  // namespace

void DueReplies::sent(PendingCall& p) {
  p.stage = PendingCall::Stage::kSent;
  const rpc::Sink& sink = p.call->sink;
  if (sink.locate != nullptr && sink.destination.size() >= direct_min_bytes_ && sink.destination.size() > 0) {
    count_in_place(p, true);
    prefix_hint_ = std::clamp(sink.expected_offset, kMinHint, RecordReader::kMaxPrefixBytes);
  }
}

void DueReplies::count_in_place(PendingCall& p, bool due) {
  if ((p.mark != 0) == due) return;
  p.mark = due ? 1 : 0;
  due_in_place_ += due ? size_t{1} : size_t{0} - 1;
}

Expected DueReplies::expect(uint32_t xid) {
  PendingCall* p = calls_.find(xid);
  if (p == nullptr) {
    return {abandoned_.erase(xid) != 0 ? Expected::Kind::kAbandoned : Expected::Kind::kUnknown, nullptr};
  }
  if (p->stage != PendingCall::Stage::kSent) return {Expected::Kind::kEarly, nullptr};
  p->stage = PendingCall::Stage::kReceiving;
  count_in_place(*p, false);
  return {Expected::Kind::kAwaited, &p->call->sink};
}

}  // namespace nfsrdma::tcp
