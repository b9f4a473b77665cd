// SPDX-License-Identifier: Apache-2.0
// The table of callbacks, and the reasons for the operations that are not in it.
//
// libfuse answers an operation without a callback with ENOSYS, and the kernel remembers that. This gives the
// same results as the kernel's NFSv4.1 client:
//  - lseek: after a GETATTR the kernel uses its generic SEEK_DATA/SEEK_HOLE (all data, one hole at the end);
//  - fallocate, tmpfile: EOPNOTSUPP, without asking again;
//  - setxattr, getxattr, listxattr, removexattr: likewise. The kernel's client has only system.nfs4_acl.
//    ENOSYS also stops the kernel from asking for security.capability before every write;
//  - copy_file_range: the kernel copies through the page cache;
//  - poll: always ready. bmap: only for block devices.
// ioctl is the exception: older kernels pass ENOSYS to the application, where a file system says ENOTTY.
#include "fuse/operations.h"

#include <cerrno>

#include "fuse/adaptor.h"

namespace nfsrdma::fuse {

namespace {

void op_ioctl(fuse_req_t req, fuse_ino_t, unsigned, void*, fuse_file_info*, unsigned, const void*, size_t,
              size_t) {
  auto& adaptor = *static_cast<Adaptor*>(fuse_req_userdata(req));
  FuseRequest request(*adaptor.here().requests, req, Operation::kIoctl);
  request.error(ENOTTY);
}

void op_init(void* userdata, fuse_conn_info* conn) {
  static_cast<Adaptor*>(userdata)->handshake.negotiate(*conn);
}

}  // namespace

fuse_lowlevel_ops make_operations(bool readdirplus) {
  fuse_lowlevel_ops ops{};
  add_name_operations(ops);
  add_attribute_operations(ops);
  add_file_operations(ops);
  add_directory_operations(ops, readdirplus);
  add_lock_operations(ops);
  ops.init = op_init;
  ops.ioctl = op_ioctl;
  return ops;
}

}  // namespace nfsrdma::fuse
