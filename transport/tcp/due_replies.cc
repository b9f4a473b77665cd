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
  if (sink.locate != nullptr && sink.destination.size() >= direct_min_bytes_ && sink.destination.size() > 0 &&
      !p.call->wrapped()) {
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
  if (p == nullptr)
    return {abandoned_.erase(xid) != 0 ? Expected::Kind::kAbandoned : Expected::Kind::kUnknown};
  if (p->stage != PendingCall::Stage::kSent) return {Expected::Kind::kEarly};
  p->stage = PendingCall::Stage::kReceiving;
  count_in_place(*p, false);
  const rpc::Call& call = *p->call;
  if (!call.wrapped()) return {Expected::Kind::kAwaited, &call.sink};
  // Wrapped results are taken whole: where their bulk item lies is known when they are verified.
  return {Expected::Kind::kAwaited, nullptr, call.max_reply_bytes + xdr_padded(call.sink.destination.size())};
}

}  // namespace nfsrdma::tcp
