// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/send_queue.h"

#include <algorithm>
#include <utility>

#include "transport/runtime/check.h"
#include "xdr/record_mark.h"

namespace nfsrdma::tcp {
namespace {

// XDR padding is zero (RFC 4506 section 4.10).
constexpr std::array<std::byte, 4> kZeros{};

}  // namespace

SendQueue::SendQueue(size_t fragment_bytes)
    : fragment_bytes_(fragment_bytes == 0 ? rpc::kFragmentLengthMask
                                          : std::min<size_t>(fragment_bytes, rpc::kFragmentLengthMask)) {}

void SendQueue::push(PendingCall& p) {
  const rpc::MessageParts& message = p.call->message();
  size_t bytes = message.head.size();
  for (const xdr::Bulk& bulk : message.bulks) bytes += xdr_padded(bulk.data.size());

  Record& record = records_.emplace_back();
  record.call = &p;
  begin(record, bytes);
  const ConstBytes head = message.head;
  size_t at = 0;
  for (const xdr::Bulk& bulk : message.bulks) {
    NFSRDMA_CHECK(bulk.inline_offset >= at && bulk.inline_offset <= head.size());
    add(record, head.subspan(at, bulk.inline_offset - at));
    at = bulk.inline_offset;
    add(record, bulk.data);
    add(record, ConstBytes(kZeros).first(xdr_padding(bulk.data.size())));
  }
  add(record, head.subspan(at));
  record.left = record.bytes;
}

void SendQueue::push(ByteVector message) {
  Record& record = records_.emplace_back();
  record.reply = true;
  ++replies_;
  record.owned = std::move(message);
  begin(record, record.owned.size());
  add(record, record.owned);
  record.left = record.bytes;
}

void SendQueue::begin(Record& record, size_t message_bytes) {
  NFSRDMA_CHECK(message_bytes > 0);
  (void)record;
  record_room_ = message_bytes;
  fragment_room_ = 0;
}

void SendQueue::add(Record& record, ConstBytes bytes) {
  while (!bytes.empty()) {
    if (fragment_room_ == 0) {
      fragment_room_ = std::min(record_room_, fragment_bytes_);
      const bool last = fragment_room_ == record_room_;
      marks_.push_back(rpc::encode_record_mark({last, static_cast<uint32_t>(fragment_room_)}));
      ++record.marks;
      add_piece(record, marks_.back().data(), marks_.back().size());
    }
    const size_t n = std::min(bytes.size(), fragment_room_);
    add_piece(record, bytes.data(), n);
    bytes = bytes.subspan(n);
    fragment_room_ -= n;
    record_room_ -= n;
  }
}

void SendQueue::add_piece(Record& record, const std::byte* data, size_t size) {
  // sendmsg only reads; iovec has no const.
  iov_.push_back({const_cast<std::byte*>(data), size});
  ++record.pieces;
  record.bytes += size;
}

std::span<iovec> SendQueue::front(size_t max) {
  return std::span(iov_).subspan(iov_begin_).first(std::min(max, iov_.size() - iov_begin_));
}

void SendQueue::advance(size_t n, Observer& observer) {
  while (n > 0) {
    Record& record = records_.front();
    if (record.call != nullptr && record.left == record.bytes) observer.first_byte_sent(*record.call);
    iovec& piece = iov_[iov_begin_];
    const size_t used = std::min(n, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + used;
    piece.iov_len -= used;
    record.left -= used;
    n -= used;
    if (piece.iov_len == 0) {
      ++iov_begin_;
      --record.pieces;
    }
    if (record.left != 0) continue;
    marks_.erase(marks_.begin(), marks_.begin() + static_cast<ptrdiff_t>(record.marks));
    PendingCall* call = record.call;
    if (record.reply) --replies_;
    records_.pop_front();
    if (call != nullptr) observer.last_byte_sent(*call);
  }
  if (iov_begin_ == iov_.size()) {
    iov_.clear();
    iov_begin_ = 0;
  } else if (iov_begin_ > iov_.size() / 2) {
    iov_.erase(iov_.begin(), iov_.begin() + static_cast<ptrdiff_t>(iov_begin_));
    iov_begin_ = 0;
  }
}

bool SendQueue::forget(PendingCall& call) {
  auto piece = iov_.begin() + static_cast<ptrdiff_t>(iov_begin_);
  for (auto record = records_.begin(); record != records_.end(); ++record) {
    const auto pieces = static_cast<ptrdiff_t>(record->pieces);
    if (record->call != &call) {
      piece += pieces;
      continue;
    }
    record->call = nullptr;
    if (record->left != record->bytes) {
      record->owned = std::move(call.call->head);  // moving leaves the bytes where they are
      record->keep = std::move(call.call->keep);
      record->sealed = std::move(call.call->sealed);
      return true;
    }
    iov_.erase(piece, piece + pieces);
    // The record's marks stay in marks_ until the record before it is sent: give them to that record, or drop
    // them at the front.
    if (record == records_.begin()) {
      marks_.erase(marks_.begin(), marks_.begin() + static_cast<ptrdiff_t>(record->marks));
    } else {
      std::prev(record)->marks += record->marks;
    }
    records_.erase(record);
    return false;
  }
  return false;
}

}  // namespace nfsrdma::tcp
