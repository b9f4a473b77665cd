// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/plan.h"

#include <algorithm>
#include <utility>

#include "xdr/rpcrdma/segment.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::rdma {
namespace {

constexpr size_t kWord = 4;

// Four words and three empty lists; version 2 adds flags and inv_handle.
size_t bare_header(uint32_t version) {
  return (version == 1 ? 7 : 9) * kWord;
}

size_t write_chunk_bytes(size_t segments) {
  return 2 * kWord + segments * rpcrdma::kSegmentBytes;
}

size_t read_chunk_bytes(size_t segments) {
  return segments * rpcrdma::kReadSegmentBytes;
}

ReplyForm reply_form(const PlanLimits& limits, const CallSizes& sizes) {
  if (sizes.reply_at_least != 0) return ReplyForm::kReplyChunk;
  // A reply without chunks has the bare header; a reply with a Write chunk returns its segments.
  const size_t bare = bare_header(limits.version);
  if (sizes.sink == 0) {
    return bare + sizes.reply <= limits.inline_receive ? ReplyForm::kInline : ReplyForm::kReplyChunk;
  }
  const bool fits = bare + sizes.reply + xdr_padded(sizes.sink) <= limits.inline_receive;
  if (fits && sizes.sink < limits.ddp_threshold) return ReplyForm::kInline;
  const size_t rest = bare + write_chunk_bytes(sizes.segments) + sizes.reply;
  return rest <= limits.inline_receive ? ReplyForm::kWriteChunk : ReplyForm::kReplyChunk;
}

// The messages without bulk items: wrapping has made one item of everything.
CallSizes as_one_item(CallSizes sizes) {
  sizes.head += std::exchange(sizes.bulk, 0);
  sizes.bulks = 0;
  sizes.reply += xdr_padded(std::exchange(sizes.sink, 0));
  sizes.wrapped = false;
  return sizes;
}

}  // namespace

Plan make_plan(const PlanLimits& limits, const CallSizes& sizes) {
  if (sizes.wrapped) return make_plan(limits, as_one_item(sizes));
  Plan plan;
  plan.reply = reply_form(limits, sizes);
  if (plan.reply == ReplyForm::kReplyChunk)
    plan.reply_chunk = std::max(sizes.reply + xdr_padded(sizes.sink), sizes.reply_at_least);
  // The segments of the reply's chunk are in the call's header.
  const size_t reply_list = plan.reply == ReplyForm::kInline ? 0 : write_chunk_bytes(sizes.segments);
  const size_t header = bare_header(limits.version) + reply_list;
  if (header + sizes.head + sizes.bulk <= limits.inline_send && sizes.bulk < limits.ddp_threshold) {
    plan.call = CallForm::kInline;
  } else if (sizes.bulks == 1 &&
             header + read_chunk_bytes(sizes.segments) + sizes.head <= limits.inline_send) {
    plan.call = CallForm::kReadChunk;
  } else if (header + sizes.head + sizes.bulk <= limits.inline_send) {
    plan.call = CallForm::kInline;
  } else {
    plan.call = CallForm::kPositionZero;
  }
  return plan;
}

}  // namespace nfsrdma::rdma
