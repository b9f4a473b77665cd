// SPDX-License-Identifier: Apache-2.0
// The Connection Configuration Protocol (RFC 5666 section 6): program 100417, version 1, procedure 1. RFC
// 8166 has dropped it; RFC 8797's private data says the same without a round trip.
//
//     arguments = maxcall_sendsize, maxreply_sendsize, maxrdmaread     results = maxcall_sendsize, align,
//     maxrdmaread
#pragma once

#include <cstdint>

#include "xdr/codec.h"

namespace nfsrdma::rpcrdma {

using xdr::Ref;

inline constexpr uint32_t CONFIG_RDMA_PROG = 100417;
inline constexpr uint32_t CONFIG_RDMA_VERS1 = 1;
inline constexpr uint32_t CONF_RDMA = 1;

struct config_rdma_req {
  uint32_t maxcall_sendsize = 0;   // the longest call that the client wants to Send inline
  uint32_t maxreply_sendsize = 0;  // the longest inline reply that it takes
  uint32_t maxrdmaread = 0;        // RDMA Reads that it answers at once
  bool operator==(const config_rdma_req&) const = default;
};

struct config_rdma_reply {
  uint32_t maxcall_sendsize = 0;  // the longest inline call that the server takes
  uint32_t align = 0;             // of its receive buffers; for padding before data, which is not used here
  uint32_t maxrdmaread = 0;       // RDMA Reads that the server answers at once
  bool operator==(const config_rdma_reply&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, config_rdma_req> v) {
  return x(v.maxcall_sendsize) && x(v.maxreply_sendsize) && x(v.maxrdmaread);
}

template <class X>
bool xdr(X& x, Ref<X, config_rdma_reply> v) {
  return x(v.maxcall_sendsize) && x(v.align) && x(v.maxrdmaread);
}

}  // namespace nfsrdma::rpcrdma
