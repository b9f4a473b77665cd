// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse trace DIR`: shows a mount's operations when they are answered, or writes the RPC messages
// that the mount sends and receives into a file for Wireshark.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/trace/trace_record.h"

namespace nfsrdma::cli {

struct TraceVerb {
  std::string directory;
  std::vector<std::string> operations;   // upper case; empty: all
  std::string path;                      // an fnmatch(3) pattern for the path within the mount; empty: all
  std::string process;                   // a PID or the name of a command; empty: all
  std::chrono::nanoseconds at_least{0};  // shortest latency that is shown
  bool failures = false;                 // only operations that failed
  std::optional<uint64_t> count;         // end after this number of lines or messages
  std::optional<std::chrono::seconds> duration;
  bool json = false;
  std::string pcap;  // a file, "-" for standard output; empty: trace operations
};

// The filters that the tool applies itself, because the daemon does not.
bool wanted(const TraceVerb& verb, const TraceRecord& record);

// Runs until SIGINT, SIGTERM or SIGHUP, or until a limit in `verb` is reached. Returns ToolExit.
int run_trace(const std::string& program, const TraceVerb& verb);

}  // namespace nfsrdma::cli
