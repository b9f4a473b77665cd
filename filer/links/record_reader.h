// SPDX-License-Identifier: Apache-2.0
// RecordReader: splits a byte stream into RPC messages (RFC 5531 section 11), for a server.
//
// It is fed with received bytes; take() returns whole messages in order. Memory grows with received bytes,
// not with a mark's claimed length. A record above the limit, or more than 16 empty fragments in a row,
// breaks the stream: see broken(). The client's reader in transport/tcp does not fit here: it places the bulk
// data of replies and accepts small calls only.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "xdr/record_mark.h"

namespace nfsrdma::filer::links {

class RecordReader {
 public:
  explicit RecordReader(size_t max_bytes) : max_bytes_(max_bytes) {}

  bool broken() const { return broken_; }
  // Whether the first byte of a record has been received and the last has not.
  bool inside_record() const { return mark_bytes_ > 0 || in_fragment_ || !message_.empty(); }
  size_t held_bytes() const { return message_.capacity(); }

  // Returns the next message if `in` completes one. Consumed bytes are removed from `in`.
  std::optional<ByteVector> take(ConstBytes& in) {
    while (!in.empty() && !broken_) {
      if (!in_fragment_) {
        read_mark(in);
      } else {
        const size_t n = std::min(in.size(), left_);
        message_.insert(message_.end(), in.begin(), in.begin() + static_cast<ptrdiff_t>(n));
        in = in.subspan(n);
        left_ -= n;
      }
      if (in_fragment_ && left_ == 0 && !broken_) {
        in_fragment_ = false;
        if (last_) return std::exchange(message_, {});
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr unsigned kMaxEmptyFragments = 16;

  void read_mark(ConstBytes& in) {
    while (!in.empty() && mark_bytes_ < rpc::kRecordMarkBytes) {
      mark_[mark_bytes_++] = in.front();
      in = in.subspan(1);
    }
    if (mark_bytes_ < rpc::kRecordMarkBytes) return;
    mark_bytes_ = 0;
    const rpc::RecordMark mark = rpc::decode_record_mark(mark_);
    empty_fragments_ = mark.length == 0 ? empty_fragments_ + 1 : 0;
    broken_ = mark.length > max_bytes_ - message_.size() || empty_fragments_ > kMaxEmptyFragments;
    in_fragment_ = true;
    last_ = mark.last;
    left_ = mark.length;
  }

  const size_t max_bytes_;
  std::array<std::byte, rpc::kRecordMarkBytes> mark_{};
  size_t mark_bytes_ = 0;
  bool in_fragment_ = false;
  bool last_ = false;
  size_t left_ = 0;
  unsigned empty_fragments_ = 0;
  bool broken_ = false;
  ByteVector message_;
};

}  // namespace nfsrdma::filer::links
