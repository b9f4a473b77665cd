// SPDX-License-Identifier: Apache-2.0
// The load that each process causes on a mount, from the requests of its callers.
//
// The daemon knows only threads. The tool finds the processes of these threads in /proc, with the rights of
// the user who runs it, so the user sees no name that /proc would hide. A thread that has ended, or whose
// number now belongs to a younger thread, cannot be assigned to a process. It is listed alone, as ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/control/control_protocol.h"
#include "cli/stats/snapshot.h"

namespace nfsrdma::cli {

struct ProcessLoad {
  enum class Kind : uint8_t {
    kRunning,  // `id` is a process
    kEnded,    // `id` is a thread
    kHidden,   // `id` is a thread that /proc does not show to this user
    kKernel,   // read-ahead and write-back, or a PID namespace that the daemon cannot see
    kEarlier,  // threads that the daemon no longer lists by name
  };
  Kind kind = Kind::kRunning;
  pid_t id = 0;
  std::string command;  // of a running process: the kernel's name for it, at most 15 bytes
  unsigned threads = 0;
  uint64_t requests = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t total_us = 0;

  std::string name() const;  // for display: the command, or a text for the kind
  uint64_t bytes() const { return read_bytes + write_bytes; }
};

// What is currently known about a thread.
struct ThreadOwner {
  bool hidden = false;  // the thread exists, but this user cannot see more
  pid_t pid = 0;
  std::string command;
  uint64_t age_ms = 0;
};
using FindOwner = std::function<std::optional<ThreadOwner>(pid_t tid)>;

// Reads /proc; nothing if there is no such thread.
std::optional<ThreadOwner> owner_in_proc(pid_t tid);

// Sorted by total time, longest first. `snapshot` may also be the difference of two snapshots.
std::vector<ProcessLoad> loads_by_process(const Snapshot& snapshot, const FindOwner& find = owner_in_proc);

// `stats --processes`: as a table, and as JSON.
std::string processes_table(const std::vector<ProcessLoad>& loads, double seconds);
Json processes_json(const std::vector<ProcessLoad>& loads);

}  // namespace nfsrdma::cli
