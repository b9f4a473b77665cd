// SPDX-License-Identifier: Apache-2.0
// MountGuard: auto_unmount. A process of its own that takes the mount away when the daemon dies without
// having done so.
//
// fusermount3 has an option for this, which in Debian 12 (3.14.0) looks at the dead mount as root and so
// leaves those of ordinary users alone. The guard is forked before the daemon has threads, waits on a pipe,
// and ends with the daemon. It touches no mount but the one it was told of: same ID, same place, still ours.
#pragma once

#include "cli/mountinfo.h"
#include "cli/outcome.h"
#include "cli/process.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

class MountGuard {
 public:
  // Before any thread exists. Fails with MountExit::kSystem.
  static Outcome<MountGuard> start(const NamespaceFile& mount_namespace);

  void arm(const MountEntry& entry);
  void disarm();

 private:
  explicit MountGuard(Fd pipe) : pipe_(std::move(pipe)) {}
  void tell(const std::string& line);
  Fd pipe_;
};

}  // namespace nfsrdma::cli
