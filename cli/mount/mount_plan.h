// SPDX-License-Identifier: Apache-2.0
// MountPlan: everything that is decided before the daemon starts: source, options and mount point.
#pragma once

#include <string>
#include <vector>

#include "cli/mount/helper_args.h"
#include "cli/options/options.h"
#include "cli/options/source.h"
#include "cli/support/outcome.h"
#include "cli/support/process.h"

namespace nfsrdma::cli {

struct MountPlan {
  std::string program;   // for messages
  MountRequest request;  // conf= made absolute
  Source source;
  MountOptions options;
  std::vector<std::string> skipped;  // options skipped because of sloppy
  std::string mount_point;           // canonical; with bg it may not exist yet and is as typed
  bool root = false;
  bool foreground = false;
  NamespaceFile mount_namespace;  // -N; set by the caller that opened it
};

// Reads the configuration file, then parses and checks the options. Changes nothing. Failures have mount(8)'s
// statuses.
Outcome<MountPlan> make_mount_plan(const std::string& program, const MountRequest& request);

// Parses the options again with the current content of the configuration file (SIGHUP).
Outcome<MountOptions> reread_options(const MountPlan& plan);

}  // namespace nfsrdma::cli
