// SPDX-License-Identifier: Apache-2.0
// The FUSE handshake: what we ask of the kernel, and the repair of what libfuse 3.14 leaves out.
//
// libfuse 3.14.0 offers FUSE_CAP_PARALLEL_DIROPS and FUSE_CAP_HANDLE_KILLPRIV but does not put them into its
// INIT reply. Both matter here:
//  - without the first the kernel serialises lookups and readdirs of one directory with a mutex, on which a
//  waiting
//    process cannot be killed: one lookup stuck on a dead filer would take every other visitor of the
//    directory along;
//  - without the second the kernel clears set-user-ID bits on write and chown by a SETATTR of its own, which
//  the
//    server refuses to a writer who is not the owner, so that the write fails. The server clears them itself.
// So the reply passes through a writev of ours (fuse_session_custom_io) that adds the flags the kernel
// offered. Newer libraries set them by themselves, then nothing changes.
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

  // Puts our reads and writes under `session`, which is mounted. False when the library cannot.
  bool install(fuse_session* session);

 private:
  static ssize_t write_reply(int fd, struct iovec* pieces, int count, void* userdata);
  static ssize_t read_request(int fd, void* to, size_t size, void* userdata);

  const uint32_t max_read_;
  const uint32_t max_write_;
  const unsigned max_background_;
  const unsigned wanted_;  // capabilities, if the kernel has them
  unsigned capable_ = 0;
  unsigned minor_ = 0;  // of the kernel's protocol
  bool done_ = false;   // written before the loops start reading
};

// The flags of an INIT reply, with those added that the kernel offered, we want and the library forgot.
uint32_t complete_init_flags(uint32_t reply_flags, unsigned capable);

// The same of what protocol 7.40 (Linux 6.9) has: FUSE_NO_EXPORT_SUPPORT, among the upper 32 flags. A file
// handle (name_to_handle_at(2)) is made by the kernel, of a node id: it can hold none of the server's, and
// leads nowhere once the kernel has forgotten that node.
struct InitFlags {
  uint32_t low = 0, high = 0;
  bool operator==(const InitFlags&) const = default;
};
InitFlags without_export_support(InitFlags reply, unsigned kernel_minor);

}  // namespace nfsrdma::fuse
