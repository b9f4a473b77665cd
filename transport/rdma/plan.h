// SPDX-License-Identifier: Apache-2.0
// How a call travels, and how its reply will: decided before anything is sent (RFC 8166 section 3.5, RFC
// 8267).
//
//     call   inline          header and RPC message in one Send
//            Read chunk      its one bulk item is fetched by the Responder; the rest is inline
//            Position-Zero   the whole RPC message is fetched (RDMA_NOMSG): a long call
//     reply  inline          it is known to fit
//            Write chunk     its bulk item is placed in the sink; the rest is known to fit inline
//            Reply chunk     it may be too long: the whole RPC message is placed (RDMA_NOMSG)
//
// At most one Read chunk, and one of Write chunk and Reply chunk: Linux' server gets both together wrong, and
// several data items in one call (versions 5.x to 6.1). A chunk is for what does not fit inline, or is at
// least `ddp_threshold` long: moving 1 KiB by RDMA costs more than copying it.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nfsrdma::rdma {

enum class CallForm : uint8_t { kInline, kReadChunk, kPositionZero };
enum class ReplyForm : uint8_t { kInline, kWriteChunk, kReplyChunk };

// Sizes of one connection, bytes.
struct PlanLimits {
  size_t inline_send = 1024;     // the longest message the Responder takes, transport header included
  size_t inline_receive = 1024;  // the longest it will Send, or we can receive
  size_t ddp_threshold = SIZE_MAX;
  uint32_t version = 1;
};

struct CallSizes {
  size_t head = 0;       // the RPC message without its bulk items
  size_t bulk = 0;       // all bulk items, padded
  size_t bulks = 0;      // how many
  size_t reply = 0;      // the longest the RPC reply may get, without its bulk item
  size_t sink = 0;       // the longest its bulk item may get; 0: it has none
  size_t segments = 16;  // that one chunk may take
  // The Responder asked for a Reply chunk of so many bytes; 0: it did not.
  size_t reply_at_least = 0;
};

struct Plan {
  CallForm call = CallForm::kInline;
  ReplyForm reply = ReplyForm::kInline;
  size_t reply_chunk = 0;  // bytes; kReplyChunk
  bool operator==(const Plan&) const = default;
};

Plan make_plan(const PlanLimits& limits, const CallSizes& sizes);

}  // namespace nfsrdma::rdma
