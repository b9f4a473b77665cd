// SPDX-License-Identifier: Apache-2.0
// The facts that `nfsrdma-fuse doctor` gathers, before they are judged. Plain values: gather.h fills them,
// checks.h judges them, and a test can construct any of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/stats/snapshot.h"
#include "transport/fabric/verbs/inventory.h"

namespace nfsrdma::cli::doctor {

// Facts about this machine and the calling user.
struct MachineFacts {
  bool root = false;
  std::string kernel;  // uname -r
  unsigned kernel_major = 0, kernel_minor = 0;
  std::string device_problem;  // problem of /dev/fuse, with its remedy; empty: it can be opened
  std::string helper_problem;  // problem of fusermount3, with its remedy; empty: none
  bool user_allow_other = false;
  uint64_t memlock_bytes = 0;   // RLIMIT_MEMLOCK; UINT64_MAX: no limit
  bool memlock_exempt = false;  // CAP_IPC_LOCK
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
  uint64_t cache_bytes = 0;  // the default of cache_mem= for a mount
  std::vector<fabric::verbs::PortReport> rdma_ports;
  std::string enable_uring;            // "Y", "N"; empty: this fuse module has no such parameter
  std::optional<bool> page_reporting;  // nothing: not a virtual machine with a balloon device
  std::string page_reporting_order;
  bool clock_synchronised = false;  // adjtimex(2)
  std::string idmap_domain;         // from idmapd.conf, else the host's domain; empty: none
  unsigned first_user_port = 1024;  // net.ipv4.ip_unprivileged_port_start
};

enum class PortState : uint8_t { kOpen, kRefused, kSilent, kUnreachable };
enum class NfsAnswer : uint8_t { kNone, kVersion4, kVersion3, kNotNfs };

// One TCP port of the server, at the first address that answers.
struct PortFacts {
  unsigned port = 0;
  PortState state = PortState::kSilent;
  std::string error;      // kUnreachable: the reason
  unsigned path_mtu = 0;  // bytes; 0: not known
  NfsAnswer answer = NfsAnswer::kNone;
  std::string answer_text;  // kNotNfs: what was received
};

struct RdmaFacts {
  bool works = false;
  std::string text;  // the negotiated terms, or the reason for the failure
};

struct SessionFacts {
  bool made = false;
  bool timed_out = false;
  std::string error;
  bool refused = false;         // for lack of permission: a port below 1024 may help
  bool low_port_mends = false;  // a retry with a port below 1024 succeeded
  bool low_port_used = false;   // the first attempt already used one
  std::string server;           // implementation name, if the server tells it
  unsigned lease_seconds = 0;
  std::optional<bool> listed;
  std::string list_error;
  std::vector<std::string> names;  // in the requested directory
  size_t entries = 0, nobodys = 0;
  std::optional<double> newest_ahead_seconds;  // newest timestamp of the server, minus our clock
};

struct ServerFacts {
  std::string host, path;
  bool resolved = false;
  bool resolve_timed_out = false;
  std::string resolve_error;
  std::vector<std::string> addresses;  // without ports
  bool literal = false;                // the host is given as an address
  std::string reverse;                 // name of the first address; empty: none
  std::optional<PortFacts> tcp;        // nothing: not requested
  std::vector<RdmaFacts> rdma;         // in the order of the attempts; empty: not requested
  bool rdma_wanted_only = false;       // proto=rdma
  std::optional<SessionFacts> session;
};

struct MountFacts {
  std::string mount_point, source;
  bool may_ask = true;  // the caller owns the mount or is root
  std::string error;    // why the daemon did not answer
  std::optional<Snapshot> snapshot;
  std::string log_file;  // empty: the log is not a file
};

struct Facts {
  std::string version;
  MachineFacts machine;
  std::optional<ServerFacts> server;
  std::vector<MountFacts> mounts;
};

}  // namespace nfsrdma::cli::doctor
