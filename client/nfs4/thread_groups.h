// SPDX-License-Identifier: Apache-2.0
// ThreadGroups: which process a thread is of. Only /proc says so, at some 2 us for a pair of both and three
// times as much for a thread alone. Nothing of it is kept: the number of a thread that ended may be another
// process's in the next moment. Any thread.
#pragma once

#include <cstdint>

namespace nfsrdma::client {

class ThreadGroups {
 public:
  ThreadGroups() = default;
  ThreadGroups(const ThreadGroups&) = delete;
  ThreadGroups& operator=(const ThreadGroups&) = delete;
  virtual ~ThreadGroups() = default;

  virtual bool has(uint32_t process, uint32_t thread) const;
  virtual uint32_t process_of(uint32_t thread) const;  // 0: not known
};

}  // namespace nfsrdma::client
