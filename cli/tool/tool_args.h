// SPDX-License-Identifier: Apache-2.0
// The command line of `nfsrdma-fuse VERB ...`, parsed with CLI11.
//
// Usage errors are ToolExit::kUsage, except for the verb `mount`, which has the exit statuses of mount(8).
// Mount options may be written as -o LIST or as long options (--rsize=65536; --ro, but not --read-only). They
// are put in one list in the order in which they were given. Pure; nothing is looked up.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/bench/bench_verb.h"
#include "cli/doctor/doctor_verb.h"
#include "cli/mount/helper_args.h"
#include "cli/server/probe.h"
#include "cli/support/outcome.h"
#include "cli/tool/command_outline.h"
#include "cli/top/top_command.h"
#include "cli/trace/trace.h"

namespace nfsrdma::cli {

struct UmountVerb {
  std::string directory;
  bool lazy = false;
  bool force = false;
  bool verbose = false;
  bool forget = false;  // also forget what `mount --persist` and `--bookmark` recorded
  std::optional<std::chrono::seconds> timeout;
};
struct StatusVerb {
  std::string directory;  // empty: every mount
  bool json = false;
};
enum class StatsFormat : uint8_t { kTable, kJson, kPrometheus, kMountstats };
struct StatsVerb {
  std::string directory;                         // empty: every mount
  std::optional<std::chrono::seconds> interval;  // absent: once
  std::optional<unsigned> count;                 // number of reports; absent: no limit
  bool operations = false;
  bool transports = false;
  bool processes = false;
  std::string since;  // a file written by --format json
  StatsFormat format = StatsFormat::kTable;
};
struct LogLevelVerb {
  std::string directory;
  std::string level;  // empty: show the current level
};
struct ShowText {  // --help, --version
  std::string text;
};

using ToolCommand = std::variant<MountRequest, UmountVerb, StatusVerb, StatsVerb, TopVerb, ProbeVerb,
                                 LogLevelVerb, TraceVerb, bench::BenchVerb, doctor::DoctorVerb, ShowText>;

// `arguments` without argv[0].
Outcome<ToolCommand> parse_tool_arguments(std::vector<std::string> arguments);

// The syntax of the command line, for its manual page and completions.
CommandOutline tool_outline();

std::string version_text();

}  // namespace nfsrdma::cli
