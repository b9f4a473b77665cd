// SPDX-License-Identifier: Apache-2.0
#include "fuse/handshake.h"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuse/adaptor.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

namespace {

unsigned wanted_capabilities(const FuseOptions& options) {
  unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO;
  if (!options.local_posix_locks) want |= FUSE_CAP_POSIX_LOCKS;
  if (!options.local_flock) want |= FUSE_CAP_FLOCK_LOCKS;
  want |= FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_HANDLE_KILLPRIV;
  // A symbolic link's target never changes under one NFS file handle.
  want |= FUSE_CAP_CACHE_SYMLINKS;
  if (options.readdirplus) want |= FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;
  if (options.attributes_before_reads) want |= FUSE_CAP_AUTO_INVAL_DATA;
  return want;
  // Not wanted:
  //  - ATOMIC_O_TRUNC: the kernel holds back the write-back of mapped pages during SETATTR, but not during
  //    OPEN. Such pages would restore the old end of the file.
  //  - AUTO_INVAL_DATA without attributes_before_reads: it drops pages by mtime; the Filesystem drops them by
  //    the change attribute.
  //  - EXPLICIT_INVAL_DATA: keeps pages even when a reply brings another size. A page that was filled with
  //    zeros beyond the old end would then be read until our asynchronous invalidation arrives.
  //  - WRITEBACK_CACHE: for close-to-open consistency the errors and the order of writes must stay under our
  //    control.
  //  - DONT_MASK: the kernel applies the umask, as it does for its NFS client without ACLs.
  //  - SPLICE_*: these are for the library's own pipes; we write replies from pipes ourselves (PipedReply).
  //  - EXPORT_SUPPORT: node ids are addresses and mean nothing after a FORGET.
  //  - IOCTL_DIR, POSIX_ACL: NFSv4.1 has neither.
}

}  // namespace

Handshake::Handshake(const FuseOptions& options)
    : max_read_(options.max_read),
      max_write_(options.max_write),
      max_background_(options.max_background),
      wanted_(wanted_capabilities(options)) {}

void Handshake::negotiate(fuse_conn_info& conn) {
  capable_ = conn.capable;
  minor_ = conn.proto_minor;
  conn.want = wanted_ & conn.capable;
  conn.max_write = max_write_;
  conn.max_read = max_read_;  // must equal the mount option
  conn.max_background = max_background_;
  conn.congestion_threshold = max_background_ / 4 * 3;
  // conn.max_readahead stays what the kernel offered, its maximum.
  log::debug("fuse: protocol {}.{}, capabilities {:#x} of {:#x}, read-ahead {} KiB", conn.proto_major,
             conn.proto_minor, conn.want, conn.capable, conn.max_readahead / 1024);
}

uint32_t complete_init_flags(uint32_t reply_flags, unsigned capable) {
  if ((capable & FUSE_CAP_PARALLEL_DIROPS) != 0) reply_flags |= FUSE_PARALLEL_DIROPS;
  if ((capable & FUSE_CAP_HANDLE_KILLPRIV) != 0) reply_flags |= FUSE_HANDLE_KILLPRIV;
  return reply_flags;
}

InitFlags without_export_support(InitFlags reply, unsigned kernel_minor) {
  constexpr unsigned kSince = 40;
  constexpr uint64_t kNoExportSupport = uint64_t{1} << 38;
  if (kernel_minor < kSince) return reply;
  return {reply.low | FUSE_INIT_EXT, reply.high | static_cast<uint32_t>(kNoExportSupport >> 32)};
}

bool Handshake::install(fuse_session* session) {
  fuse_custom_io io{};
  io.writev = write_reply;
  io.read = read_request;
  return fuse_session_custom_io(session, &io, fuse_session_fd(session)) == 0;
}

ssize_t Handshake::read_request(int fd, void* to, size_t size, void*) {
  return ::read(fd, to, size);
}

ssize_t Handshake::write_reply(int fd, struct iovec* pieces, int count, void* userdata) {
  auto& adaptor = *static_cast<Adaptor*>(userdata);
  Handshake& handshake = adaptor.handshake;
  if (!handshake.done_ && count >= 2 && pieces[1].iov_len >= sizeof(fuse_init_out)) {
    fuse_init_out init{};
    std::memcpy(&init, pieces[1].iov_base, sizeof init);
    const InitFlags flags = without_export_support(
        {complete_init_flags(init.flags, handshake.capable_), init.flags2}, handshake.minor_);
    init.flags = flags.low;
    init.flags2 = flags.high;
    std::memcpy(pieces[1].iov_base, &init, sizeof init);
    handshake.done_ = true;
  }
  PipedReply* piped = Loop::current() != nullptr ? &adaptor.here().requests->piped_reply() : nullptr;
  // FuseRequest::data() passes a piece without an address to stand for the data in PipedReply.
  const bool spliced = piped != nullptr && piped->expected() && count == 2 && pieces[1].iov_base == nullptr;
  const ssize_t n = spliced ? piped->send(fd, pieces[0]) : ::writev(fd, pieces, count);
  // Ends the session on these errors; otherwise the library prints each reply that it cannot write.
  if (n < 0 && (errno == ENODEV || errno == EPERM || errno == ENOTCONN)) {
    const int e = errno;
    fuse_session_exit(adaptor.session);
    errno = e;
  }
  return n;
}

}  // namespace nfsrdma::fuse
