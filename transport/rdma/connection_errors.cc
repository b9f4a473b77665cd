// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/rdma/connection.h"
#include "transport/rpc/call_security.h"

namespace nfsrdma::rdma {
namespace {

using rpcrdma::errcode;

// Limits how long a Responder that always requires something else can keep a call.
constexpr unsigned kMaxRepeats = 3;
// RFC 8166 section 3.3.2: what each side must accept without any agreement.
constexpr size_t kLeastInlineBytes = 1024;

const char* text_of(uint32_t version, errcode code) {
  if (code == rpcrdma::ERR_VERS)
    return "the server does not speak the version that was agreed upon (ERR_VERS)";
  if (version == rpcrdma::kVersion1) return "the server refused the chunks (ERR_CHUNK)";
  switch (code) {
    case rpcrdma::RDMA2_ERR_BAD_XDR: return "the server could not decode the transport header (BAD_XDR)";
    case rpcrdma::RDMA2_ERR_INVAL_HTYPE: return "the server does not know the header type (INVAL_HTYPE)";
    case rpcrdma::RDMA2_ERR_READ_CHUNKS: return "the server refused the Read chunks (READ_CHUNKS)";
    case rpcrdma::RDMA2_ERR_WRITE_CHUNKS: return "the server refused the Write chunks (WRITE_CHUNKS)";
    case rpcrdma::RDMA2_ERR_SEGMENTS: return "the server refused the number of segments (SEGMENTS)";
    case rpcrdma::RDMA2_ERR_WRITE_RESOURCE: return "a Write chunk was too small (WRITE_RESOURCE)";
    case rpcrdma::RDMA2_ERR_REPLY_RESOURCE: return "the Reply chunk was too small (REPLY_RESOURCE)";
    case rpcrdma::RDMA2_ERR_SYSTEM: return "the server failed (SYSTEM)";
    default: return "the server reported an error of an unknown code";
  }
}

}  // namespace

void RdmaConnection::on_error(uint32_t invalidated) {
  rdma_counters_.errors_received.add();
  rpc::PendingCall* p = pending(in_.xid);
  Exchange* x = p != nullptr ? &exchanges_.at(p->mark) : exchanges_.find_abandoned(in_.xid);
  if (x == nullptr) return stray();
  if (speaks_only_version2()) {
    versions_->note_has_version2();
    return broken("the server does not speak version 1, but version 2");
  }
  // Version 2 section 5.3.3: a receiver "MUST ignore" the credits of an error.
  if (version_ == rpcrdma::kVersion1) credits_.granted(in_.credit);
  const bool again = p != nullptr && x->repeats < kMaxRepeats &&
                     (version_ == rpcrdma::kVersion1 ? react_version1(*x) : react_version2(*x));
  if (again) {
    x->again = true;
    return close(*x, invalidated);
  }
  credits_.give_back();
  if (p == nullptr) return on_abandoned(*x);
  refuse(*x,
         {.layer = Layer::kTransport,
          .recovery = Recovery::kPermanent,
          .errnum = EIO,
          .status = in_.error.code,
          .cause = text_of(version_, in_.error.code)},
         invalidated);
}

// Version 1 may be in use only because the connection was lost or silent during the agreement on version 2.
// That says nothing about the server. RFC 8166 section 4.5.1: ERR_VERS names the versions that the server
// supports.
bool RdmaConnection::speaks_only_version2() const {
  const rpcrdma::error& e = in_.error;
  return version_ == rpcrdma::kVersion1 && options_.versions == Versions::kAuto && versions_ != nullptr &&
         e.code == rpcrdma::ERR_VERS && e.first > rpcrdma::kVersion1 && e.first <= rpcrdma::kVersion2 &&
         e.second >= rpcrdma::kVersion2;
}

// RFC 8166 section 4.5: "Receipt of this procedure completes the RPC transaction associated with XID in the
// rdma_xid field". The exception is ERR_CHUNK for a call whose reply did not fit the chunks that it offered
// (RFC 8267 section 3.1). Nothing else can be corrected, because the server gives no details.
bool RdmaConnection::react_version1(Exchange& x) {
  if (in_.error.code != rpcrdma::ERR_CHUNK) return false;
  if (x.plan.reply == ReplyForm::kWriteChunk || x.reply_at_least != 0) return false;
  if (x.plan.reply_chunk >= options_.max_reply_bytes) return false;
  if (x.plan.reply == ReplyForm::kInline) expect_no_inline_reply_of(kLeastInlineBytes);
  x.reply_at_least = options_.max_reply_bytes;
  return true;
}

// The Responder Sends less inline than its announcement allows. Plan later calls accordingly: a session's
// slot usually does not cache their replies, so a call that is sent again would get none.
void RdmaConnection::expect_no_inline_reply_of(size_t bytes) {
  inline_receive_ = std::min(inline_receive_, std::max<size_t>(bytes, kLeastInlineBytes));
  rdma_counters_.inline_receive.store(inline_receive_, std::memory_order_relaxed);
}

// The reaction to each error of draft-cel-nfsv4-rpcrdma-version-two-09 section 5.3.3. The call keeps its XID,
// session slot and sequence ID, because the server may have executed it. It is sent again only if it then
// offers more of what was too small; an error that contradicts the call ends it.
bool RdmaConnection::react_version2(Exchange& x) {
  const rpcrdma::error& e = in_.error;
  switch (e.code) {
    case rpcrdma::RDMA2_ERR_READ_CHUNKS:
      // "The requester SHOULD resend the request using a Position-Zero Read chunk." If it had one already,
      // the transaction ends.
      if (x.plan.call != CallForm::kReadChunk) return false;
      x.no_read_chunk = true;
      return true;
    case rpcrdma::RDMA2_ERR_WRITE_CHUNKS:
      // "The requester SHOULD resend the request with no Write chunks and a Reply chunk of appropriate size."
      if (x.plan.reply != ReplyForm::kWriteChunk) return false;
      x.no_write_chunk = true;
      return true;
    case rpcrdma::RDMA2_ERR_SEGMENTS: return offer_fewer_segments(x, e.first);
    case rpcrdma::RDMA2_ERR_WRITE_RESOURCE: return offer_longer_item(x, e.first, e.second);
    case rpcrdma::RDMA2_ERR_REPLY_RESOURCE: return offer_longer_reply(x, e.first);
    default: return false;
  }
}

// Uses one buffer instead of the memory where the data lies. What already is one buffer cannot have fewer
// segments.
bool RdmaConnection::offer_fewer_segments(Exchange& x, uint32_t most) {
  const bool read = x.read_segments > most;
  const bool reply = x.reply_segments().size() > most;
  if (most == 0 || (!read && !reply)) return false;
  if (read && x.plan.call != CallForm::kReadChunk) return false;
  if (reply && x.plan.reply != ReplyForm::kWriteChunk) return false;
  x.no_read_chunk |= read;
  x.no_write_chunk |= reply;
  return true;
}

// The sink has the length that the READ asked for and cannot grow, so the next attempt offers a chunk for the
// whole reply. `index` counts from one. 0: the Responder does not know the chunk, but there was only one.
bool RdmaConnection::offer_longer_item(Exchange& x, uint32_t index, uint32_t needed) {
  if (x.plan.reply != ReplyForm::kWriteChunk || index > 1) return false;
  if (needed <= rpcrdma::chunk_bytes(x.reply_segments())) return false;
  const size_t whole = x.call->call->max_reply_bytes + xdr_padded(needed);
  if (whole > options_.max_reply_bytes) return false;
  x.reply_at_least = whole;
  x.no_write_chunk = true;
  return true;
}

// For a call with a Write chunk, `needed` is the size of the rest of the reply. Servers may not handle both
// chunks together (plan.h), so the Reply chunk has room for the data item, too.
bool RdmaConnection::offer_longer_reply(Exchange& x, uint32_t needed) {
  const bool placed = x.plan.reply == ReplyForm::kWriteChunk;
  const uint64_t had = x.plan.reply == ReplyForm::kReplyChunk ? rpcrdma::chunk_bytes(x.reply_segments()) : 0;
  if (needed <= had || needed > options_.max_reply_bytes) return false;
  if (x.plan.reply != ReplyForm::kReplyChunk) expect_no_inline_reply_of(needed);
  const size_t item = placed ? xdr_padded(x.call->call->sink.destination.size()) : 0;
  x.reply_at_least = std::min(needed + item, options_.max_reply_bytes);
  x.no_write_chunk = true;
  return true;
}

// The exchange's memory is closed; it still holds its credit.
void RdmaConnection::send_again(Exchange& x) {
  x.again = false;
  ++x.repeats;
  forget_exposed(x);
  x.keep.clear();
  x.piped = {};
  x.reply_chunk = {};
  if (version_ == rpcrdma::kVersion1) {  // RFC 8267 section 3.1: a new XID
    calls_.renew_xid(*x.call);
    x.xid = x.call->xid;
  }
  rpc::Call& call = *x.call->call;
  if (call.security != nullptr) {  // RFC 2203 section 5.3.3.1: a new sequence number
    if (Result<> sealed = call.security->seal(call); !sealed) return end_repeat(x, std::move(sealed).error());
  }
  rdma_counters_.calls_repeated.add();
  if (transmit(x)) {
    ++x.call->transmissions;  // the server may have executed the one before
    return;
  }
  end_repeat(x, {.layer = Layer::kTransport,
                 .recovery = Recovery::kPermanent,
                 .errnum = EIO,
                 .cause = "no memory to send the call again"});
}

void RdmaConnection::end_repeat(Exchange& x, Error why) {
  credits_.give_back();
  x.refused = std::make_unique<Error>(std::move(why));
  x.state = Exchange::State::kClosing;
  // The memory that was opened is closed, or is being closed.
  if (!x.invalidating) finish(x);
}

// Answers a call of the server with RDMA_ERROR. The credit field is our grant for the reverse direction.
void RdmaConnection::send_error(const rpcrdma::header& to, const rpcrdma::error& error) {
  rdma_counters_.errors_sent.add();
  out_.clear();
  out_.xid = to.xid;
  out_.vers = to.vers;
  out_.credit = options_.callback_credits;
  out_.type = rpcrdma::RDMA_ERROR;
  out_.flags = rpcrdma::RPCRDMA2_F_RESPONSE;
  out_.error = error;
  out_bytes_.clear();
  rpcrdma::encode(out_bytes_, out_);
  const ConstBytes parts[] = {out_bytes_};
  endpoint_->send(parts);
}

}  // namespace nfsrdma::rdma
