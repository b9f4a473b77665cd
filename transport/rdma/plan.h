// SPDX-License-Identifier: Apache-2.0
// How a call and its reply travel. Decided before anything is sent (RFC 8166 section 3.5, RFC 8267).
//
//     call   inline          header and RPC message in one Send
//            Read chunk      the Responder fetches the only bulk item; the rest is inline
//            Position-Zero   the Responder fetches the whole RPC message (RDMA_NOMSG): a long call
//     reply  inline          it is certain to fit
//            Write chunk     its bulk item is placed in the sink; the rest is certain to fit inline
//            Reply chunk     it may be too long: the whole RPC message is placed (RDMA_NOMSG)
//
// Wrapped messages (RPCSEC_GSS integrity or privacy) are inline or long.
//
// There is at most one Read chunk, and at most one of Write chunk and Reply chunk: Linux' server (versions
// 5.x to 6.1) handles both together wrongly, and also several data items in one call. A chunk is used for
// what does not fit inline, or has at least `ddp_threshold` bytes: moving 1 KiB by RDMA costs more than
// copying it.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nfsrdma::rdma {

enum class CallForm : uint8_t { kInline, kReadChunk, kPositionZero };
enum class ReplyForm : uint8_t { kInline, kWriteChunk, kReplyChunk };

// Sizes of one connection, in bytes.
struct PlanLimits {
  size_t inline_send = 1024;     // the longest message the Responder accepts, including the transport header
  size_t inline_receive = 1024;  // the longest message that it will Send and that we can receive
  size_t ddp_threshold = SIZE_MAX;
  uint32_t version = 1;
};

struct CallSizes {
  size_t head = 0;       // length of the call without its bulk items
  size_t bulk = 0;       // total of the bulk items, padded
  size_t bulks = 0;      // number of bulk items
  size_t reply = 0;      // maximum length of the RPC reply without its bulk item
  size_t sink = 0;       // maximum length of the reply's bulk item; 0: it has none
  size_t segments = 16;  // maximum number of segments of one chunk
  // Size of the Reply chunk that the Responder required; 0: none.
  size_t reply_at_least = 0;
  // RPCSEC_GSS protects arguments and results. RFC 8166 section 8.2.2.3: "no data item is DDP-eligible in
  // this situation": no Read chunk for data and no Write chunk.
  bool wrapped = false;
};

struct Plan {
  CallForm call = CallForm::kInline;
  ReplyForm reply = ReplyForm::kInline;
  size_t reply_chunk = 0;  // bytes; kReplyChunk
  bool operator==(const Plan&) const = default;
};

Plan make_plan(const PlanLimits& limits, const CallSizes& sizes);

}  // namespace nfsrdma::rdma
