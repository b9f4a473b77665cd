// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "transport/rdma/responder.h"
#include "xdr/rpc.h"

namespace nfsrdma::rdma {
namespace {

using rpcrdma::segment;

void set_lengths_to_zero(std::span<segment> chunk) {
  for (segment& s : chunk) s.length = 0;
}

}  // namespace

void Responder::begin_header(uint32_t xid, bool response) {
  out_.clear();
  out_.xid = xid;
  out_.vers = version_ == 0 ? rpcrdma::kVersion1 : version_;
  out_.credit = response ? granted() : call_credits_.requested();
  out_.flags = response ? rpcrdma::RPCRDMA2_F_RESPONSE : 0;
}

void Responder::post(ConstBytes body, uint32_t invalidate) {
  out_bytes_.clear();
  rpcrdma::encode(out_bytes_, out_);
  const ConstBytes parts[] = {out_bytes_, body};
  if (invalidate != 0) ++counters_.invalidated;
  endpoint_->send(parts, invalidate);
}

void Responder::send(ByteVector message, std::span<const rpc::BulkPlace> items) {
  if (closed_ || message.size() < 8) return;
  if (load_be32(message.data() + 4) == rpc::CALL) {
    calls_.push_back(std::move(message));
    return pump_calls();
  }
  send_reply(std::move(message), items);
}

// RFC 8167: calls in the reverse direction are inline and have their own credits.
void Responder::pump_calls() {
  while (!closed_ && !calls_.empty() && call_credits_.available(true)) {
    const ByteVector message = std::move(calls_.front());
    calls_.pop_front();
    call_credits_.take();
    begin_header(load_be32(message.data()), false);
    post(message, 0);
  }
}

void Responder::write_chunk(std::span<segment> chunk, ConstBytes data, const fabric::Owner& owner) {
  for (segment& s : chunk) {
    const size_t n = std::min<size_t>(s.length, data.size());
    if (n > 0) endpoint_->write(s, data.first(n), owner, 0, false);
    s.length = static_cast<uint32_t>(n);
    data = data.subspan(n);
  }
}

// Writes data items into the Write chunks, in order; `rest` is the message without them. RFC 8166 section
// 4.3.2: each item takes the next chunk. A chunk without segments requests its item inline, whatever its
// length. Otherwise an item of zero length uses no chunk: the chunk is left for the next item.
std::optional<rpcrdma::error> Responder::place_items(Offer& offer, const Message& message,
                                                     std::span<const rpc::BulkPlace> items, Message& rest) {
  const ConstBytes whole = *message;
  ByteVector left;
  size_t at = 0;
  size_t chunk = 0;
  for (const rpc::BulkPlace& item : items) {
    if (chunk == offer.writes.size()) break;
    if (item.offset < at || item.offset + xdr_padded(item.length) > whole.size())
      break;  // not a place in this message
    const std::span<segment> target = offer.writes[chunk];
    if (item.length == 0 && !target.empty()) continue;
    ++chunk;
    if (target.empty()) continue;
    const uint64_t room = rpcrdma::chunk_bytes(target);
    if (item.length > room) {
      if (version_ == 1) return rpcrdma::error{rpcrdma::ERR_CHUNK, 0, 0};
      return rpcrdma::error{rpcrdma::RDMA2_ERR_WRITE_RESOURCE, static_cast<uint32_t>(chunk),
                            static_cast<uint32_t>(item.length)};
    }
    ++counters_.write_chunks;
    write_chunk(target, whole.subspan(item.offset, item.length), message);
    left.insert(left.end(), whole.begin() + static_cast<ptrdiff_t>(at),
                whole.begin() + static_cast<ptrdiff_t>(item.offset));
    at = item.offset + xdr_padded(item.length);
  }
  for (; chunk < offer.writes.size(); ++chunk) set_lengths_to_zero(offer.writes[chunk]);
  rest = message;
  if (at == 0) return std::nullopt;
  left.insert(left.end(), whole.begin() + static_cast<ptrdiff_t>(at), whole.end());
  rest = std::make_shared<ByteVector>(std::move(left));
  return std::nullopt;
}

void Responder::send_reply(ByteVector given, std::span<const rpc::BulkPlace> items) {
  const uint32_t xid = load_be32(given.data());
  Offer offer;
  if (const auto at = offers_.find(xid); at != offers_.end()) {
    offer = std::move(at->second);
    offers_.erase(at);
  }
  const auto message = std::make_shared<const ByteVector>(std::move(given));
  Message rest;
  if (const auto error = place_items(offer, message, items, rest)) return send_error(xid, version_, *error);
  begin_header(xid, true);
  out_.chunks.writes = std::move(offer.writes);
  out_.chunks.has_reply = offer.has_reply;
  out_.chunks.reply = std::move(offer.reply);
  const size_t header = rpcrdma::encoded_bytes(out_);
  const uint64_t room = rpcrdma::chunk_bytes(out_.chunks.reply);
  const bool fits = header + rest->size() <= inline_send_;
  if (fits && !(offer.has_reply && options_.use_every_reply_chunk)) {
    ++counters_.inline_replies;
    set_lengths_to_zero(out_.chunks.reply);
    return post(*rest, offer.inv_handle);
  }
  // The header alone is too long if the client's inline limit has become smaller since the call.
  if (!offer.has_reply || rest->size() > room || header > inline_send_) {
    // The call was executed, but the reply cannot be sent: a client that retries gets it from the session's
    // reply cache.
    if (version_ == 1) return send_error(xid, version_, {rpcrdma::ERR_CHUNK, 0, 0});
    return send_error(xid, version_,
                      {rpcrdma::RDMA2_ERR_REPLY_RESOURCE, static_cast<uint32_t>(rest->size()), 0});
  }
  ++counters_.reply_chunks;
  out_.type = rpcrdma::RDMA_NOMSG;
  write_chunk(out_.chunks.reply, *rest, rest);
  post({}, offer.inv_handle);
}

}  // namespace nfsrdma::rdma
