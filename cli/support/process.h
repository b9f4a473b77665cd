// SPDX-License-Identifier: Apache-2.0
// Settings that a daemon process makes for itself before it has threads.
#pragma once

#include <memory>
#include <string>

#include "cli/support/outcome.h"
#include "fuse/mount_namespace.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

// Ignores SIGPIPE, sets umask 077, and raises the soft limit of open files to the hard limit. As root it also
// sets:
// - PR_SET_IO_FLUSHER, made for FUSE daemons. The kernel can write back dirty pages of this mount even if
//   memory is short: memory that the daemon needs for this must not wait for pages to be written back.
// - oom_score_adj -500, which discounts half of memory. The out-of-memory killer selects the daemon later
//   than its size suggests, because it holds unwritten data of other processes.
//
// Settings that are not permitted are skipped.
void prepare_daemon_process();

// mount(8) -N: opens the mount namespace given by a PID or by the path of a namespace file. Null for an empty
// name: the process stays in its own namespace.
using NamespaceFile = std::shared_ptr<const Fd>;
Outcome<NamespaceFile> open_mount_namespace(const std::string& name);

// Only a separate thread enters the namespace (fuse::MountNamespace), so the process must not fork while the
// result lives.
using NamespaceRef = std::shared_ptr<const fuse::MountNamespace>;
Outcome<NamespaceRef> enter_mount_namespace(const NamespaceFile& file);

}  // namespace nfsrdma::cli
