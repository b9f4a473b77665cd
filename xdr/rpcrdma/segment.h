// SPDX-License-Identifier: Apache-2.0
// One RDMA segment, the same in all versions of RPC-over-RDMA (RFC 8166 section 3.4.3,
// draft-cel-nfsv4-rpcrdma-version-two-09 section 3.2): [handle u32][length u32][offset u64], 16 bytes.
#pragma once

#include <cstdint>

#include "xdr/codec.h"

namespace nfsrdma::rpcrdma {

using xdr::Ref;

inline constexpr size_t kSegmentBytes = 16;
// In a Read list the word 1 ("one more follows") and the position precede it.
inline constexpr size_t kReadSegmentBytes = 8 + kSegmentBytes;

struct segment {
  uint32_t handle = 0;  // steering tag, R_key
  uint32_t length = 0;
  uint64_t offset = 0;  // start of the memory, in the handle's address space
  bool operator==(const segment&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, segment> v) {
  return x(v.handle) && x(v.length) && x(v.offset);
}

}  // namespace nfsrdma::rpcrdma
