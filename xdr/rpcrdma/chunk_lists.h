// SPDX-License-Identifier: Apache-2.0
// The chunk lists of an RPC-over-RDMA header; versions 1 and 2 encode them alike (RFC 8166 section 4.3,
// draft-cel-nfsv4-rpcrdma-version-two-09 section 3.3; big-endian words):
//
//     Read list    { 1, position, handle, length, offset(2) }*  0
//     Write list   { 1, segments, { handle, length, offset(2) }* }*  0
//     Reply chunk  0  |  1, segments, { handle, length, offset(2) }*
//
// A header object is used again for the next message: its vectors keep their memory, so that decoding costs
// no allocation in the steady state. What a decode takes is bounded by the message's own length (20 bytes for
// 24 of memory).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xdr/rpcrdma/segment.h"

namespace nfsrdma::rpcrdma {

// One entry of the Read list. Entries with the same position are one Read chunk, in list order (RFC 8166
// section 3.4.5); position 0 is the Position-Zero Read chunk: the RPC message itself.
struct read_segment {
  uint32_t position = 0;
  segment target;
  bool operator==(const read_segment&) const = default;
};

// The Write list: an ordered list of chunks, each an array of segments. Held flat.
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
  // A chunk is begun, then its segments are added.
  void add_chunk() { ends_.push_back(segments_.size()); }
  void add_segment(const segment& s);
  void add(std::span<const segment> chunk);

  bool operator==(const write_list&) const = default;

 private:
  size_t begin(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }
  std::vector<segment> segments_;
  std::vector<size_t> ends_;  // of each chunk, in segments_
};

struct chunk_lists {
  std::vector<read_segment> reads;
  write_list writes;
  std::vector<segment> reply;  // meaningful if has_reply
  bool has_reply = false;

  bool empty() const { return reads.empty() && writes.empty() && !has_reply; }
  void clear();
  bool operator==(const chunk_lists&) const = default;
};

// Bytes of a chunk; 64 bits: a list of segments of 4 GiB each does not wrap.
uint64_t chunk_bytes(std::span<const segment> chunk);

bool xdr(xdr::Encoder& x, const chunk_lists& v);
bool xdr(xdr::Sizer& x, const chunk_lists& v);
bool xdr(xdr::Decoder& x, chunk_lists& v);

}  // namespace nfsrdma::rpcrdma
