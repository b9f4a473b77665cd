// SPDX-License-Identifier: Apache-2.0
// What `nfsrdma-fuse doctor` has found out, before anybody judges it. Plain values: gather.h fills them,
// checks.h judges them, and a test can make any of them up.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/snapshot.h"
#include "transport/fabric/verbs/inventory.h"

namespace nfsrdma::cli::doctor {

// Of this machine and of who asks.
struct MachineFacts {
  bool root = false;
  std::string kernel;  // uname -r
  unsigned kernel_major = 0, kernel_minor = 0;
  std::string device_problem;  // of /dev/fuse, with what mends it; empty: it can be opened
  std::string helper_problem;  // of fusermount3, likewise
  bool user_allow_other = false;
  uint64_t memlock_bytes = 0;   // RLIMIT_MEMLOCK; UINT64_MAX: no limit
  bool memlock_exempt = false;  // CAP_IPC_LOCK
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
  uint64_t cache_bytes = 0;  // what a mount keeps without cache_mem=
  std::vector<fabric::verbs::PortReport> rdma_ports;
  std::string enable_uring;            // "Y", "N"; empty: this fuse module has no such parameter
  std::optional<bool> page_reporting;  // nothing: no virtual machine's balloon
  std::string page_reporting_order;
  bool clock_synchronised = false;  // adjtimex(2)
  std::string idmap_domain;         // of idmapd.conf, else the host's domain; empty: none
  unsigned first_user_port = 1024;  // net.ipv4.ip_unprivileged_port_start
};

enum class PortState : uint8_t { kOpen, kRefused, kSilent, kUnreachable };
enum class NfsAnswer : uint8_t { kNone, kVersion4, kVersion3, kNotNfs };

// One TCP port of the server. Of the first address that answers.
struct PortFacts {
  unsigned port = 0;
  PortState state = PortState::kSilent;
  std::string error;      // unreachable: why
  unsigned path_mtu = 0;  // bytes; 0: not known
  NfsAnswer answer = NfsAnswer::kNone;
  std::string answer_text;  // kNotNfs: what came
};

struct RdmaFacts {
  bool works = false;
  std::string text;  // what was agreed on, or why not
};

struct SessionFacts {
  bool made = false;
  bool timed_out = false;
  std::string error;
  bool refused = false;         // by rights: a low port may mend it
  bool low_port_mends = false;  // tried
  bool low_port_used = false;   // from the beginning
  std::string server;           // implementation, where it says
  unsigned lease_seconds = 0;
  std::optional<bool> listed;
  std::string list_error;
  std::vector<std::string> names;  // in the directory that was asked for
  size_t entries = 0, nobodys = 0;
  std::optional<double> newest_ahead_seconds;  // newest time of the server's, less ours
};

struct ServerFacts {
  std::string host, path;
  bool resolved = false;
  bool resolve_timed_out = false;
  std::string resolve_error;
  std::vector<std::string> addresses;  // without ports
  bool literal = false;                // the host is an address itself
  std::string reverse;                 // name of the first; empty: none
  std::optional<PortFacts> tcp;        // nothing: not asked for
  std::vector<RdmaFacts> rdma;         // in the order of trying; empty: not asked for
  bool rdma_wanted_only = false;       // proto=rdma
  std::optional<SessionFacts> session;
};

struct MountFacts {
  std::string mount_point, source;
  bool may_ask = true;  // it is the caller's
  std::string error;    // why the daemon said nothing
  std::optional<Snapshot> snapshot;
  std::string log_file;  // empty: no file
};

struct Facts {
  std::string version;
  MachineFacts machine;
  std::optional<ServerFacts> server;
  std::vector<MountFacts> mounts;
};

}  // namespace nfsrdma::cli::doctor
