// SPDX-License-Identifier: Apache-2.0
// Checks whether DIR can be mounted on. It gives one clear line before anything else is tried, in place of
// what libfuse or fusermount3 would print later.
//
// The functions consult the mount table first and do not access a mount that may be dead. Failures have the
// statuses of mount(8): kFailed for a missing or busy directory, kUsage for missing permission, kSystem for a
// machine without FUSE.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct MountPointProblem {
  Failure failure;
  // The directory may appear later: nfs(5) lets `bg` wait for it ("If the local mount point directory is
  // missing, the mount(8) command acts as if the mount request timed out").
  bool passing = false;
};

// Returns the canonical path of `dir`. `uid` is the user who mounts. A user other than root must be allowed
// to write to the directory (fusermount3's rule).
tl::expected<std::string, MountPointProblem> check_mount_point(const std::vector<MountEntry>& table,
                                                               const std::string& dir, uid_t uid);

// Checks /dev/fuse and, for users other than root, fusermount3. The paths are parameters for tests.
Outcome<> check_fuse(uid_t uid, const std::string& device = "/dev/fuse",
                     const std::vector<std::string>& helpers = {"/usr/bin/fusermount3", "/bin/fusermount3"});

}  // namespace nfsrdma::cli
