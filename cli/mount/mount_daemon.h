// SPDX-License-Identifier: Apache-2.0
// The daemon of one mount, from the first attempt to connect until all data is written back. MountDaemon
// (mount_daemon.cc) creates its parts and connects them.
//
// The calling thread becomes the control thread. It handles signals, the control socket, retries and the end
// of the mount on its own Asio context. The loops serve requests on their own threads. Therefore the control
// thread cannot delay a request, and no request can delay a signal.
//
//     attempting --root answers--> starting --kernel mounts--> mounted --umount, TERM--> unmounting
//         |  ^                                                                   --written back--> done
//         v  | after a passing failure, within `retry`
//       pausing              from each state: a permanent failure or a second TERM ends the daemon
//
// Signals: TERM and INT unmount; before the mount, and if a second one comes, they end the daemon at once.
// HUP reopens the log and rereads the log options. USR1 writes the statistics to the log. USR2 cycles through
// the log levels.
#pragma once

#include "cli/mount/mount_plan.h"
#include "cli/mount/reporter.h"

namespace nfsrdma::cli {

// Returns the exit status of the process when the mount has ended. Call it before any other thread exists.
int run_mount_daemon(const MountPlan& plan, Reporter& reporter);

}  // namespace nfsrdma::cli
