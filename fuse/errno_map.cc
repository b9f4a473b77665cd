// SPDX-License-Identifier: Apache-2.0
#include "fuse/errno_map.h"

#include <cerrno>
#include <cstring>

namespace nfsrdma::fuse {

namespace {
constexpr int kMaxErrno = 511;  // above: kernel-internal (ERESTARTSYS...), refused by fuse_dev_do_write
}

int to_errno(const Error& error) {
  const int e = error.errnum;
  if (e == ENOSYS) return EOPNOTSUPP;
  if (e > 0 && e <= kMaxErrno) return e;
  return error.recovery == Recovery::kInterrupted ? EINTR : EIO;
}

bool is_ordinary(int errnum) {
  switch (errnum) {
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case EREMOTEIO:
    case EPROTO:
    case EBADMSG:
    case ENODEV:
    case ENXIO:
    case ENOMEM:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EFAULT:
    case EBADF: return false;
    default: return true;
  }
}

int ErrnoMap::report(Operation operation, const Error& error) {
  const int e = to_errno(error);
  if (is_ordinary(e)) {
    // describe() allocates, and failing lookups are a hot path.
    if (log::on(log::Level::kDebug)) {
      log::debug("fuse: {}: {} ({})", name_of(operation), describe(error), strerrorname_np(e));
    }
  } else if (const uint64_t n = warnings_[static_cast<size_t>(operation)].hit(); n != 0) {
    log::warn("{}: {}: {} ({}, failure {} of this operation); run 'nfsrdma-fuse status {}'", source_,
              name_of(operation), describe(error), strerrorname_np(e), n, mount_point_);
  }
  return e;
}

}  // namespace nfsrdma::fuse
