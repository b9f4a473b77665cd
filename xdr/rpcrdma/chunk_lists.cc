// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcrdma/chunk_lists.h"

#include <limits>

namespace nfsrdma::rpcrdma {
namespace {

constexpr size_t kSegmentBytes = 16;

template <class X>
bool put_segments(X& x, std::span<const segment> segments) {
  bool ok = x(static_cast<uint32_t>(segments.size()));
  for (const segment& s : segments) ok = ok && x(s);
  return ok;
}

template <class X>
bool put(X& x, const chunk_lists& v) {
  bool ok = true;
  for (const read_segment& r : v.reads) ok = ok && x(true) && x(r.position) && x(r.target);
  ok = ok && x(false);
  for (size_t i = 0; ok && i < v.writes.size(); ++i) ok = x(true) && put_segments(x, v.writes[i]);
  ok = ok && x(false) && x(v.has_reply);
  return ok && (!v.has_reply || put_segments(x, v.reply));
}

// Calls `add` for each segment of a counted array.
template <class Add>
bool get_segments(xdr::Decoder& x, Add add) {
  uint32_t count = 0;
  if (!x.count(count, std::numeric_limits<uint32_t>::max(), kSegmentBytes)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    segment s;
    if (!x(s)) return false;
    add(s);
  }
  return true;
}

}  // namespace

void write_list::clear() {
  segments_.clear();
  ends_.clear();
}

void write_list::add_segment(const segment& s) {
  segments_.push_back(s);
  ends_.back() = segments_.size();
}

void write_list::add(std::span<const segment> chunk) {
  segments_.insert(segments_.end(), chunk.begin(), chunk.end());
  ends_.push_back(segments_.size());
}

void chunk_lists::clear() {
  reads.clear();
  writes.clear();
  reply.clear();
  has_reply = false;
}

uint64_t chunk_bytes(std::span<const segment> chunk) {
  uint64_t sum = 0;
  for (const segment& s : chunk) sum += s.length;
  return sum;
}

bool xdr(xdr::Encoder& x, const chunk_lists& v) {
  return put(x, v);
}
bool xdr(xdr::Sizer& x, const chunk_lists& v) {
  return put(x, v);
}

// The lists are linked lists in the message: their length is not announced, only the message's end limits
// them.
bool xdr(xdr::Decoder& x, chunk_lists& v) {
  v.clear();
  bool more = false;
  while (true) {
    if (!x(more)) return false;
    if (!more) break;
    read_segment& r = v.reads.emplace_back();
    if (!x(r.position) || !x(r.target)) return false;
  }
  while (true) {
    if (!x(more)) return false;
    if (!more) break;
    v.writes.add_chunk();
    if (!get_segments(x, [&](const segment& s) { v.writes.add_segment(s); })) return false;
  }
  if (!x(v.has_reply)) return false;
  return !v.has_reply || get_segments(x, [&](const segment& s) { v.reply.push_back(s); });
}

}  // namespace nfsrdma::rpcrdma
