// SPDX-License-Identifier: Apache-2.0
// The table of callbacks, and what is not in it.
//
// An operation without a callback is answered ENOSYS by libfuse, and the kernel remembers. That gives what
// the kernel's NFSv4.1 client gives:
//  - lseek: the kernel falls back to its generic SEEK_DATA/SEEK_HOLE (all data, one hole at the end) after
//  GETATTR;
//  - fallocate, tmpfile: EOPNOTSUPP, without asking again;
//  - setxattr, getxattr, listxattr, removexattr: likewise; the kernel's client has nothing else either but
//    system.nfs4_acl. It also stops the kernel from asking for security.capability before every write;
//  - copy_file_range: copied by the kernel through the page cache;
//  - poll: always ready. bmap: only for block devices.
// ioctl is the exception: older kernels hand ENOSYS to the application, where a file system says ENOTTY.
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
