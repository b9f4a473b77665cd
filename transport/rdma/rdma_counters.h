// SPDX-License-Identifier: Apache-2.0
// RdmaCounters: the counters behind RdmaStatus. The transport's loop alone writes them; any thread may read
// them.
#pragma once

#include <cstdint>

#include "transport/rpc/counters.h"
#include "transport/status/rdma_status.h"

namespace nfsrdma::rdma {

using rpc::Counter;

struct RdmaCounters {
  // Messages by the way they travelled.
  Counter inline_calls;
  Counter read_chunks;
  Counter long_calls;  // Position-Zero Read chunk
  Counter inline_replies;
  Counter write_chunks;
  Counter reply_chunks;
  // Bytes of RPC messages and their data, by path.
  Counter bytes_inline;
  Counter bytes_placed;   // by Write chunks
  Counter bytes_fetched;  // offered in Read chunks of data
  Counter bytes_long;     // long calls and long replies
  // READs whose data was not placed (rdma_status.h).
  Counter reads_inline;
  Counter reads_long;
  Counter reads_chunk_unused;

  Counter remotely_invalidated;
  Counter errors_received;
  Counter calls_repeated;  // sent again because of an RDMA_ERROR
  Counter errors_sent;

  // The present connection.
  std::atomic<uint32_t> version{0};
  std::atomic<uint32_t> credit_limit{0};
  std::atomic<uint32_t> credits_in_use{0};
  std::atomic<size_t> segments_open{0};
  std::atomic<size_t> inline_send{0};
  std::atomic<size_t> inline_receive{0};
  std::atomic<bool> remote_invalidation{false};
};

}  // namespace nfsrdma::rdma
