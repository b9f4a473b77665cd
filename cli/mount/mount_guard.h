// SPDX-License-Identifier: Apache-2.0
// MountGuard: implements auto_unmount. A separate process removes the mount if the daemon dies without
// unmounting.
//
// fusermount3 has an option for this. In Debian 12 (3.14.0) it inspects the dead mount as root and therefore
// leaves mounts of ordinary users in place. The guard is forked before the daemon has threads, waits on a
// pipe, and ends with the daemon. It removes only the mount that the daemon named: same mount ID, same path,
// and still a mount of this program.
#pragma once

#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"
#include "cli/support/process.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

class MountGuard {
 public:
  // Call before any other thread exists. Fails with MountExit::kSystem.
  static Outcome<MountGuard> start(const NamespaceFile& mount_namespace);

  void arm(const MountEntry& entry);
  void disarm();

 private:
  explicit MountGuard(Fd pipe) : pipe_(std::move(pipe)) {}
  void tell(const std::string& line);
  Fd pipe_;
};

}  // namespace nfsrdma::cli
