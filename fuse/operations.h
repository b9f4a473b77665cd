// SPDX-License-Identifier: Apache-2.0
// The FUSE operations by group; each file defines its callbacks and enters them in the table. Only
// operations.cc includes this.
#pragma once

#include <fuse_lowlevel.h>

namespace nfsrdma::fuse {

void add_name_operations(fuse_lowlevel_ops& ops);       // lookup, forget, create and remove names
void add_attribute_operations(fuse_lowlevel_ops& ops);  // getattr, setattr, access, readlink, statfs
void add_file_operations(fuse_lowlevel_ops& ops);       // open, create, read, write, flush, fsync, release
void add_directory_operations(fuse_lowlevel_ops& ops, bool readdirplus);
void add_lock_operations(fuse_lowlevel_ops& ops);  // getlk, setlk, flock

}  // namespace nfsrdma::fuse
