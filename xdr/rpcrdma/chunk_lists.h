// SPDX-License-Identifier: Apache-2.0
// The chunk lists of an RPC-over-RDMA header. Versions 1 and 2 encode them alike (RFC 8166 section 4.3,
// draft-cel-nfsv4-rpcrdma-version-two-09 section 3.3; big-endian words):
//
//     Read list    { 1, position, handle, length, offset(2) }*  0
//     Write list   { 1, segments, { handle, length, offset(2) }* }*  0
//     Reply chunk  0  |  1, segments, { handle, length, offset(2) }*
//
// A header object is reused for the next message: its vectors keep their memory, so decoding usually
// allocates nothing. The message's own length limits what a decode allocates: an entry of the Read list takes
// 24 bytes in the message and 24 bytes of memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xdr/rpcrdma/segment.h"

namespace nfsrdma::rpcrdma {

// One entry of the Read list. Entries with the same position are one Read chunk, in list order (RFC 8166
// section 3.4.5). Position 0 is the Position-Zero Read chunk, the RPC message itself.
struct read_segment {
  uint32_t position = 0;
  segment target;
  bool operator==(const read_segment&) const = default;
};

// The Write list: chunks in order, each an array of segments. Stored in one vector for all chunks.
class write_list {
 public:
  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::span<const segment> operator[](size_t i) const {
    return {segments_.data() + begin(i), ends_[i] - begin(i)};
  }
  std::span<segment> operator[](size_t i) { return {segments_.data() + begin(i), ends_[i] - begin(i)}; }
  std::span<const segment> all() const { return segments_; }

  void clear();
  // Start a chunk, then add its segments.
  void add_chunk() { ends_.push_back(segments_.size()); }
  void add_segment(const segment& s);
  void add(std::span<const segment> chunk);

  bool operator==(const write_list&) const = default;

 private:
  size_t begin(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }
  std::vector<segment> segments_;
  std::vector<size_t> ends_;  // for each chunk, the end of its segments in segments_
};

struct chunk_lists {
  std::vector<read_segment> reads;
  write_list writes;
  std::vector<segment> reply;  // valid if has_reply
  bool has_reply = false;

  bool empty() const { return reads.empty() && writes.empty() && !has_reply; }
  void clear();
  bool operator==(const chunk_lists&) const = default;
};

// The sum of the segments' lengths. 64 bits, because several segments of 4 GiB would overflow 32.
uint64_t chunk_bytes(std::span<const segment> chunk);

bool xdr(xdr::Encoder& x, const chunk_lists& v);
bool xdr(xdr::Sizer& x, const chunk_lists& v);
bool xdr(xdr::Decoder& x, chunk_lists& v);

}  // namespace nfsrdma::rpcrdma
