// SPDX-License-Identifier: Apache-2.0
// The daemon of one mount, from the first attempt to the last byte: what main wires together.
//
// The calling thread becomes the control thread: signals, the control socket, retries and the end are handled
// on an Asio context of its own; requests are served by the loops, on threads of theirs. So nothing here can
// delay a request, and no request can delay a signal.
//
//     attempting --root answers--> starting --kernel mounts--> mounted --umount, TERM--> unmounting
//     --written--> done
//         |  ^
//         v  | after a passing failure, within `retry`
//       pausing                                            any of them: permanent failure, second TERM
//
// Signals: TERM and INT unmount (a second one ends at once); HUP reopens the log and rereads log options;
// USR1 writes the statistics to the log; USR2 goes through the log levels.
#pragma once

#include "cli/mount_plan.h"
#include "cli/reporter.h"

namespace nfsrdma::cli {

// Returns when the mount has ended: the exit status of the process. Before any other thread exists.
int run_mount_daemon(const MountPlan& plan, Reporter& reporter);

}  // namespace nfsrdma::cli
