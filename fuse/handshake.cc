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
  // A symbolic link's target never changes under one file handle.
  want |= FUSE_CAP_CACHE_SYMLINKS;
  if (options.readdirplus) want |= FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;
  if (options.attributes_before_reads) want |= FUSE_CAP_AUTO_INVAL_DATA;
  return want;
  // Not wanted:
  //  - ATOMIC_O_TRUNC: the kernel holds back the write-back of mapped pages during SETATTR, not during OPEN:
  //    such pages would bring the old end of the file back;
  //  - AUTO_INVAL_DATA otherwise: it drops pages by mtime; the Filesystem does it by the change attribute;
  //  - EXPLICIT_INVAL_DATA: keeps pages even when a reply brings another size. Then a page that was filled
  //    with zeros beyond the old end would be read until our invalidation arrives, which is asynchronous;
  //  - WRITEBACK_CACHE: close-to-open consistency needs write errors and order to stay ours;
  //  - DONT_MASK: the kernel applies the umask, as it does for its NFS client without ACLs;
  //  - SPLICE_*: for the library's own pipes; what comes in pipes is ours to reply with (PipedReply);
  //  - EXPORT_SUPPORT: node ids lead to addresses and mean nothing after a FORGET;
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
  // The data's place is held by a piece without an address.
  const bool spliced = piped != nullptr && piped->expected() && count == 2 && pieces[1].iov_base == nullptr;
  const ssize_t n = spliced ? piped->send(fd, pieces[0]) : ::writev(fd, pieces, count);
  // The library prints what it cannot write unless the session is over.
  if (n < 0 && (errno == ENODEV || errno == EPERM || errno == ENOTCONN)) {
    const int e = errno;
    fuse_session_exit(adaptor.session);
    errno = e;
  }
  return n;
}

}  // namespace nfsrdma::fuse
