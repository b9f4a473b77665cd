// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "transport/rdma/configuration.h"
#include "transport/rdma/responder.h"
#include "xdr/rpc.h"
#include "xdr/rpcrdma/private_data.h"

namespace nfsrdma::rdma {
namespace {

using rpcrdma::Defect;
using rpcrdma::segment;

constexpr size_t kLeastRpcBytes = 8;  // XID and message type

// How many of `segments` fit when the header is `excess` bytes too long.
uint32_t segments_fitting(size_t segments, size_t excess) {
  const size_t over = (excess + rpcrdma::kSegmentBytes - 1) / rpcrdma::kSegmentBytes;
  return static_cast<uint32_t>(segments - std::min(segments, over));
}

}  // namespace

Responder::Responder(std::unique_ptr<fabric::Endpoint> endpoint, ResponderOptions options,
                     ResponderEvents& events)
    : options_(options),
      events_(events),
      endpoint_(std::move(endpoint)),
      granted_(options.credits),
      most_granted_(options.first_credits == 0 ? options.credits
                                               : std::min(options.credits, options.first_credits)),
      call_credits_(options.callback_credits) {
  const rpcrdma::private_data theirs = rpcrdma::find_private_data(endpoint_->peer_private_data());
  // RFC 8797 section 4.2: "the smaller of its own send size and the client's reported receive size".
  inline_send_ = std::min(options_.inline_bytes, theirs.receive_bytes);
  client_invalidates_ = theirs.remote_invalidation;
}

void Responder::start() {
  endpoint_->start(*this);
}

void Responder::full_credits() {
  most_granted_ = options_.credits;
  window_ = std::max(window_, kSessionWindow);
}

void Responder::close(Error why) {
  closed_ = true;
  endpoint_->disconnect(std::move(why));
}

void Responder::broken(const char* what) {
  close({.layer = Layer::kTransport,
         .recovery = Recovery::kReconnect,
         .errnum = EPROTO,
         .op = "connection",
         .cause = what});
}

void Responder::on_disconnected(const Error& why) {
  closed_ = true;
  fetches_.clear();
  fetched_bytes_ = 0;
  offers_.clear();
  calls_.clear();
  events_.on_closed(why);
}

void Responder::on_receive(fabric::Received received) {
  if (closed_) return;
  // A client gets a credit back only with a reply, so for a client that respects its credits the replies that
  // wait here are never this long.
  if (endpoint_->unsent_bytes() > most_calls() * options_.max_call_bytes)
    return broken("the client asks, and does not take the answers");
  size_t length = 0;
  const Defect defect = rpcrdma::decode(received.message, in_, &length);
  if (!speak(defect)) return;
  const ConstBytes body = received.message.subspan(length);
  if (in_.type == rpcrdma::RDMA2_CONNPROP) return on_properties();
  if (in_.type == rpcrdma::RDMA_ERROR) {
    // An error for one of our calls: that call ends without a reply.
    if (call_credits_.outstanding() > 0) call_credits_.give_back();
    return pump_calls();
  }
  const bool whole = in_.type != rpcrdma::RDMA_MSG || body.size() >= kLeastRpcBytes;
  const bool reply = in_.type == rpcrdma::RDMA_MSG && whole && load_be32(body.data() + 4) == rpc::REPLY;
  bool sound = whole && (in_.type != rpcrdma::RDMA_MSG || load_be32(body.data()) == in_.xid);
  // Version 2 section 3.2: the flag "MUST be the same as the value of the associated RPC message's msg_type
  // field". A long reply is not possible: our calls offer no Reply chunk.
  if (version_ == 2) sound = sound && in_.response() == reply;
  if (!sound) {
    const bool answer = version_ == 2 ? in_.response() : reply;  // a reply is never answered
    if (!answer) refuse({version_ == 1 ? rpcrdma::ERR_CHUNK : rpcrdma::RDMA2_ERR_BAD_XDR, 0, 0});
    return;
  }
  if (reply) {
    call_credits_.granted(in_.credit);
    if (call_credits_.outstanding() > 0) call_credits_.give_back();
    events_.on_message(ByteVector(body.begin(), body.end()));
    return pump_calls();
  }
  on_call(body);
}

// Decides the connection's version and checks that this message has it. A client that receives ERR_VERS may
// continue in another version on the same connection (section 7; RFC 8166 section 4.5).
bool Responder::speak(Defect defect) {
  if (defect == Defect::kShort) {
    broken("a message without a transport header");
    return false;
  }
  // An error is never answered, even if it is malformed or of an unknown version, and it does not choose the
  // version.
  if (in_.type == rpcrdma::RDMA_ERROR) return defect == Defect::kNone && in_.vers == version_;
  if (version_ == 0 || in_.vers != version_) {
    const bool known = (in_.vers == 1 && options_.version1) || (in_.vers == 2 && options_.version2);
    if (!known || version_ != 0) {
      const uint32_t low = options_.version1 ? 1 : 2;
      const uint32_t high = options_.version2 ? 2 : 1;
      send_error(in_.xid, in_.vers, {rpcrdma::ERR_VERS, low, high});
      return false;
    }
    version_ = in_.vers;
    // Version 2's default until CONNPROP arrives, whatever the private data said.
    if (version_ == 2) inline_send_ = std::min<size_t>(options_.inline_bytes, 4096);
  }
  if (defect == Defect::kNone) return true;
  if (version_ == 1) {
    if (in_.type == rpcrdma::RDMA_DONE) return false;  // RFC 8166 section 4.6.2: discarded silently
    send_error(in_.xid, 1, {rpcrdma::ERR_CHUNK, 0, 0});
  } else if (!in_.response()) {  // a reply is never answered
    const bool type = defect == Defect::kType || defect == Defect::kForeign;
    send_error(in_.xid, 2, {type ? rpcrdma::RDMA2_ERR_INVAL_HTYPE : rpcrdma::RDMA2_ERR_BAD_XDR, 0, 0});
  }
  return false;
}

// Properties are exchanged once (section 5.3.4): the first ones are accepted and answered with ours.
void Responder::on_properties() {
  if (in_.response() || std::exchange(properties_seen_, true)) return;
  const size_t theirs = std::max<size_t>(in_.properties.receive_buffer_bytes, 1024);
  inline_send_ = std::min(options_.inline_bytes, theirs);
  begin_header(in_.xid, true);
  out_.type = rpcrdma::RDMA2_CONNPROP;
  out_.properties.receive_buffer_bytes = static_cast<uint32_t>(options_.receive_bytes);
  out_.properties.reverse_request_support = rpcrdma::RDMA2_RVREQSUP_INLINE;
  post({}, 0);
}

void Responder::refuse(const rpcrdma::error& error) {
  send_error(in_.xid, in_.vers, error);
}

void Responder::send_error(uint32_t xid, uint32_t vers, const rpcrdma::error& error) {
  ++counters_.errors_sent;
  begin_header(xid, true);
  out_.vers = vers;
  out_.type = rpcrdma::RDMA_ERROR;
  out_.error = error;
  // RFC 8166 section 4.5: the version of the failing request is returned, whatever it is; the layout is
  // fixed.
  if (error.code == rpcrdma::ERR_VERS) {
    out_.vers = 1;
    out_bytes_.clear();
    rpcrdma::encode(out_bytes_, out_);
    store_be32(out_bytes_.data() + 4, vers);
    const ConstBytes parts[] = {out_bytes_};
    return endpoint_->send(parts);
  }
  post({}, 0);
}

// --- calls

std::optional<rpcrdma::error> Responder::check_chunks(bool has_body) const {
  const rpcrdma::chunk_lists& c = in_.chunks;
  const auto refusal = [&](rpcrdma::errcode code, uint32_t limit) {
    return rpcrdma::error{version_ == 1 ? rpcrdma::ERR_CHUNK : code, version_ == 1 ? 0 : limit, 0};
  };
  std::map<uint32_t, size_t> positions;
  for (const rpcrdma::read_segment& r : c.reads) {
    if (r.position % 4 != 0) return refusal(rpcrdma::RDMA2_ERR_BAD_XDR, 0);
    if (++positions[r.position] > options_.max_segments)
      return refusal(rpcrdma::RDMA2_ERR_SEGMENTS, options_.max_segments);
  }
  if (positions.size() > options_.max_read_chunks)
    return refusal(rpcrdma::RDMA2_ERR_READ_CHUNKS, options_.max_read_chunks);
  if (c.writes.size() > options_.max_write_chunks)
    return refusal(rpcrdma::RDMA2_ERR_WRITE_CHUNKS, options_.max_write_chunks);
  bool too_many = c.reply.size() > options_.max_segments;
  for (size_t i = 0; i < c.writes.size(); ++i) too_many |= c.writes[i].size() > options_.max_segments;
  if (too_many) return refusal(rpcrdma::RDMA2_ERR_SEGMENTS, options_.max_segments);
  const bool zero = positions.contains(0);
  if (zero != (in_.type == rpcrdma::RDMA_NOMSG)) return refusal(rpcrdma::RDMA2_ERR_BAD_XDR, 0);
  // The whole message is in the chunk then.
  if (zero && has_body) return refusal(rpcrdma::RDMA2_ERR_BAD_XDR, 0);
  // The header of the reply repeats the call's Write list and Reply chunk; its Read list is empty (RFC 8166
  // section 4.3). That header must fit into the client's inline limit.
  const size_t segments = c.writes.all().size() + c.reply.size();
  const size_t bytes = rpcrdma::encoded_bytes(in_) - c.reads.size() * rpcrdma::kReadSegmentBytes;
  if (bytes > inline_send_)
    return refusal(rpcrdma::RDMA2_ERR_SEGMENTS, segments_fitting(segments, bytes - inline_send_));
  return std::nullopt;
}

// The handle that the reply may invalidate. Version 1 has no field for it: we take a handle from the call, if
// both sides set the R flag (RFC 8797 section 4.1).
uint32_t Responder::handle_to_invalidate() const {
  if (!options_.invalidate) return 0;
  if (version_ == 2) return in_.inv_handle;
  if (!client_invalidates_) return 0;
  const rpcrdma::chunk_lists& c = in_.chunks;
  if (c.has_reply && !c.reply.empty()) return c.reply.back().handle;
  if (!c.writes.all().empty()) return c.writes.all().back().handle;
  return c.reads.empty() ? 0 : c.reads.back().target.handle;
}

void Responder::on_call(ConstBytes body) {
  ++counters_.calls;
  if (offers_.size() >= most_calls()) return broken("more calls outstanding than credits were granted");
  // The replies of two such calls could not be told apart, and their memory would not be counted.
  if (offers_.contains(in_.xid)) return broken("a call with the XID of one that is outstanding");
  if (refusal_) {
    if (const auto error = refusal_(in_)) return refuse(*error);
  }
  if (const auto error = check_chunks(!body.empty())) return refuse(*error);
  Offer& offer = offers_[in_.xid];
  offer = Offer{in_.chunks.writes, in_.chunks.reply, in_.chunks.has_reply, handle_to_invalidate()};
  if (!in_.chunks.reads.empty()) return fetch(body);
  ++counters_.inline_calls;
  if (options_.configuration_protocol && version_ == 1 && answer_configuration(body)) return;
  events_.on_message(ByteVector(body.begin(), body.end()));
}

// RFC 5666 section 6.2. The client's new inline limit applies from the next reply on.
bool Responder::answer_configuration(ConstBytes body) {
  const rpcrdma::config_rdma_reply ours{static_cast<uint32_t>(options_.receive_bytes), 4,
                                        endpoint_->limits().incoming_reads};
  std::optional<rpcrdma::config_rdma_req> theirs;
  std::optional<ByteVector> reply = rdma::answer_configuration(body, ours, theirs);
  if (!reply) return false;
  send(*std::move(reply));
  if (theirs) inline_send_ = std::clamp<size_t>(theirs->maxreply_sendsize, 1024, options_.inline_bytes);
  return true;
}

// Each chunk is read to its place in the message; the inline bytes fill the rest. Chunks come without their
// padding (RFC 8166 section 3.4.5).
void Responder::fetch(ConstBytes body) {
  auto f = std::make_shared<Fetch>();
  f->xid = in_.xid;
  std::map<uint32_t, std::vector<const segment*>> chunks;
  for (const rpcrdma::read_segment& r : in_.chunks.reads) chunks[r.position].push_back(&r.target);
  std::map<uint32_t, uint64_t> sizes;
  uint64_t total = body.size();
  for (const auto& [position, segments] : chunks) {
    uint64_t bytes = 0;
    for (const segment* s : segments) bytes += s->length;
    if (bytes > options_.max_call_bytes) bytes = total = options_.max_call_bytes + 1;
    sizes[position] = bytes;
    total += position == 0 ? bytes : xdr_padded(bytes);
  }
  const rpcrdma::error bad{version_ == 1 ? rpcrdma::ERR_CHUNK : rpcrdma::RDMA2_ERR_BAD_XDR, 0, 0};
  const auto give_up = [&] {
    offers_.erase(f->xid);
    refuse(bad);
  };
  if (total > options_.max_call_bytes || total < kLeastRpcBytes) return give_up();
  size_t end = 0;
  for (const auto& [position, bytes] : sizes) {
    if (position == 0) continue;
    if (position < end || position + xdr_padded(bytes) > total) return give_up();
    end = position + xdr_padded(bytes);
    f->items.emplace_back(position, end);
  }
  f->total = total;
  const bool has_zero = chunks.contains(0);
  f->scatter = !has_zero || chunks.size() > 1;
  if (has_zero) {
    ++counters_.long_calls;
  } else {
    f->base.assign(body.begin(), body.end());
    counters_.read_chunks += chunks.size();
  }
  for (const auto& [position, segments] : chunks) {
    size_t offset = position;
    ByteVector& into = position == 0 && f->scatter ? f->base : f->message;
    for (const segment* s : segments) {
      if (s->length > 0) f->pieces.push_back({&into, offset, *s});
      offset += s->length;
    }
  }
  const uint64_t id = next_fetch_++;
  fetches_[id] = f;
  if (f->pieces.empty()) return on_fetched(id);
  pump_reads();
}

// Posts the next RDMA Reads, call by call, as far as window and memory limit allow.
void Responder::pump_reads() {
  if (closed_) return;
  for (const auto& [id, f] : fetches_) {
    if (f->pieces.empty()) continue;
    if (f->reserved == 0 && !begin(*f)) break;
    while (!f->pieces.empty()) {
      if (!ask_for_next(id, f)) return events_.on_held();
    }
  }
  events_.on_held();
}

// One call is always fetched, whatever its length. A further call begins only if the memory limit allows it.
// This reserves address space; ask_for_next() uses its pages.
bool Responder::begin(Fetch& f) {
  size_t base = 0;
  for (const Piece& p : f.pieces) {
    if (p.into == &f.base) base = std::max<size_t>(base, p.offset + p.source.length);
  }
  if (reserved_bytes_ > 0 && reserved_bytes_ + f.total + base > options_.max_fetch_bytes) return false;
  f.reserved = f.total + base;
  reserved_bytes_ += f.reserved;
  f.message.reserve(f.total);
  if (base > 0) f.base.reserve(base);
  return true;
}

// Posts the next RDMA Read of a call. Returns false if none may be posted before more bytes have arrived.
bool Responder::ask_for_next(uint64_t id, const std::shared_ptr<Fetch>& f) {
  Piece& p = f->pieces.front();
  // Do not post ever smaller RDMA Reads when the window is large: each costs a round trip.
  const size_t least = std::min<size_t>(p.source.length, std::max(kFirstWindow, window_ / 4));
  if (asked_bytes_ > 0 && asked_bytes_ + least > window_) return false;
  const auto n = static_cast<uint32_t>(std::min<size_t>(
      {p.source.length, endpoint_->limits().max_read_bytes, std::max(window_ - asked_bytes_, least)}));
  if (asked_.empty()) progress_ = Clock::now();
  const size_t had = p.into->size();
  p.into->resize(std::max(had, p.offset + n));  // within the reserved capacity: the vector does not move
  f->held += p.into->size() - had;
  fetched_bytes_ += p.into->size() - had;
  ++f->left;
  asked_.push_back(n);
  asked_bytes_ += n;
  endpoint_->read(MutableBytes(*p.into).subspan(p.offset, n), {p.source.handle, n, p.source.offset}, f, id);
  p.offset += n;
  p.source.offset += n;
  p.source.length -= n;
  if (p.source.length == 0) f->pieces.pop_front();
  return true;
}

void Responder::look(TimePoint now) {
  if (!closed_ && !asked_.empty() && now - progress_ > options_.read_deadline)
    broken("the client does not answer RDMA Reads");
}

void Responder::fill(Fetch& f, ConstBytes from) {
  size_t at = 0;
  const auto take = [&](size_t to) {
    const size_t n = to - at;
    if (n > 0) std::memcpy(f.message.data() + at, from.data(), n);
    from = from.subspan(n);
  };
  for (const auto& [begin, end] : f.items) {
    take(begin);
    at = end;
  }
  take(f.message.size());
}

// RDMA Reads complete in the order in which they were posted (RFC 5040 section 5.5; InfiniBand's ordering
// rules).
void Responder::on_completed(fabric::Cookie cookie) {
  const auto at = fetches_.find(cookie);
  if (at == fetches_.end() || asked_.empty()) return;
  const uint32_t bytes = asked_.front();
  asked_.pop_front();
  asked_bytes_ -= bytes;
  window_ = std::min(window_ + bytes, kMostWindow);
  progress_ = Clock::now();
  Fetch& f = *at->second;
  if (--f.left == 0 && f.pieces.empty()) on_fetched(cookie);
  pump_reads();
}

void Responder::on_fetched(uint64_t id) {
  const auto at = fetches_.find(id);
  const std::shared_ptr<Fetch> f = std::move(at->second);
  fetches_.erase(at);
  reserved_bytes_ -= f->reserved;
  fetched_bytes_ -= f->held;
  if (closed_) return;
  f->message.resize(f->total);
  if (f->scatter) fill(*f, f->base);
  if (load_be32(f->message.data()) != f->xid) {
    offers_.erase(f->xid);
    return send_error(f->xid, version_,
                      {version_ == 1 ? rpcrdma::ERR_CHUNK : rpcrdma::RDMA2_ERR_BAD_XDR, 0, 0});
  }
  events_.on_message(std::move(f->message));
}

}  // namespace nfsrdma::rdma
