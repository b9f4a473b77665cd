// SPDX-License-Identifier: Apache-2.0
// The FUSE handshake: the capabilities we ask of the kernel, and a repair of libfuse 3.14's INIT reply.
//
// libfuse 3.14.0 offers FUSE_CAP_PARALLEL_DIROPS and FUSE_CAP_HANDLE_KILLPRIV but does not put them into its
// INIT reply. Both matter here:
//  - Without the first the kernel serialises lookups and readdirs of one directory with a mutex. A process
//    that waits for this mutex cannot be killed: one lookup stuck on a dead server would block every other
//    visitor of the directory.
//  - Without the second the kernel clears set-user-ID bits on write and chown by a SETATTR of its own. The
//    server refuses that SETATTR to a writer who is not the owner, and the write fails. The server clears the
//    bits itself.
// So the reply passes through a writev of ours (fuse_session_custom_io) that adds the flags the kernel
// offered. Newer libraries set them by themselves; then nothing changes.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>
#include <ctime>

#include "fuse/options.h"

namespace nfsrdma::fuse {

class Handshake {
 public:
  explicit Handshake(const FuseOptions& options);

  // fuse_lowlevel_ops.init: chooses capabilities and limits.
  void negotiate(fuse_conn_info& conn);
  bool done() const { return done_; }

  // Makes `session`, which is mounted, use our reads and writes. False when the library cannot.
  bool install(fuse_session* session);

 private:
  static ssize_t write_reply(int fd, struct iovec* pieces, int count, void* userdata);
  static ssize_t read_request(int fd, void* to, size_t size, void* userdata);

  const uint32_t max_read_;
  const uint32_t max_write_;
  const unsigned max_background_;
  const unsigned wanted_;  // capabilities to ask for if the kernel has them
  unsigned capable_ = 0;
  unsigned minor_ = 0;  // of the kernel's protocol
  bool done_ = false;   // set before the loops start reading
};

// The flags of an INIT reply, plus PARALLEL_DIROPS and HANDLE_KILLPRIV if the kernel offered them.
uint32_t complete_init_flags(uint32_t reply_flags, unsigned capable);

// Adds FUSE_NO_EXPORT_SUPPORT from protocol 7.40 (Linux 6.9) on; it is one of the upper 32 flags. The kernel
// makes file handles (name_to_handle_at(2)) of a node id. They cannot hold the server's file handle, and lead
// nowhere once the kernel has forgotten that node.
struct InitFlags {
  uint32_t low = 0, high = 0;
  bool operator==(const InitFlags&) const = default;
};
InitFlags without_export_support(InitFlags reply, unsigned kernel_minor);

}  // namespace nfsrdma::fuse
