// SPDX-License-Identifier: Apache-2.0
// Our mount in the kernel's mount table, and the ways to make and end it.
//
// Root mounts with mount(2) here: libfuse would look at /etc/mtab of the target's mount namespace and run
// /bin/mount from there. For other users libfuse mounts with fusermount3. The functions block and may run on
// any thread, but not on a loop once the mount is served: unmounting makes the kernel send requests that the
// loops must answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fuse/mount_namespace.h"
#include "fuse/options.h"
#include "transport/runtime/fd.h"
#include "xdr/support/result.h"

namespace nfsrdma::fuse {

struct KernelMount {
  int id = 0;          // mount ID of mountinfo(5)
  std::string device;  // "0:42", as /sys/class/bdi names it
  std::string mount_point;
};

// The topmost mount at `mount_point` in the text of /proc/self/mountinfo.
std::optional<KernelMount> find_mount(std::string_view mountinfo, std::string_view mount_point);
std::optional<KernelMount> find_mount(const MountNamespace& where, const std::string& mount_point);

// `path`, an existing directory we may mount on, as an absolute path without symbolic links.
Result<std::string> resolve_mount_point(const MountNamespace& where, const std::string& path);

// As root: opens /dev/fuse in our own namespace and mounts in `where`. The descriptor is the FUSE connection.
Result<Fd> mount_kernel(const MountNamespace& where, const FuseOptions& options);

// The "-o" options for fuse_session_new(), with names and values escaped.
std::string libfuse_options(const FuseOptions& options);

// umount2(2) as root, fusermount3 otherwise. Succeeds when the mount is gone already; EBUSY while files are
// open.
Result<> unmount_kernel(const MountNamespace& where, const KernelMount& mount, bool lazy);

// Sets the kernel's read-ahead, in KiB, for files opened from now on. Needs root.
Result<> set_read_ahead(const KernelMount& mount, uint32_t kib);

}  // namespace nfsrdma::fuse
