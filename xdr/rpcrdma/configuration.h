// SPDX-License-Identifier: Apache-2.0
// The Connection Configuration Protocol (RFC 5666 section 6): program 100417, version 1, procedure 1. RFC
// 8166 has dropped it; the private data of RFC 8797 replaces it without a round trip.
//
//     arguments = maxcall_sendsize, maxreply_sendsize, maxrdmaread
//     results   = maxcall_sendsize, align, maxrdmaread
#pragma once

#include <cstdint>

#include "xdr/codec.h"

namespace nfsrdma::rpcrdma {

using xdr::Ref;

inline constexpr uint32_t CONFIG_RDMA_PROG = 100417;
inline constexpr uint32_t CONFIG_RDMA_VERS1 = 1;
inline constexpr uint32_t CONF_RDMA = 1;

struct config_rdma_req {
  uint32_t maxcall_sendsize = 0;   // longest call that the client wants to send inline
  uint32_t maxreply_sendsize = 0;  // longest inline reply that the client accepts
  uint32_t maxrdmaread = 0;        // RDMA Reads that the client serves at a time
  bool operator==(const config_rdma_req&) const = default;
};

struct config_rdma_reply {
  uint32_t maxcall_sendsize = 0;  // longest inline call that the server accepts
  uint32_t align = 0;        // of the server's receive buffers, for padding in front of data; unused here
  uint32_t maxrdmaread = 0;  // RDMA Reads that the server serves at a time
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
