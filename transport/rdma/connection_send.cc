// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/rdma/connection.h"
#include "transport/runtime/check.h"

namespace nfsrdma::rdma {
namespace {

using fabric::Access;
using rpc::PendingCall;

// XDR padding is zero (RFC 4506 section 4.10).
constexpr std::array<std::byte, 4> kZeros{};

// Calls `add` for each piece of the whole message, including bulk items and their padding at their places.
template <class Add>
void each_piece(const rpc::MessageParts& message, Add add) {
  const ConstBytes head = message.head;
  size_t at = 0;
  for (const xdr::Bulk& bulk : message.bulks) {
    add(head.subspan(at, bulk.inline_offset - at));
    at = bulk.inline_offset;
    add(bulk.data);
    add(ConstBytes(kZeros).first(xdr_padding(bulk.data.size())));
  }
  add(head.subspan(at));
}

size_t bulk_bytes(const rpc::MessageParts& message) {
  size_t bytes = 0;
  for (const xdr::Bulk& bulk : message.bulks) bytes += xdr_padded(bulk.data.size());
  return bytes;
}

// How often to try again while another loop's calls hold the memory.
constexpr Duration kMemoryPause = std::chrono::milliseconds(10);

Error no_memory(const char* what) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = ENOMEM,
          .op = "expose",
          .cause = what};
}

}  // namespace

void RdmaConnection::send(PendingCall& call) {
  calls_.queued(call, Clock::now());
  (call.call->handshake || call.call->renewal ? urgent_ : queue_).push_back(&call);
  pump();
}

void RdmaConnection::pump() {
  send_queued();
  note_credits();
}

void RdmaConnection::note_credits() {
  rdma_counters_.credit_limit.store(open_ ? credits_.limit() : 0, std::memory_order_relaxed);
  rdma_counters_.credits_in_use.store(open_ ? credits_.outstanding() : 0, std::memory_order_relaxed);
  rdma_counters_.segments_open.store(open_ ? segments_open_ : 0, std::memory_order_relaxed);
}

void RdmaConnection::send_queued() {
  while (open_ && version_ != 0) {
    auto& queue = urgent_.empty() ? queue_ : urgent_;
    if (queue.empty() || !credits_.available(&queue == &urgent_)) return;
    PendingCall& call = *queue.front();
    queue.pop_front();
    if (start(call)) continue;
    // No window or registration is available: the end of another call will free one.
    queue.push_front(&call);
    if (exchanges_.in_use() == unsent_) wait_for_memory();
    return;
  }
}

// No call of this connection can free memory, but another loop's call may: all loops share the limit of
// locked memory. Dropping the connection would not help: the next connection would find the same, and the
// other loop would have taken what this one had.
void RdmaConnection::wait_for_memory() {
  if (!without_memory_since_) without_memory_since_ = Clock::now();
  if (Clock::now() - *without_memory_since_ >= options_.memory_patience)
    return drop(no_memory("no memory can be opened to the server"));
  if (!std::exchange(waits_for_memory_, true)) loop_.spawn(look_for_memory(self()));
}

Task<> RdmaConnection::look_for_memory(std::shared_ptr<RdmaConnection> keep_alive) {
  if (open_) co_await memory_timer_.wait_for(kMemoryPause);
  waits_for_memory_ = false;
  if (open_) pump();
  (void)keep_alive;
}

bool RdmaConnection::start(PendingCall& call) {
  Exchange& x = exchanges_.take(call);
  if (!transmit(x)) {
    give_up_start(x);
    return false;
  }
  without_memory_since_.reset();
  credits_.take();
  if (++call.transmissions > 1) counters_.retransmissions.add();
  call.end = moved();
  return true;
}

// Takes the call from the exchange, which is released when its own registrations are closed. Their end does
// not start a retry, which would fail the same way: the end of another call does, or the timer.
void RdmaConnection::give_up_start(Exchange& x) {
  x.call->mark = 0;
  x.call = nullptr;
  x.state = Exchange::State::kUnsent;
  ++unsent_;
  if (!x.invalidating) release(x);
}

// Opens the memory that the call needs and sends it. False: memory is not available, and none stays open.
bool RdmaConnection::transmit(Exchange& x) {
  x.plan = plan_for(x);
  x.keep = x.call->call->keep;
  Result<> exposed = expose_call(x);
  x.read_segments = x.exposed.size();
  if (exposed) exposed = expose_reply(x);
  if (!exposed) {
    x.invalidating = !endpoint_->invalidate(x.exposed, 0, x.number);
    return false;
  }
  fill_header(x);
  post(x);
  x.state = Exchange::State::kSent;
  x.call->stage = PendingCall::Stage::kSent;
  count(x);
  return true;
}

CallSizes RdmaConnection::sizes_of(const rpc::Call& call) const {
  CallSizes sizes;
  const rpc::MessageParts& message = call.message();
  sizes.head = message.head.size();
  sizes.bulk = bulk_bytes(message);
  sizes.bulks = message.bulks.size();
  sizes.reply = call.max_reply_bytes;
  sizes.sink = call.sink.destination.size();
  sizes.segments = endpoint_->limits().max_segments;
  sizes.wrapped = call.wrapped();
  return sizes;
}

PlanLimits RdmaConnection::plan_limits() const {
  return {inline_send_, inline_receive_, options_.ddp_threshold, version_};
}

// The chunk plan, adjusted for earlier RDMA_ERROR replies.
Plan RdmaConnection::plan_for(const Exchange& x) const {
  CallSizes sizes = sizes_of(*x.call->call);
  if (x.no_write_chunk) {
    sizes.reply += xdr_padded(sizes.sink);
    sizes.sink = 0;
  }
  sizes.reply_at_least = x.reply_at_least;
  Plan plan = make_plan(plan_limits(), sizes);
  if (x.no_read_chunk && plan.call == CallForm::kReadChunk) plan.call = CallForm::kPositionZero;
  return plan;
}

Result<> RdmaConnection::expose(Exchange& x, MutableBytes memory, Access access, PipedPlace* piped) {
  Result<std::vector<rpcrdma::segment>> segments = endpoint_->expose(memory, access, piped);
  if (!segments) return fail(std::move(segments).error());
  x.exposed.insert(x.exposed.end(), segments->begin(), segments->end());
  segments_open_ += segments->size();
  return {};
}

// The segments are closed.
void RdmaConnection::forget_exposed(Exchange& x) {
  segments_open_ -= x.exposed.size();
  x.exposed.clear();
}

void RdmaConnection::release(Exchange& x) {
  forget_exposed(x);
  if (x.state == Exchange::State::kUnsent) --unsent_;
  exchanges_.release(x);
}

Result<> RdmaConnection::expose_call(Exchange& x) {
  const rpc::MessageParts& message = x.call->call->message();
  if (x.plan.call == CallForm::kReadChunk) {
    // The peer only reads it; the fabric takes memory without const because registrations do.
    const ConstBytes data = message.bulks.front().data;
    return expose(x, {const_cast<std::byte*>(data.data()), data.size()}, Access::kRemoteRead);
  }
  if (x.plan.call == CallForm::kInline) return {};
  const size_t bytes = message.head.size() + bulk_bytes(message);
  if (bytes > BufferPool::kMaxBytes) return fail(no_memory("a call longer than a buffer"));
  Slice whole = pool_.slice(bytes);
  if (!whole.buffer) return fail(no_memory("a long call"));
  std::byte* to = whole.bytes.data();
  each_piece(message, [&](ConstBytes piece) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
  const MutableBytes memory = whole.bytes;
  x.keep.push_back(std::move(whole));
  return expose(x, memory, Access::kRemoteRead);
}

Result<> RdmaConnection::expose_reply(Exchange& x) {
  if (x.plan.reply == ReplyForm::kInline) return {};
  if (x.plan.reply == ReplyForm::kWriteChunk) {
    const rpc::Sink& sink = x.call->call->sink;
    x.piped = {{sink.destination, {}, {}}, sink.pipes};
    return expose(x, sink.destination.bytes, Access::kRemoteWrite,
                  sink.pipes != nullptr ? &x.piped : nullptr);
  }
  if (x.plan.reply_chunk > BufferPool::kMaxBytes) return fail(no_memory("a reply longer than a buffer"));
  x.reply_chunk = pool_.slice(x.plan.reply_chunk);
  if (!x.reply_chunk.buffer) return fail(no_memory("a long reply"));
  return expose(x, x.reply_chunk.bytes, Access::kRemoteWrite);
}

void RdmaConnection::fill_header(const Exchange& x) {
  out_.clear();
  out_.xid = x.xid;
  out_.vers = version_;
  out_.credit = credits_.requested();
  out_.type = x.plan.call == CallForm::kPositionZero ? rpcrdma::RDMA_NOMSG : rpcrdma::RDMA_MSG;
  const uint32_t position =
      x.plan.call == CallForm::kReadChunk ? static_cast<uint32_t>(x.call->call->bulks.front().position) : 0;
  for (const rpcrdma::segment& s : std::span(x.exposed).first(x.read_segments))
    out_.chunks.reads.push_back({position, s});
  if (x.plan.reply == ReplyForm::kWriteChunk) out_.chunks.writes.add(x.reply_segments());
  if (x.plan.reply == ReplyForm::kReplyChunk) {
    out_.chunks.has_reply = true;
    out_.chunks.reply.assign(x.reply_segments().begin(), x.reply_segments().end());
  }
  // Version 2 section 3.3: "a non-zero value that matches one of the rdma_handle fields in that header". We
  // use the last one, which is the reply's if it has one.
  if (remote_invalidation_ && !x.exposed.empty()) out_.inv_handle = x.exposed.back().handle;
}

void RdmaConnection::post(const Exchange& x) {
  out_bytes_.clear();
  const bool encoded = rpcrdma::encode(out_bytes_, out_);
  NFSRDMA_CHECK(encoded);
  (void)encoded;
  parts_.clear();
  parts_.push_back(out_bytes_);
  const rpc::MessageParts& message = x.call->call->message();
  if (x.plan.call == CallForm::kReadChunk) {
    parts_.push_back(message.head);  // the item's padding is not sent either (RFC 8166 section 3.4.4.4)
  } else if (x.plan.call == CallForm::kInline) {
    each_piece(message, [&](ConstBytes piece) {
      if (!piece.empty()) parts_.push_back(piece);
    });
  }
  size_t bytes = 0;
  for (const ConstBytes part : parts_) bytes += part.size();
  counters_.bytes_sent.add(bytes);
  rdma_counters_.bytes_inline.add(bytes - out_bytes_.size());
  endpoint_->send(parts_);
}

void RdmaConnection::count(const Exchange& x) {
  const rpc::MessageParts& message = x.call->call->message();
  switch (x.plan.call) {
    case CallForm::kInline: rdma_counters_.inline_calls.add(); break;
    case CallForm::kReadChunk:
      rdma_counters_.read_chunks.add();
      rdma_counters_.bytes_fetched.add(message.bulks.front().data.size());
      counters_.bytes_sent.add(message.bulks.front().data.size());
      break;
    case CallForm::kPositionZero:
      rdma_counters_.long_calls.add();
      rdma_counters_.bytes_long.add(message.head.size() + bulk_bytes(message));
      counters_.bytes_sent.add(message.head.size() + bulk_bytes(message));
      break;
  }
}

// Back channel: "When chunks are not implemented, RPC messages in the reverse direction are always sent using
// a Short Message" (RFC 8167 section 5.3).
void RdmaConnection::send(ByteVector reply) {
  if (!open_) return;
  out_.clear();
  out_.xid = load_be32(reply.data());
  out_.vers = version_;
  out_.credit = options_.callback_credits;
  out_.flags = version_ == rpcrdma::kVersion2 ? rpcrdma::RPCRDMA2_F_RESPONSE : 0;
  out_bytes_.clear();
  rpcrdma::encode(out_bytes_, out_);
  if (out_bytes_.size() + reply.size() > inline_send_)
    return broken("a reply to the server's call would not fit into one message");
  const ConstBytes parts[] = {out_bytes_, reply};
  counters_.bytes_sent.add(out_bytes_.size() + reply.size());
  endpoint_->send(parts);
}

uint64_t RdmaConnection::moved() const {
  const fabric::EndpointCounters counters = endpoint_->counters();
  return counters.bytes_placed + counters.bytes_fetched;
}

bool RdmaConnection::has_moved(const PendingCall& oldest) {
  const uint64_t before = std::max(std::exchange(moved_, moved()), oldest.end);
  return moved_ > before;
}

void RdmaConnection::forget(PendingCall& call) {
  if (call.mark == 0) {
    std::erase(queue_, &call);
    std::erase(urgent_, &call);
    return;
  }
  Exchange& x = exchanges_.at(call.mark);
  call.mark = 0;
  x.call = nullptr;
  if (x.state == Exchange::State::kClosing) return;  // ends when its memory is closed
  // If the server is still using the memory, it loses the connection; some fabrics always end it.
  x.state = Exchange::State::kAbandoned;
  if (endpoint_->revoke(x.exposed)) forget_exposed(x);
  note_credits();
}

}  // namespace nfsrdma::rdma
