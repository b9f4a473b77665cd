// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/rdma/connection.h"
#include "xdr/rpc.h"

namespace nfsrdma::rdma {
namespace {

using rpc::PendingCall;
using rpcrdma::Defect;
using rpcrdma::segment;

Error unusable(const char* op, const char* cause) {
  return {.layer = Layer::kRpc, .recovery = Recovery::kPermanent, .errnum = EIO, .op = op, .cause = cause};
}

// The call that the handle belongs to still waits and would use a closed handle.
constexpr const char* kNoAnswer = "a handle was invalidated by a message that answers no call";

// The number of bytes that came in a chunk: `offered` is the chunk of the call, `given` the one of the reply.
// RFC 8166 section 3.4.6: "the Responder updates each segment length field to reflect the actual amount of
// data that is being returned in that segment"; segments are filled in order. No segments: nothing came (RFC
// 8267 section 6.4.1 has servers return an unused chunk empty). nullopt: it is not the chunk that was
// offered.
std::optional<size_t> bytes_in(std::span<const segment> offered, std::span<const segment> given) {
  if (given.empty()) return 0;
  if (offered.size() != given.size()) return std::nullopt;
  size_t bytes = 0;
  bool full = true;
  for (size_t i = 0; i < offered.size(); ++i) {
    if (given[i].handle != offered[i].handle || given[i].offset != offered[i].offset) return std::nullopt;
    if (given[i].length > offered[i].length || (!full && given[i].length != 0)) return std::nullopt;
    full = given[i].length == offered[i].length;
    bytes += given[i].length;
  }
  return bytes;
}

}  // namespace

PendingCall* RdmaConnection::pending(uint32_t xid) {
  PendingCall* p = calls_.find(xid);
  return p != nullptr && p->mark != 0 && exchanges_.at(p->mark).state == Exchange::State::kSent ? p : nullptr;
}

bool RdmaConnection::is_of(const PendingCall* call, uint32_t handle) {
  if (call == nullptr) return false;
  const auto& exposed = exchanges_.at(call->mark).exposed;
  return std::ranges::any_of(exposed, [&](const segment& s) { return s.handle == handle; });
}

void RdmaConnection::on_receive(fabric::Received received) {
  if (!open_) return;
  // Twice what all calls and replies within the credits of both directions can take.
  if (endpoint_->unsent_bytes() > 2 * size_t{options_.credits + options_.callback_credits} * inline_send_)
    return broken("the server calls, and does not take the replies");
  counters_.bytes_received.add(received.message.size());
  if (received.invalidated != 0) rdma_counters_.remotely_invalidated.add();
  owner_.on_bytes_received();
  size_t length = 0;
  const Defect defect = rpcrdma::decode(received.message, in_, &length);
  const ConstBytes body = received.message.subspan(length);
  if (version_ == 0) return on_first_message(defect);
  // RFC 8797 section 4.1: "MUST invalidate an STag associated only with the Transaction ID".
  if (received.invalidated != 0 && !is_of(pending(in_.xid), received.invalidated))
    return broken("a handle was invalidated that is not of the call that was answered");
  if (defect == Defect::kNone && in_.vers != version_ && in_.type != rpcrdma::RDMA_ERROR)
    return broken("a message of another version than was agreed upon");
  if (defect != Defect::kNone) return on_defect(defect, received.invalidated);
  if (in_.type == rpcrdma::RDMA_ERROR) return on_error(received.invalidated);
  if (in_.type == rpcrdma::RDMA2_CONNPROP) return on_properties(received.invalidated);
  // RFC 8166 section 4.2.1: "This XID MUST be the same as the XID in the RPC message."
  if (in_.type == rpcrdma::RDMA_MSG && (body.size() < 8 || load_be32(body.data()) != in_.xid))
    return on_defect(Defect::kXdr, received.invalidated);
  // The message type decides, not the XID: both sides choose XIDs independently, so a call of the server may
  // have an XID of ours (RFC 8167 section 3.1).
  bool call = in_.type == rpcrdma::RDMA_NOMSG && !in_.chunks.reads.empty();
  if (in_.type == rpcrdma::RDMA_MSG) call = load_be32(body.data() + 4) == rpc::CALL;
  // Version 2 section 3.2: the flag "MUST be the same as the value of the associated RPC message's msg_type
  // field".
  if (version_ == rpcrdma::kVersion2 && in_.response() == call)
    return on_defect(Defect::kXdr, received.invalidated);
  if (call) return on_call(body, received.invalidated);
  on_reply(body, received.invalidated);
}

// A message that cannot be decoded ends the call that it answers, if that is known; otherwise it is ignored.
void RdmaConnection::on_defect(Defect defect, uint32_t invalidated) {
  if (defect == Defect::kForeign || defect == Defect::kVersion)
    return broken("a message of another version than was agreed upon");
  if (defect == Defect::kShort) return broken("a message without a transport header");
  const bool obsolete =
      version_ == rpcrdma::kVersion1 && (in_.type == rpcrdma::RDMA_DONE || in_.type == rpcrdma::RDMA_MSGP);
  if (obsolete && invalidated != 0) return broken(kNoAnswer);
  if (obsolete) return;  // RFC 8166 section 4.6: discarded silently
  // A header prefix with the XID of one of our calls counts as its reply. A reply is never answered.
  if (PendingCall* p = pending(in_.xid)) {
    credits_.give_back();
    return refuse(exchanges_.at(p->mark), unusable("", "the transport header of the reply is malformed"),
                  invalidated);
  }
  owner_.on_bad_message(*this, {"a malformed transport header", false, true, in_.xid});
}

void RdmaConnection::broken(const char* what) {
  owner_.on_bad_message(*this, {what, true, false, in_.xid});
  drop({.layer = Layer::kTransport,
        .recovery = Recovery::kReconnect,
        .errnum = EPROTO,
        .op = "connection",
        .cause = what});
}

void RdmaConnection::stray() {
  owner_.on_bad_message(*this, {"reply to a call that was never made", false, true, in_.xid});
}

void RdmaConnection::on_call(ConstBytes body, uint32_t invalidated) {
  if (invalidated != 0) return broken(kNoAnswer);
  if (!in_.chunks.empty() || in_.type != rpcrdma::RDMA_MSG) {
    // We do not support chunks in the reverse direction. RFC 8167 section 5.3 then requires ERR_CHUNK. In
    // version 2, our CONNPROP has announced that (RDMA2_RVREQSUP_INLINE).
    rpcrdma::error error{rpcrdma::ERR_CHUNK, 0, 0};
    if (version_ == rpcrdma::kVersion2) {
      const bool reads = !in_.chunks.reads.empty();
      error.code = reads ? rpcrdma::RDMA2_ERR_READ_CHUNKS : rpcrdma::RDMA2_ERR_WRITE_CHUNKS;
    }
    return send_error(in_, error);
  }
  owner_.on_call(*this, in_.xid, ByteVector(body.begin(), body.end()));
}

void RdmaConnection::on_reply(ConstBytes body, uint32_t invalidated) {
  PendingCall* p = pending(in_.xid);
  Exchange* x = p != nullptr ? &exchanges_.at(p->mark) : exchanges_.find_abandoned(in_.xid);
  if (x == nullptr) return stray();
  credits_.granted(in_.credit);
  credits_.give_back();
  if (p == nullptr) return on_abandoned(*x);
  p->stage = PendingCall::Stage::kReceiving;
  answer(*x, take_reply(*x, body), invalidated);
}

// The exchange's memory was closed when the caller left.
void RdmaConnection::on_abandoned(Exchange& x) {
  x.state = Exchange::State::kClosing;
  finish(x);
}

// Fills x.reply and returns null, or returns the defect of the reply.
const char* RdmaConnection::take_reply(Exchange& x, ConstBytes body) {
  // RFC 8166 section 4.3.1: "Responders MUST leave the Read list empty in all replies".
  if (!in_.chunks.reads.empty()) return "the reply has a Read list";
  const size_t writes = x.plan.reply == ReplyForm::kWriteChunk ? 1 : 0;
  if (in_.chunks.writes.size() > writes) return "the reply has a Write chunk that was not offered";
  if (in_.chunks.has_reply && x.plan.reply != ReplyForm::kReplyChunk)
    return "the reply has a Reply chunk that was not offered";
  return in_.type == rpcrdma::RDMA_NOMSG ? take_long(x) : take_inline(x, body);
}

const char* RdmaConnection::take_inline(Exchange& x, ConstBytes body) {
  rpc::ReceivedReply& reply = x.reply;
  reply.head.assign(body.begin(), body.end());
  rdma_counters_.inline_replies.add();
  rdma_counters_.bytes_inline.add(body.size());
  const rpc::Sink& sink = x.call->call->sink;
  if (in_.chunks.has_reply && rpcrdma::chunk_bytes(in_.chunks.reply) != 0)
    return "the reply is inline and in the Reply chunk";
  if (in_.chunks.writes.empty()) {
    note_not_placed(x);
    return nullptr;
  }
  const std::optional<size_t> bytes = bytes_in(x.reply_segments(), in_.chunks.writes[0]);
  if (!bytes) return "the Write chunk of the reply is not the one that was offered";
  if (*bytes == 0) {
    note_not_placed(x);
    return nullptr;
  }
  rdma_counters_.write_chunks.add();
  rdma_counters_.bytes_placed.add(*bytes);
  counters_.bytes_placed.add(*bytes);
  counters_.bytes_received.add(*bytes);
  reply.placed = true;
  reply.bulk_length = *bytes;
  // RFC 5666 section 3.7 counts the padding, RFC 8166 section 3.4.6.2 does not: the item's own length
  // decides.
  rpc::BulkPlace place;
  if (sink.locate(reply.head, place) != rpc::Locate::kFound) return "data came with a reply that has none";
  if (*bytes != place.length && *bytes != xdr_padded(place.length))
    return "the Write chunk has another length than the data";
  reply.bulk_length = place.length;
  return nullptr;
}

const char* RdmaConnection::take_long(Exchange& x) {
  if (!in_.chunks.has_reply || x.plan.reply != ReplyForm::kReplyChunk)
    return "a long reply without a Reply chunk";
  const std::optional<size_t> bytes = bytes_in(x.reply_segments(), in_.chunks.reply);
  if (!bytes) return "the Reply chunk of the reply is not the one that was offered";
  if (*bytes < 8) return "a long reply without an RPC message";
  rdma_counters_.reply_chunks.add();
  rdma_counters_.bytes_long.add(*bytes);
  counters_.bytes_received.add(*bytes);
  if (x.call->call->sink.destination.size() != 0) rdma_counters_.reads_long.add();
  x.reply_bytes = *bytes;
  return nullptr;
}

// Counts an inline reply to a call with a sink, if it contains data: the data was not placed. What a wrapped
// reply contains is known later.
void RdmaConnection::note_not_placed(const Exchange& x) {
  const rpc::Sink& sink = x.call->call->sink;
  if (sink.destination.size() == 0 || x.call->call->wrapped()) return;
  rpc::BulkPlace place;
  if (sink.locate(x.reply.head, place) != rpc::Locate::kFound || place.length == 0) return;
  const bool offered = x.plan.reply == ReplyForm::kWriteChunk;
  (offered ? rdma_counters_.reads_chunk_unused : rdma_counters_.reads_inline).add();
}

// --- the end of an exchange

void RdmaConnection::answer(Exchange& x, const char* defect, uint32_t invalidated) {
  x.reply.xid = x.xid;
  x.reply.defect = defect;
  close(x, invalidated);
}

void RdmaConnection::refuse(Exchange& x, Error why, uint32_t invalidated) {
  x.refused = std::make_unique<Error>(std::move(why));
  close(x, invalidated);
}

// RFC 8166 section 4.5.4: memory is protected "from Responder access before the associated RPC transaction is
// complete".
void RdmaConnection::close(Exchange& x, uint32_t invalidated) {
  x.state = Exchange::State::kClosing;
  x.invalidating = !x.exposed.empty() && !endpoint_->invalidate(x.exposed, invalidated, x.number);
  if (!x.invalidating) finish(x);
}

void RdmaConnection::on_invalidated(fabric::Cookie cookie) {
  Exchange& x = exchanges_.at(cookie);
  x.invalidating = false;
  if (x.state != Exchange::State::kUnsent) return finish(x);
  release(x);
  note_credits();
}

void RdmaConnection::finish(Exchange& x) {
  const auto keep_alive = self();
  if (x.again && x.call != nullptr) return send_again(x);
  if (x.again) credits_.give_back();
  PendingCall* p = std::exchange(x.call, nullptr);
  rpc::ReceivedReply reply = std::move(x.reply);
  const std::unique_ptr<Error> refused = std::move(x.refused);
  // The memory is closed: nobody can change it any more.
  if (x.reply_bytes != 0 && reply.defect == nullptr && p != nullptr) {
    const ConstBytes message = ConstBytes(x.reply_chunk.bytes).first(x.reply_bytes);
    reply.head.assign(message.begin(), message.end());
    if (load_be32(reply.head.data()) != x.xid) reply.defect = "the long reply is another call's";
  }
  if (reply.placed && reply.defect == nullptr && p != nullptr) take_piped(x, reply);
  release(x);
  note_credits();
  if (p != nullptr) {
    p->mark = 0;
    if (refused != nullptr) {
      owner_.on_refused(*this, *p, *refused);
    } else {
      owner_.on_reply(*this, std::move(reply));
    }
  }
  pump();
}

void RdmaConnection::take_piped(Exchange& x, rpc::ReceivedReply& reply) {
  BulkData& data = x.piped.data;
  if (data.piped.empty()) return;
  // The pipe contains more than the reply's length.
  if (data.piped.end > reply.bulk_length) {
    if (!data.land()) reply.defect = "its data was lost on the way";
    return;
  }
  counters_.bytes_spliced.add(data.piped.size());
  reply.piped = std::exchange(data.piped, {});
  reply.pipe = std::move(data.pipe);
}

void RdmaConnection::on_disconnected(const Error& why) {
  const auto keep_alive = self();
  // The endpoint is on the stack: it is destroyed later, from the loop.
  loop_.post([keep_alive] {});
  open_ = false;
  memory_timer_.cancel();
  note_credits();
  rdma_counters_.version.store(0, std::memory_order_relaxed);
  queue_.clear();
  urgent_.clear();
  exchanges_.for_each([&](Exchange& x) {
    if (x.call != nullptr) x.call->mark = 0;
    release(x);
  });
  if (version_ == 0) return agreed(Agreement::kNoVersion2);
  owner_.on_dropped(*this, why);
}

void RdmaConnection::drop(Error why) {
  if (!std::exchange(open_, false)) return;
  endpoint_->disconnect(std::move(why));
}

}  // namespace nfsrdma::rdma
