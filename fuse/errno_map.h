// SPDX-License-Identifier: Apache-2.0
// ErrnoMap: the one place where an Error becomes the errno of a FUSE reply, and where a failed operation is
// logged.
//
// The kernel takes errno values 1...511. ENOSYS means "never ask again" to it, for the whole mount, so it
// never leaves here by accident: it becomes EOPNOTSUPP. What applications meet every day (ENOENT, EEXIST,
// EACCES...) is logged at debug level; what says that something is wrong with the filer or with us (EIO,
// ESTALE...) is a warning, thinned out per operation so that a dead filer does not fill the log. Any thread.
#pragma once

#include <array>
#include <string>

#include "fuse/statistics.h"
#include "transport/runtime/log.h"
#include "xdr/support/error.h"

namespace nfsrdma::fuse {

// The errno the kernel is given for `error`; never 0.
int to_errno(const Error& error);

// Whether an errno is part of ordinary life, not worth more than a debug line.
bool is_ordinary(int errnum);

class ErrnoMap {
 public:
  // Both for the log lines: what is mounted, and where.
  ErrnoMap(std::string source, std::string mount_point)
      : source_(std::move(source)), mount_point_(std::move(mount_point)) {}

  // to_errno(), with the log line.
  int report(Operation operation, const Error& error);

 private:
  const std::string source_, mount_point_;
  std::array<log::Throttle, kOperations> warnings_;
};

}  // namespace nfsrdma::fuse
