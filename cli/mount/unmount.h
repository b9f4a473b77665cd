// SPDX-License-Identifier: Apache-2.0
// Unmounts from outside the daemon, whether it lives or not, after the data is safe.
//
// The kernel's umount of a FUSE mount returns at once. The daemon then still has to finish its unstable
// writes, open state and session. So the tools connect to the daemon first and remove the mount. Then they
// wait until the daemon says that all data is on the server and has exited. If the daemon is dead (SIGKILL:
// no process listens on its socket), the mount is removed without waiting. If the daemon cannot be found, a
// warning says so. A daemon that does not answer is waited for all the same, unless `force` is set. With
// `force` the tools abort the FUSE connection of such a daemon (/sys/fs/fuse/connections, which the mount's
// owner may write to) and do not wait for the daemon. If the mount is still busy then, it is detached.
//
// Root uses umount2(2), other users fusermount3. Both run in a child process: the kernel may write pages back
// through a server that does not answer, and --timeout must still hold. Blocking; for command-line programs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/control/control_path.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

struct UnmountOptions {
  bool lazy = false;                            // detach now and do not wait
  bool force = false;                           // give up data that the server does not accept
  bool read_only = false;                       // umount(8) -r: if busy, remount read-only instead
  std::optional<std::chrono::seconds> timeout;  // absent: no limit
  std::function<void(const std::string&)> say;  // progress, for -v; may be empty
  std::shared_ptr<const fuse::MountNamespace> where = fuse::MountNamespace::ours();
  // How long root waits for another user's daemon. That user decides which program it is.
  std::chrono::seconds others_time{60};
};

// A success may have a warning text (data given up by force, a daemon that sent no answer); otherwise the
// text is empty. Failures are ToolExit::kFailed. After a timeout the mount may be gone while the daemon still
// works; the text says so.
Outcome<std::string> unmount(const MountEntry& entry, const UnmountOptions& options,
                             const ControlPlaces& places);

}  // namespace nfsrdma::cli
