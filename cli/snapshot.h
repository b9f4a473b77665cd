// SPDX-License-Identifier: Apache-2.0
// Snapshot: everything `status` and `stats` know about one mount at one moment.
//
// Made by the daemon from what client/ and fuse/ count, sent as JSON over the control socket, read back by
// the tools and formatted there; `stats --format json` writes the same JSON and `--since FILE` reads it
// again. Fields that a file or a daemon of another version lacks are zero or empty. Counters only grow while
// a mount lives; difference() subtracts them and keeps what is a level (slots, dirty bytes). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/control_protocol.h"
#include "cli/outcome.h"
#include "client/statistics.h"
#include "fuse/statistics.h"
#include "transport/runtime/latency_histogram.h"

namespace nfsrdma::cli {

struct FuseOperation {
  std::string name;  // "LOOKUP"
  uint64_t requests = 0;
  uint64_t errors = 0;
  uint64_t total_us = 0;
  uint64_t max_us = 0;
  LatencyCounts latency{};
};

// What the requests of one thread cost. Thread 0 is the kernel's, or of a PID namespace that the daemon does
// not see into.
using Caller = fuse::CallerStatistics;

struct FuseSnapshot {
  std::vector<FuseOperation> operations;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t in_flight = 0;
  uint64_t interrupts = 0;
  uint64_t early_answers = 0;
  uint64_t undone = 0;
  uint64_t unanswered = 0;
  uint64_t kernel_inodes = 0;
  uint64_t invalidations = 0;
  uint64_t invalidations_merged = 0;
  uint64_t invalidation_floods = 0;
  std::vector<Caller> callers;
  Caller replaced_callers;  // of threads that are not in the list any more
};

// Of the daemon. Bytes.
struct MemorySnapshot {
  uint64_t resident_bytes = 0;
  uint64_t huge_page_bytes = 0;  // of these
  uint64_t buffer_bytes = 0;     // in use: kept and written data, and what is under way
  uint64_t idle_buffer_bytes = 0;
};

struct Snapshot {
  std::string version;  // of the daemon
  uint64_t pid = 0;
  std::string state;       // "mounted", "unmounting"
  bool responding = true;  // the server
  std::string source;
  std::string mount_point;
  std::string notice;            // what the user should know of this mount, or empty
  std::string mount_options;     // effective, as the options table shows them
  bool found_transport = false;  // no transport was asked for: proto=auto
  std::string log_level;
  client::Statistics client;
  FuseSnapshot fuse;
  MemorySnapshot memory;
  // Not the daemon's to say: whether its thread IDs are those of whoever took the snapshot.
  bool same_pid_namespace = true;
};

FuseSnapshot make_fuse_snapshot(const fuse::FuseStatistics& statistics);

Json to_json(const Snapshot& snapshot);
// Fails with ToolExit::kFailed when it is no snapshot at all.
Outcome<Snapshot> snapshot_from_json(const Json& json);

// What happened between two snapshots of one mount. A `before` of an earlier mount (its age is not smaller)
// counts as nothing. The longest time of an interval is known by its bucket only: an upper bound.
Snapshot difference(const Snapshot& now, const Snapshot& before);

// --- text forms

// `status`: for people.
std::string status_text(const Snapshot& snapshot);

struct StatsSelection {
  bool operations = false;  // --ops: also FUSE operations, and how latencies are distributed
  bool transports = false;  // --xprt
};
// `stats`: for people. `seconds`: the interval the numbers are for, for rates.
std::string stats_table(const Snapshot& snapshot, double seconds, StatsSelection selection);

// The text format of Prometheus, names after node_exporter's mountstats collector.
std::string stats_prometheus(const std::vector<Snapshot>& snapshots);

// The format of /proc/self/mountstats, for `mountstats -f` and `mountstats iostat -f`.
std::string stats_mountstats(const std::vector<Snapshot>& snapshots);

std::string_view transport_state_name(rpc::TransportState state);

}  // namespace nfsrdma::cli
