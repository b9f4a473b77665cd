// SPDX-License-Identifier: Apache-2.0
// What mount(8), umount(8), findmnt(8) and systemd keep of a mount and the kernel does not: libmount's table
// (/run/mount/utab), and fstab(5).
//
// umount(8) asks the kernel only for the kind of file system, which of every FUSE mount is "fuse", and would
// take ours away without its helper, which waits until the server has all data. A line in the table makes it
// look closer. systemd reads there that the mount needs the network (_netdev), and unmounts it before the
// network goes. Root's own; blocking, for command-line programs.
#pragma once

#include <string>
#include <vector>

#include "cli/option_split.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

// A line for root's mount, in place of an older one of that directory. `options`: what the administrator
// wrote, of which the table takes what is not the kernel's (x-..., user); _netdev is added. Fails with
// MountExit::kSystem.
Outcome<> add_to_mount_table(const std::string& source, const std::string& mount_point,
                             const std::vector<RawOption>& options);

// What umount(8) does itself after its helper.
void remove_from_mount_table(const std::string& mount_point);

// The options of the line in `fstab`; an empty name is /etc/fstab, or $LIBMOUNT_FSTAB, as for mount(8).
// Empty: there is none.
std::vector<RawOption> fstab_options(const std::string& fstab, const std::string& source,
                                     const std::string& directory);

}  // namespace nfsrdma::cli
