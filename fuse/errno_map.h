// SPDX-License-Identifier: Apache-2.0
// ErrnoMap: the one place that turns an Error into the errno of a FUSE reply and logs failed operations.
//
// The kernel takes errno values 1...511. ENOSYS means "never ask again" to it, for the whole mount, so ENOSYS
// is replaced by EOPNOTSUPP. Errors that applications meet every day (ENOENT, EEXIST, EACCES...) are logged
// at debug level. Errors that mean trouble at the server or in this program (EIO, ESTALE...) are warnings,
// throttled per operation so that a dead server does not fill the log. Any thread.
#pragma once

#include <array>
#include <string>

#include "fuse/statistics.h"
#include "transport/runtime/log.h"
#include "xdr/support/error.h"

namespace nfsrdma::fuse {

// The errno the kernel is given for `error`; never 0.
int to_errno(const Error& error);

// Whether an errno is part of normal operation and worth only a debug line.
bool is_ordinary(int errnum);

class ErrnoMap {
 public:
  // Both appear in the log lines: what is mounted, and where.
  ErrnoMap(std::string source, std::string mount_point)
      : source_(std::move(source)), mount_point_(std::move(mount_point)) {}

  // to_errno(), and logs the failure.
  int report(Operation operation, const Error& error);

 private:
  const std::string source_, mount_point_;
  std::array<log::Throttle, kOperations> warnings_;
};

}  // namespace nfsrdma::fuse
