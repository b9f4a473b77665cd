// SPDX-License-Identifier: Apache-2.0
// MountPlan: everything that is decided before the daemon starts: source, options, mount point.
#pragma once

#include <string>
#include <vector>

#include "cli/helper_args.h"
#include "cli/options.h"
#include "cli/outcome.h"
#include "cli/process.h"
#include "cli/source.h"

namespace nfsrdma::cli {

struct MountPlan {
  std::string program;   // for messages
  MountRequest request;  // conf= made absolute
  Source source;
  MountOptions options;
  std::vector<std::string> skipped;  // options skipped because of sloppy
  std::string mount_point;           // canonical, or, with bg, not there yet and as typed
  bool root = false;
  bool foreground = false;
  NamespaceFile mount_namespace;  // -N; set by who opened it
};

// Reads the configuration file, parses and checks options. Nothing is touched. Failures as mount(8).
Outcome<MountPlan> make_mount_plan(const std::string& program, const MountRequest& request);

// The options anew, with what the configuration file says now (SIGHUP).
Outcome<MountOptions> reread_options(const MountPlan& plan);

}  // namespace nfsrdma::cli
