#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/rdma/connection.h"

namespace nfsrdma::rdma {
namespace {

using rpcrdma::errcode;

// A Responder that always wants something else must not keep a call for ever.
constexpr unsigned kMaxRepeats = 3;

const char* text_of(uint32_t version, errcode code) {
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
  if (in_.error.code == rpcrdma::ERR_VERS)
    return broken("the server does not speak the version that was agreed upon");
  rpc::PendingCall* p = pending(in_.xid);
  Exchange* x = p != nullptr ? &exchanges_.at(p->mark) : exchanges_.find_abandoned(in_.xid);
  if (x == nullptr) return stray();
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
  refuse(
      *x,
      {Layer::kTransport, Recovery::kPermanent, EIO, in_.error.code, "", text_of(version_, in_.error.code)},
      invalidated);
}

// RFC 8267 section 3.1: ERR_CHUNK to a call whose reply was too long for what it offered. Nothing else can be
// mended: the server says no more.
bool RdmaConnection::react_version1(Exchange& x) {
  if (x.plan.reply == ReplyForm::kWriteChunk || x.reply_at_least != 0) return false;
  if (x.plan.reply_chunk >= options_.max_reply_bytes) return false;
  x.reply_at_least = options_.max_reply_bytes;
  return true;
}

// draft-cel-nfsv4-rpcrdma-version-two-09 section 5.3.3, what each error asks for. The same XID, and the same
// session slot and sequence ID: the server may have executed the call.
bool RdmaConnection::react_version2(Exchange& x) {
  const rpcrdma::error& e = in_.error;
  switch (e.code) {
    case rpcrdma::RDMA2_ERR_READ_CHUNKS:
      // "SHOULD send the request again using a Position-Zero Read chunk"; if it was one, the transaction
      // ends.
      return x.plan.call == CallForm::kReadChunk && std::exchange(x.no_read_chunk, true) == false;
    case rpcrdma::RDMA2_ERR_WRITE_CHUNKS:
      return x.plan.reply == ReplyForm::kWriteChunk && std::exchange(x.no_write_chunk, true) == false;
    case rpcrdma::RDMA2_ERR_SEGMENTS: {
      // One buffer instead of what lies where it lies.
      const bool read = x.plan.call == CallForm::kReadChunk && !x.no_read_chunk && x.read_segments > e.first;
      const bool write =
          x.plan.reply == ReplyForm::kWriteChunk && !x.no_write_chunk && x.reply_segments().size() > e.first;
      x.no_read_chunk |= read;
      x.no_write_chunk |= write;
      return read || write;
    }
    case rpcrdma::RDMA2_ERR_WRITE_RESOURCE:
      // The sink is as long as the READ asks for: more cannot be needed there, but in a reply as a whole.
      if (e.first == 0 || e.second == 0) return false;
      return x.plan.reply == ReplyForm::kWriteChunk && std::exchange(x.no_write_chunk, true) == false;
    case rpcrdma::RDMA2_ERR_REPLY_RESOURCE:
      if (e.first == 0 || e.first > options_.max_reply_bytes || e.first <= x.reply_at_least) return false;
      x.reply_at_least = e.first;
      x.no_write_chunk = true;
      return true;
    default: return false;
  }
}

// The exchange's memory is closed; its credit is still taken.
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
  rdma_counters_.calls_repeated.add();
  if (transmit(x)) return;
  credits_.give_back();
  x.refused = std::make_unique<Error>(
      Error{Layer::kTransport, Recovery::kPermanent, EIO, 0, "", "no memory to send the call again"});
  // What could be opened of it is closed again first.
  if (!x.invalidating) finish(x);
}

// To a call of the server. The credit is our grant for its direction.
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
