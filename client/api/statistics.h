// SPDX-License-Identifier: Apache-2.0
// Statistics: a snapshot of what a mount did, for `status`, `stats` and SIGUSR1. Plain values, no reference
// to anything.
//
// NFS operations are counted per COMPOUND, under the operation that the COMPOUND is for, as
// /proc/self/mountstats does. So the number of RPCs per workload can be read from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/latency_histogram.h"

namespace nfsrdma::client {

struct OperationStatistics {
  std::string name;       // "READ", "LOOKUP", ...
  uint64_t requests = 0;  // COMPOUNDs answered
  uint64_t errors = 0;    // completed with a status other than NFS4_OK
  uint64_t retransmissions = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t queue_us = 0;     // waiting for a slot
  uint64_t response_us = 0;  // from sending to the reply
  uint64_t total_us = 0;
  uint64_t max_us = 0;      // the longest response
  LatencyCounts latency{};  // of the responses
};

// The RPCSEC_GSS context of a user: of several, over several connections, the first to end.
struct ContextStatistics {
  uint32_t user = 0;
  bool ends = false;
  uint64_t seconds_left = 0;  // if it ends
  std::string refusal;        // why the user has none; empty: there is one
};

struct SessionStatistics {
  std::string session_id;    // hex
  std::string server_owner;  // so_major_id, printable
  std::string server_scope;
  std::string server_implementation;
  uint32_t slots = 0;         // granted
  uint32_t slots_target = 0;  // sr_target_highest_slotid + 1
  uint32_t slots_in_use = 0;
  uint32_t max_request_bytes = 0;
  uint32_t max_response_bytes = 0;
  uint32_t max_operations = 0;
  uint32_t lease_seconds = 0;
  bool lease_holds = false;  // by the replies so far the server keeps our state and recalls delegations
  bool back_channel = false;
  uint64_t sessions_created = 0;
  uint64_t client_ids_established = 0;
  uint64_t state_recoveries = 0;
  uint64_t callbacks = 0;
  uint32_t rsize = 0;
  uint32_t wsize = 0;
  std::string security;                     // "krb5p"; empty: sec=sys
  std::vector<ContextStatistics> contexts;  // in the order of users
};

struct CacheStatistics {
  uint64_t nodes = 0;
  uint64_t names = 0;
  uint64_t attribute_hits = 0;
  uint64_t attribute_misses = 0;
  uint64_t name_hits = 0;
  uint64_t name_misses = 0;
  uint64_t dirty_bytes = 0;        // not yet acknowledged by WRITE
  uint64_t uncommitted_bytes = 0;  // acknowledged UNSTABLE, kept until COMMIT
  uint64_t refused_bytes = 0;      // dropped after an error that fsync or close reports
  uint64_t room_errors = 0;        // how many of these errors were ENOSPC or EDQUOT
  uint64_t open_files = 0;
  uint64_t locks = 0;
  uint64_t locks_lost = 0;           // files whose locks could not be reclaimed
  uint64_t data_bytes = 0;           // memory for cached data
  uint64_t data_limit_bytes = 0;     // limit of data_bytes; less than cache_mem if memory is short
  uint64_t data_hits = 0;            // reads answered from the data cache, wholly or in part
  uint64_t data_hit_bytes = 0;       // bytes of these answers
  uint64_t ahead_bytes = 0;          // read ahead and kept
  uint64_t ahead_wasted_bytes = 0;   // of these: dropped before any read
  uint64_t ahead_refused_bytes = 0;  // read ahead and dropped: the file had changed
  uint64_t evicted_bytes = 0;        // dropped for lack of room
};

// NFSv4.1 only.
struct DelegationStatistics {
  uint64_t held_read = 0, held_write = 0;
  uint64_t returning = 0;    // DELEGRETURN in progress
  uint64_t granted = 0;      // with OPEN; without reclaims
  uint64_t recalled = 0;     // by CB_RECALL or CB_RECALL_ANY
  uint64_t returned = 0;     // DELEGRETURN
  uint64_t revoked = 0;      // by the server, or lost in its restart
  uint64_t local_opens = 0;  // answered without OPEN
};

struct Statistics {
  std::string server;  // as the user wrote it
  std::string export_path;
  std::string options;  // effective, nfs(5) spelling
  uint64_t age_seconds = 0;
  std::vector<OperationStatistics> operations;
  std::vector<rpc::TransportStatus> transports;  // one per loop
  SessionStatistics session;
  CacheStatistics cache;
  DelegationStatistics delegations;
};

}  // namespace nfsrdma::client
