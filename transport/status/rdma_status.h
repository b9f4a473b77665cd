// SPDX-License-Identifier: Apache-2.0
// RdmaStatus: the status of one RPC-over-RDMA transport, in addition to what every transport counts. Plain
// values.
#pragma once

#include <cstdint>
#include <string>

namespace nfsrdma::rdma {

struct RdmaStatus {
  std::string fabric;         // the carrier: "software RDMA", "rxe0 port 1, MTU 4096"
  std::string fabric_reason;  // why no RDMA device is used; empty: one is, or software RDMA was requested

  // The present connection; 0 while there is none.
  uint32_t version = 0;
  std::string version_reason;  // why it is not 2; empty: it is, or version 1 was requested
  uint32_t credits_asked = 0;
  uint32_t credits_granted = 0;
  uint32_t credits_in_use = 0;
  uint64_t segments_open = 0;  // of our memory, open to the server for the calls in progress
  uint64_t inline_send = 0;    // bytes, including the transport header
  uint64_t inline_receive = 0;
  std::string exposure;              // "fenced by <means>": memory is open to the server for one call only
  bool remote_invalidation = false;  // the server closes memory with its reply

  // Messages by the way they travelled, since the mount began.
  uint64_t inline_calls = 0;
  uint64_t read_chunks = 0;
  uint64_t long_calls = 0;
  uint64_t inline_replies = 0;
  uint64_t write_chunks = 0;
  uint64_t reply_chunks = 0;
  // Bytes by path: in Sends; placed by Write chunks; offered in Read chunks; in long calls and replies.
  uint64_t bytes_inline = 0;
  uint64_t bytes_placed = 0;
  uint64_t bytes_fetched = 0;
  uint64_t bytes_long = 0;
  // READs whose data was not placed: the data was short and came inline; the reply without its data was too
  // long for inline and came as a long reply; the server did not use the Write chunk that we offered.
  uint64_t reads_inline = 0;
  uint64_t reads_long = 0;
  uint64_t reads_chunk_unused = 0;

  uint64_t remotely_invalidated = 0;
  uint64_t errors_received = 0;
  uint64_t errors_sent = 0;
  uint64_t calls_repeated = 0;
};

}  // namespace nfsrdma::rdma
