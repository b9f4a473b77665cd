// SPDX-License-Identifier: Apache-2.0
// What a daemon process sets up for itself before it has threads.
#pragma once

#include <memory>
#include <string>

#include "cli/outcome.h"
#include "fuse/mount_namespace.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

// SIGPIPE is ignored; files the daemon makes are its own (umask 077); the soft limit of open files is raised
// to the hard one. As root also: dirty pages of this mount may be written back even when memory is short
// (PR_SET_IO_FLUSHER, made for FUSE daemons: memory that the daemon needs to write pages out must not wait
// for pages to be written out), and the out-of-memory killer takes it later than its size says (oom_score_adj
// -500, which is half of memory): it holds other processes' unwritten data. What is not permitted is left as
// it is.
void prepare_daemon_process();

// mount(8) -N: the mount namespace named by a PID or by the path of a namespace file. Nothing: our own.
using NamespaceFile = std::shared_ptr<const Fd>;
Outcome<NamespaceFile> open_mount_namespace(const std::string& name);

// Only a thread enters it (fuse::MountNamespace), so no process may be forked while the result lives.
using NamespaceRef = std::shared_ptr<const fuse::MountNamespace>;
Outcome<NamespaceRef> enter_mount_namespace(const NamespaceFile& file);

}  // namespace nfsrdma::cli
