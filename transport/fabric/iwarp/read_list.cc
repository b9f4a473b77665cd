// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/read_list.h"

namespace nfsrdma::fabric::iwarp {

void ReadList::push(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) {
  Read r;
  r.target = target;
  r.source = source;
  r.owner = std::move(owner);
  r.cookie = cookie;
  reads_.push_back(std::move(r));
}

std::optional<ReadRequest> ReadList::next() {
  if (outstanding_ == reads_.size() || outstanding_ >= ord_) return std::nullopt;
  Read& r = reads_[outstanding_];
  const auto sink = tags_.add(r.target, TagUse::kReadSink);
  if (!sink) return std::nullopt;  // tried again when a Read completes
  ++outstanding_;
  r.sink = *sink;
  return ReadRequest{r.sink.stag, r.sink.offset, static_cast<uint32_t>(r.target.size()), r.source.handle,
                     r.source.offset};
}

Placement::Place ReadList::place(const Segment& s, size_t bytes) const {
  if (outstanding_ == 0) return {nullptr, term::kUnexpectedOpcode};
  const Read& r = reads_.front();
  // "For non-zero-length Tagged DDP Segments, the segment MUST be validated" (RFC 5041 section 7.1): an empty
  // segment may have any tag and offset.
  if (bytes > 0) {
    if (s.stag != r.sink.stag) return {nullptr, term::kInvalidStag};
    if (s.offset + bytes < s.offset) return {nullptr, term::kWrap};
    if (s.offset != r.sink.offset + r.received || bytes > r.target.size() - r.received)
      return {nullptr, term::kBounds};
  }
  // The last segment must complete the Read, and no other segment may.
  if (s.last != (r.received + bytes == r.target.size())) return {nullptr, term::kUnspecified};
  return {r.target.data() + r.received, std::nullopt};
}

std::optional<Cookie> ReadList::placed(size_t bytes, bool last) {
  Read& r = reads_.front();
  r.received += bytes;
  if (!last) return std::nullopt;
  const Cookie cookie = r.cookie;
  tags_.remove(r.sink.stag);
  reads_.pop_front();
  --outstanding_;
  return cookie;
}

void ReadList::clear() {
  reads_.clear();
  outstanding_ = 0;
}

}  // namespace nfsrdma::fabric::iwarp
