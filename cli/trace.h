// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse trace DIR`: shows a mount's operations as they are answered, or writes the RPC messages that
// it sends and receives into a file for Wireshark.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/trace_record.h"

namespace nfsrdma::cli {

struct TraceVerb {
  std::string directory;
  std::vector<std::string> operations;   // upper case; empty: all
  std::string path;                      // a pattern of fnmatch(3), of the path within the mount; empty: all
  std::string process;                   // a PID or the name of a command; empty: all
  std::chrono::nanoseconds at_least{0};  // answered no faster
  bool failures = false;                 // only what failed
  std::optional<uint64_t> count;         // ends after so many lines or messages
  std::optional<std::chrono::seconds> duration;
  bool json = false;
  std::string pcap;  // a file, "-" for standard output; empty: operations
};

// What the daemon does not sort out.
bool wanted(const TraceVerb& verb, const TraceRecord& record);

// Until SIGINT or SIGTERM, or as long as the verb says. ToolExit.
int run_trace(const std::string& program, const TraceVerb& verb);

}  // namespace nfsrdma::cli
