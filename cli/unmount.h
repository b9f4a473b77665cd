// SPDX-License-Identifier: Apache-2.0
// Unmounting: from outside, with or without a living daemon, and not before the data is safe.
//
// The kernel's umount of a FUSE mount returns at once; what the daemon still holds (unstable writes, open
// state, the session) is finished afterwards. So the tools connect to the daemon first, take the mount away,
// and wait until the daemon says that everything is on the server, and has gone. A mount whose daemon is dead
// (SIGKILL: nobody listens at its socket) is just taken away; where the daemon cannot be found, a warning
// says so; one that does not answer is waited for all the same. With `force` it is not: the kernel ends its
// connection (/sys/fs/fuse/connections, which the mount's owner may write to), and the mount is detached.
//
// Root uses umount2(2), others fusermount3; both run in a child, because the kernel may write pages back
// through a server that does not answer, and --timeout must hold. Blocking; for command-line programs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/control_path.h"
#include "cli/mountinfo.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

struct UnmountOptions {
  bool lazy = false;                            // detach now, wait for nothing
  bool force = false;                           // give up what the server does not take
  bool read_only = false;                       // umount(8) -r: when busy, remount read-only instead
  std::optional<std::chrono::seconds> timeout;  // absent: as long as it takes
  std::function<void(const std::string&)> say;  // progress, for -v; may be empty
  std::shared_ptr<const fuse::MountNamespace> where = fuse::MountNamespace::ours();
  // How long root waits for another user's daemon, which may be anything that user likes.
  std::chrono::seconds others_time{60};
};

// Success may come with a warning (data given up by force, a daemon that was not heard), else the text is
// empty. Failures are ToolExit::kFailed; after a timeout the mount may be gone and the daemon still at work,
// which the text says.
Outcome<std::string> unmount(const MountEntry& entry, const UnmountOptions& options,
                             const ControlPlaces& places);

}  // namespace nfsrdma::cli
