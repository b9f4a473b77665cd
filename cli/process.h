// What a daemon process sets up for itself before it has threads.
#pragma once

#include <string>

#include "cli/outcome.h"

namespace nfsrdma::cli {

// SIGPIPE is ignored; files the daemon makes are its own (umask 077); the soft limit of open files is raised
// to the hard one. As root also: dirty pages of this mount may be written back even when memory is short
// (PR_SET_IO_FLUSHER, made for FUSE daemons: memory that the daemon needs to write pages out must not wait
// for pages to be written out), and the out-of-memory killer takes it later than its size says (oom_score_adj
// -500, which is half of memory): it holds other processes' unwritten data. What is not permitted is left as
// it is.
void prepare_daemon_process();

// mount(8) -N: enters the mount namespace named by a PID or by the path of a namespace file. Before any
// thread exists.
Outcome<> enter_mount_namespace(const std::string& name);

}  // namespace nfsrdma::cli
