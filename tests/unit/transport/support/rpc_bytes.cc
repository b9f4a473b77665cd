// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport/support/rpc_bytes.h"

#include <algorithm>

namespace nfsrdma::test {

ByteVector words(std::initializer_list<uint32_t> values) {
  ByteVector out(values.size() * 4);
  size_t at = 0;
  for (const uint32_t v : values) {
    store_be32(out.data() + at, v);
    at += 4;
  }
  return out;
}

ByteVector concat(std::initializer_list<ConstBytes> parts) {
  ByteVector out;
  for (const ConstBytes part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

ByteVector pattern(size_t n, uint32_t seed) {
  ByteVector out(n);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return out;
}

uint32_t word_at(ConstBytes bytes, size_t offset) {
  return load_be32(bytes.subspan(offset, 4).data());
}

ByteVector call_head(ConstBytes arguments) {
  return concat({words({0, 0, 2, 100003, 4, 1, 0, 0, 0, 0}), arguments});
}

uint32_t xid_of(ConstBytes message) {
  return word_at(message, 0);
}

ByteVector reply(uint32_t xid, ConstBytes results) {
  return concat({words({xid, 1, 0, 0, 0, 0}), results});
}

ByteVector read_results(ConstBytes data, ConstBytes trailer) {
  const ByteVector padding(xdr_padding(data.size()));
  return concat({words({0, static_cast<uint32_t>(data.size())}), data, padding, trailer});
}

rpc::Locate locate_read(ConstBytes prefix, rpc::BulkPlace& place) {
  if (prefix.size() < kReplyHeaderBytes + 4) return rpc::Locate::kNeedMore;
  if (word_at(prefix, kReplyHeaderBytes) != 0) return rpc::Locate::kNone;
  if (prefix.size() < kReadDataOffset) return rpc::Locate::kNeedMore;
  place = {kReadDataOffset, word_at(prefix, kReplyHeaderBytes + 4)};
  return rpc::Locate::kFound;
}

ByteVector record(ConstBytes message, size_t fragment) {
  if (fragment == 0) fragment = std::max<size_t>(message.size(), 1);
  ByteVector out;
  do {
    const ConstBytes part = message.first(std::min(fragment, message.size()));
    message = message.subspan(part.size());
    const uint32_t last = message.empty() ? 0x80000000u : 0;
    const ByteVector mark = words({last | static_cast<uint32_t>(part.size())});
    out.insert(out.end(), mark.begin(), mark.end());
    out.insert(out.end(), part.begin(), part.end());
  } while (!message.empty());
  return out;
}

ByteVector echo(ConstBytes call) {
  return reply(xid_of(call), call.subspan(kCallHeaderBytes));
}

uint32_t argument(ConstBytes call) {
  return word_at(call, kCallHeaderBytes);
}

}  // namespace nfsrdma::test
