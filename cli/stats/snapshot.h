// SPDX-License-Identifier: Apache-2.0
// Snapshot: everything that `status` and `stats` know about one mount at one moment.
//
// The daemon makes it from the counters of client/ and fuse/ and sends it as JSON over the control socket.
// The tools parse and format it. `stats --format json` writes the same JSON, and `--since FILE` reads it.
// Fields that a file or a daemon of another version lacks are zero or empty. Counters only grow while a mount
// lives. difference() subtracts counters and keeps levels (slots, dirty bytes). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"
#include "client/api/statistics.h"
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

// The cost of one thread's requests. Thread 0 stands for the kernel, or for a PID namespace that the daemon
// cannot see.
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
  Caller replaced_callers;  // sum of threads that the list no longer contains
};

// Memory of the daemon, in bytes.
struct MemorySnapshot {
  uint64_t resident_bytes = 0;
  uint64_t huge_page_bytes = 0;  // part of resident_bytes
  uint64_t buffer_bytes = 0;     // in use: cached and dirty data, and requests in progress
  uint64_t idle_buffer_bytes = 0;
};

struct Snapshot {
  std::string version;  // of the daemon
  uint64_t pid = 0;
  std::string state;       // "mounted", "unmounting"
  bool responding = true;  // the server answers
  std::string source;
  std::string mount_point;
  std::string notice;            // what the user should know about this mount; or empty
  std::string mount_options;     // effective, as the options table shows them
  bool found_transport = false;  // the user did not request a transport: proto=auto
  std::string log_level;
  client::Statistics client;
  FuseSnapshot fuse;
  MemorySnapshot memory;
  // Set by the tool, not by the daemon: whether the daemon's thread IDs are valid in the tool's PID
  // namespace.
  bool same_pid_namespace = true;
};

FuseSnapshot make_fuse_snapshot(const fuse::FuseStatistics& statistics);

Json to_json(const Snapshot& snapshot);
// Fails with ToolExit::kFailed if `json` is not a snapshot.
Outcome<Snapshot> snapshot_from_json(const Json& json);

// The changes between two snapshots of one mount. A `before` from an earlier mount (recognised by its age or
// daemon PID) is ignored. The maximum latency of the interval is known only by its bucket, as an upper bound.
Snapshot difference(const Snapshot& now, const Snapshot& before);

// --- text forms

// `status`: the text form.
std::string status_text(const Snapshot& snapshot);

struct StatsSelection {
  bool operations = false;  // --ops: also FUSE operations and the distribution of latencies
  bool transports = false;  // --xprt
};
// `stats`: the text form. `seconds`: the length of the interval, for rates.
std::string stats_table(const Snapshot& snapshot, double seconds, StatsSelection selection);

// The text format of Prometheus; names follow node_exporter's mountstats collector.
std::string stats_prometheus(const std::vector<Snapshot>& snapshots);

// The format of /proc/self/mountstats, for `mountstats -f` and `mountstats iostat -f`.
std::string stats_mountstats(const std::vector<Snapshot>& snapshots);

std::string_view transport_state_name(rpc::TransportState state);

}  // namespace nfsrdma::cli
