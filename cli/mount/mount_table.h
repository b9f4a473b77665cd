// SPDX-License-Identifier: Apache-2.0
// Records of a mount that mount(8), umount(8), findmnt(8) and systemd use and the kernel does not keep:
// libmount's table (/run/mount/utab), and fstab(5).
//
// umount(8) asks the kernel only for the file system type, which is "fuse" for every FUSE mount. Without a
// line in the table it would remove our mount without our helper, which waits until the server has all data.
// systemd reads in the table that the mount needs the network (_netdev), and unmounts it before the network
// goes down. Only for root. Blocking, for command-line programs.
#pragma once

#include <string>
#include <vector>

#include "cli/options/option_split.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// Adds a line for root's mount and replaces an older line for the same directory. `options`: the options that
// the administrator gave. libmount stores only those for user space (x-..., user). The function adds
// _netdev. Fails with MountExit::kSystem.
Outcome<> add_to_mount_table(const std::string& source, const std::string& mount_point,
                             const std::vector<RawOption>& options);

// umount(8) itself does this after its helper returns.
void remove_from_mount_table(const std::string& mount_point);

// The options of the matching line in `fstab`; empty if there is none. An empty name means $LIBMOUNT_FSTAB or
// /etc/fstab, as for mount(8).
std::vector<RawOption> fstab_options(const std::string& fstab, const std::string& source,
                                     const std::string& directory);

}  // namespace nfsrdma::cli
