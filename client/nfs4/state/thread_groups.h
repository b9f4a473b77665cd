// SPDX-License-Identifier: Apache-2.0
// ThreadGroups: finds the process of a thread in /proc. has() takes about 2 us, process_of() three times as
// long. Nothing is cached: the number of a thread that ended may belong to another process a moment later.
// Any thread.
#pragma once

#include <cstdint>

#include "client/nfs4/protocol_types.h"

namespace nfsrdma::client::nfs4 {

class ThreadGroups {
 public:
  ThreadGroups() = default;
  ThreadGroups(const ThreadGroups&) = delete;
  ThreadGroups& operator=(const ThreadGroups&) = delete;
  virtual ~ThreadGroups() = default;

  virtual bool has(uint32_t process, uint32_t thread) const;
  virtual uint32_t process_of(uint32_t thread) const;  // 0: not known
};

}  // namespace nfsrdma::client::nfs4
