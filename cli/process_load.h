// SPDX-License-Identifier: Apache-2.0
// Who causes a mount's load: the requests of its callers, by process.
//
// The daemon knows threads only. The tool that asks finds their processes in /proc, with the rights of
// whoever runs it, so nobody learns a name that /proc would not tell him. A thread that has ended, or whose
// number now belongs to a younger one, cannot be joined to its process: it stands alone, as ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/control_protocol.h"
#include "cli/snapshot.h"

namespace nfsrdma::cli {

struct ProcessLoad {
  enum class Kind : uint8_t {
    kRunning,  // `id` is a process
    kEnded,    // `id` is a thread
    kHidden,   // so; /proc does not show it to this user
    kKernel,   // read-ahead and write-back, or a PID namespace that the daemon does not see into
    kEarlier,  // those that the daemon has forgotten the names of
  };
  Kind kind = Kind::kRunning;
  pid_t id = 0;
  std::string command;  // of one that runs: the kernel's name for it, at most 15 bytes
  unsigned threads = 0;
  uint64_t requests = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;
  uint64_t total_us = 0;

  std::string name() const;  // for people: the command, or what the kind says
  uint64_t bytes() const { return read_bytes + write_bytes; }
};

// What is known of a thread now.
struct ThreadOwner {
  bool hidden = false;  // it lives, and no more can be seen
  pid_t pid = 0;
  std::string command;
  uint64_t age_ms = 0;
};
using FindOwner = std::function<std::optional<ThreadOwner>(pid_t tid)>;

// From /proc; nothing when there is no such thread.
std::optional<ThreadOwner> owner_in_proc(pid_t tid);

// Most time first. Of a snapshot, or of the difference of two.
std::vector<ProcessLoad> loads_by_process(const Snapshot& snapshot, const FindOwner& find = owner_in_proc);

// `stats --processes`: for people, and as JSON.
std::string processes_table(const std::vector<ProcessLoad>& loads, double seconds);
Json processes_json(const std::vector<ProcessLoad>& loads);

}  // namespace nfsrdma::cli
