// SPDX-License-Identifier: Apache-2.0
// What root's daemon gives up before it talks to a server: capabilities, gaining new ones, and system calls.
//
// A server that takes the daemon over shall not have all that root has. A mount by anybody else has no
// capabilities, and needs fusermount3, which is set-user-ID root, to unmount: no_new_privs would forbid that,
// and seccomp(2) without it takes CAP_SYS_ADMIN. So nothing here concerns such a mount.
//
// Kept and dropped for each thread by itself (capabilities(7)); threads inherit it. Nothing can be taken
// back.
#pragma once

#include <linux/capability.h>

#include <cstdint>

#include "cli/outcome.h"
#include "fuse/mount_namespace.h"

namespace nfsrdma::cli {

// What the machine makes necessary beside what every mount by root needs.
struct CapabilityNeeds {
  bool hidden_processes = false;  // hidepid of /proc hides others' from us
  bool limited_memory = false;    // RLIMIT_MEMLOCK cannot be raised
  bool other_namespace = false;   // mount -N: a mount namespace is still to be entered
};

// One capability that stays, and when.
struct KeptCapability {
  int number;
  bool CapabilityNeeds::*only_if;  // null: always
};

inline constexpr KeptCapability kKeptCapabilities[] = {
    // mount(2) and umount2(2); pipes beyond /proc/sys/fs/pipe-user-pages-soft.
    {CAP_SYS_ADMIN, nullptr},
    // `resvport`: each new connection.
    {CAP_NET_BIND_SERVICE, nullptr},
    // Mount points below directories that only their owner may search: mount(2), umount2(2).
    {CAP_DAC_READ_SEARCH, nullptr},
    // The callers' groups and signals, in /proc/PID/status, where hidepid hides others' processes.
    {CAP_SYS_PTRACE, &CapabilityNeeds::hidden_processes},
    // Memory that is registered with RDMA devices.
    {CAP_IPC_LOCK, &CapabilityNeeds::limited_memory},
    // setns(2) of the guard of auto_unmount, when the daemon is gone.
    {CAP_SYS_CHROOT, &CapabilityNeeds::other_namespace},
};

// One bit for each, as in /proc/PID/status.
uint64_t kept_capabilities(const CapabilityNeeds& needs);

// Raises RLIMIT_MEMLOCK, which binds who has no CAP_IPC_LOCK.
CapabilityNeeds prepare_for_confinement();

// This thread keeps those of `kept` that it has; programs that it executes get none besides
// (no_new_privs). Fails with MountExit::kSystem.
Outcome<> drop_capabilities(uint64_t kept);

// Main's, when the log is open and before there are threads but that of `where`. Does nothing for other users
// than root, and under sanitizers. What the kernel refuses is a line in the log: the mount goes on.
void confine_daemon(const fuse::MountNamespace& where);

}  // namespace nfsrdma::cli
