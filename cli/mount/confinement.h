// SPDX-License-Identifier: Apache-2.0
// Confines a daemon that runs as root before it talks to a server: the daemon drops capabilities, cannot gain
// new ones, and can make only the system calls in a table.
//
// A server that takes over the daemon must not get all of root's rights. A daemon of another user is not
// confined. It has no capabilities, and it needs fusermount3 (set-user-ID root) to unmount, which
// no_new_privs would forbid. seccomp(2) without no_new_privs requires CAP_SYS_ADMIN.
//
// Each thread drops capabilities for itself (capabilities(7)), and new threads inherit the result. Nothing
// can be regained.
#pragma once

#include <linux/capability.h>

#include <cstdint>

#include "cli/support/outcome.h"
#include "fuse/mount_namespace.h"

namespace nfsrdma::cli {

// Properties of the machine and the mount that require additional capabilities.
struct CapabilityNeeds {
  bool hidden_processes = false;  // /proc is mounted with hidepid and hides other users' processes
  bool limited_memory = false;    // RLIMIT_MEMLOCK cannot be raised
  bool other_namespace = false;   // mount -N: the daemon still has to enter a mount namespace
};

// One capability that the daemon keeps, and the condition for it.
struct KeptCapability {
  int number;
  bool CapabilityNeeds::*only_if;  // null: always
};

inline constexpr KeptCapability kKeptCapabilities[] = {
    // mount(2) and umount2(2); pipes larger than /proc/sys/fs/pipe-user-pages-soft allows.
    {CAP_SYS_ADMIN, nullptr},
    // `resvport`: each new connection binds a port below 1024.
    {CAP_NET_BIND_SERVICE, nullptr},
    // mount(2) and umount2(2) on mount points below directories that only their owner may search.
    {CAP_DAC_READ_SEARCH, nullptr},
    // Reading the callers' groups and signals in /proc/PID/status when hidepid hides other users' processes.
    {CAP_SYS_PTRACE, &CapabilityNeeds::hidden_processes},
    // Registering memory with RDMA devices.
    {CAP_IPC_LOCK, &CapabilityNeeds::limited_memory},
    // setns(2) by the guard of auto_unmount after the daemon has died.
    {CAP_SYS_CHROOT, &CapabilityNeeds::other_namespace},
};

// One bit for each capability, as in /proc/PID/status.
uint64_t kept_capabilities(const CapabilityNeeds& needs);

// Raises RLIMIT_MEMLOCK, which limits processes without CAP_IPC_LOCK. Returns which capabilities this machine
// requires.
CapabilityNeeds prepare_for_confinement();

// Reduces this thread's capabilities to those in `kept`. Programs that the thread executes gain no others
// (no_new_privs). Fails with MountExit::kSystem.
Outcome<> drop_capabilities(uint64_t kept);

// Confines the process. MountDaemon calls this after it has opened the log, while the only other thread is
// that of `where`. Does nothing if the user is not root, or in builds with sanitizers. If the kernel refuses,
// a line is logged and the mount continues.
void confine_daemon(const fuse::MountNamespace& where);

}  // namespace nfsrdma::cli
