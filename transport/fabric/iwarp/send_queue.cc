// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/send_queue.h"

#include <algorithm>
#include <utility>

#include "transport/fabric/iwarp/crc32c.h"

namespace nfsrdma::fabric::iwarp {
namespace {

// Payload of one batch. A larger one would exceed what a socket's buffer takes at once, and its CRCs would be
// calculated too early.
constexpr size_t kBatchBytes = 512u << 10;

}  // namespace

SendQueue::Operation& SendQueue::push(Opcode opcode, bool tagged) {
  Operation& o = operations_.emplace_back();
  o.header.opcode = opcode;
  o.header.tagged = tagged;
  return o;
}

SendQueue::Operation& SendQueue::push_untagged(Opcode opcode, uint32_t queue) {
  Operation& o = push(opcode, false);
  o.header.queue = queue;
  o.header.msn = msn_[queue]++;
  return o;
}

void SendQueue::send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) {
  Opcode opcode = solicited ? Opcode::kSendSolicited : Opcode::kSend;
  if (invalidate != 0) opcode = solicited ? Opcode::kSendSolicitedInvalidate : Opcode::kSendInvalidate;
  Operation& o = push_untagged(opcode, kSendQueue);
  o.header.invalidate = invalidate;
  size_t total = 0;
  for (const ConstBytes part : parts) total += part.size();
  o.owned.reserve(total);
  for (const ConstBytes part : parts) o.owned.insert(o.owned.end(), part.begin(), part.end());
  o.payload = o.owned;
  owned_bytes_ += total;
}

void SendQueue::write(const rpcrdma::segment& target, ConstBytes source, Owner owner,
                      std::optional<Cookie> cookie) {
  Operation& o = push(Opcode::kWrite, true);
  o.header.stag = target.handle;
  o.header.offset = target.offset;
  o.payload = source;
  o.owner = std::move(owner);
  o.cookie = cookie;
  write_bytes_ += source.size();
}

void SendQueue::read_request(const ReadRequest& request) {
  Operation& o = push_untagged(Opcode::kReadRequest, kReadRequestQueue);
  o.owned.resize(kReadRequestBytes);
  store_read_request(request, o.owned.data());
  o.payload = o.owned;
}

void SendQueue::read_response(const ReadRequest& request, ConstBytes source) {
  Operation& o = push(Opcode::kReadResponse, true);
  o.header.stag = request.sink_stag;
  o.header.offset = request.sink_offset;
  o.payload = source;
  o.source_stag = request.source_stag;
  ++read_responses_;
}

void SendQueue::nudge() {
  push(Opcode::kWrite, true);
}

bool SendQueue::sends_from(uint32_t stag) const {
  if (read_responses_ == 0) return false;
  return std::any_of(operations_.begin(), operations_.end(), [&](const Operation& o) {
    return o.header.opcode == Opcode::kReadResponse && o.source_stag == stag && !o.payload.empty();
  });
}

std::span<iovec> SendQueue::front() {
  if (pieces_begin_ == pieces_.size()) prepare();
  return std::span(pieces_).subspan(pieces_begin_);
}

void SendQueue::prepare() {
  frames_.clear();
  pieces_.clear();
  pieces_begin_ = 0;
  piece_begun_ = false;
  size_t bytes = 0;
  for (Operation& o : operations_) {
    while (!o.all_cut) {
      if (frames_.size() == kMaxFrames || bytes >= kBatchBytes) return;
      bytes += cut_frame(o);
    }
  }
}

size_t SendQueue::cut_frame(Operation& o) {
  const size_t header_bytes = o.header.header_bytes();
  const size_t most = limits_.ulpdu_bytes - header_bytes;
  const size_t left = o.payload.size() - o.cut;
  const bool short_one = limits_.short_first && o.header.tagged && left % most != 0;
  const size_t bytes = short_one ? left % most : std::min(left, most);
  const ConstBytes payload = o.payload.subspan(o.cut, bytes);
  const size_t padding = fpdu_padding(header_bytes + bytes);
  o.cut += bytes;
  o.all_cut = o.cut == o.payload.size();
  o.header.last = o.all_cut;

  Frame& f = frames_.emplace_back();
  store_be16(f.header.data(), static_cast<uint16_t>(header_bytes + bytes));
  store_segment(o.header, f.header.data() + kLengthBytes);
  f.trailer = {};
  if (limits_.crc) {
    Crc32c crc;
    crc.add({f.header.data(), kLengthBytes + header_bytes});
    crc.add(payload);
    crc.add({f.trailer.data(), padding});
    crc.store(f.trailer.data() + padding);
  }
  add_piece(f.header.data(), kLengthBytes + header_bytes);
  if (bytes > 0) add_piece(payload.data(), bytes);
  add_piece(f.trailer.data(), padding + kCrcBytes);
  f.pieces_end = pieces_.size();
  if (o.all_cut) o.pieces_end = pieces_.size();

  if (o.header.tagged) {
    o.header.offset += bytes;
  } else {
    o.header.message_offset += static_cast<uint32_t>(bytes);
  }
  return bytes;
}

void SendQueue::add_piece(const std::byte* data, size_t bytes) {
  pieces_.push_back({const_cast<std::byte*>(data), bytes});
}

void SendQueue::advance(size_t bytes) {
  while (bytes > 0) {
    iovec& piece = pieces_[pieces_begin_];
    piece_begun_ = bytes < piece.iov_len;
    if (piece_begun_) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + bytes;
      piece.iov_len -= bytes;
      break;
    }
    bytes -= piece.iov_len;
    ++pieces_begin_;
  }
  end_sent_operations();
}

// Each operation ends by itself, not with its batch: a peer that has all data of a Read may send a result
// made from it while the rest of the batch is still here.
void SendQueue::end_sent_operations() {
  if (pieces_begin_ == pieces_.size()) tail_.clear();
  while (!operations_.empty() && operations_.front().all_cut &&
         operations_.front().pieces_end <= pieces_begin_) {
    Operation& o = operations_.front();
    if (o.header.opcode == Opcode::kWrite) {
      done_.bytes_written += o.payload.size();
      write_bytes_ -= o.payload.size();
    }
    if (o.header.opcode == Opcode::kReadResponse) {
      done_.bytes_fetched += o.payload.size();
      --read_responses_;
    }
    if (o.header.queue == kSendQueue) owned_bytes_ -= o.owned.size();
    if (o.cookie) done_.cookies.push_back(*o.cookie);
    operations_.pop_front();
  }
}

// The unsent rest of a frame whose beginning was sent.
ByteVector SendQueue::rest_of_frame() const {
  ByteVector rest;
  size_t begin = 0;
  for (const Frame& f : frames_) {
    if (f.pieces_end <= pieces_begin_) {
      begin = f.pieces_end;
      continue;
    }
    if (pieces_begin_ == begin && !piece_begun_) break;  // this frame has not begun
    for (size_t i = pieces_begin_; i < f.pieces_end; ++i) {
      const auto* data = static_cast<const std::byte*>(pieces_[i].iov_base);
      rest.insert(rest.end(), data, data + pieces_[i].iov_len);
    }
    break;
  }
  return rest;
}

void SendQueue::finish(const std::optional<Terminate>& last) {
  if (!tail_.empty()) return;  // finish() was called before
  ByteVector rest = rest_of_frame();
  operations_.clear();
  frames_.clear();
  pieces_.clear();
  pieces_begin_ = 0;
  piece_begun_ = false;
  read_responses_ = 0;
  owned_bytes_ = 0;
  write_bytes_ = 0;
  done_ = {};
  if (last) {
    Operation& o = push_untagged(Opcode::kTerminate, kTerminateQueue);
    o.owned = encode(*last);
    o.payload = o.owned;
    cut_frame(o);
    for (const iovec& piece : pieces_) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      rest.insert(rest.end(), data, data + piece.iov_len);
    }
    operations_.clear();
    frames_.clear();
    pieces_.clear();
  }
  tail_ = std::move(rest);
  if (!tail_.empty()) add_piece(tail_.data(), tail_.size());
}

}  // namespace nfsrdma::fabric::iwarp
