// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/thread_groups.h"

#include <dirent.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "transport/runtime/proc.h"

namespace nfsrdma::client::nfs4 {

bool ThreadGroups::has(uint32_t process, uint32_t thread) const {
  return Proc::ours().has(fmt::format("{}/task/{}", process, thread));
}

// The first thread that the kernel lists for a process has the process's number. The thread's status is not
// read: for that the kernel takes a reference to the process's memory, and if the process is killed
// meanwhile, dropping the last reference waits for I/O that this loop itself has to answer.
uint32_t ThreadGroups::process_of(uint32_t thread) const {
  const Fd fd = Proc::ours().open(fmt::format("{}/task", thread), O_RDONLY | O_DIRECTORY);
  if (!fd) return 0;
  alignas(dirent64) std::array<char, 128> entries;  // ".", "..", and one or two threads
  const ssize_t length = getdents64(fd.get(), entries.data(), entries.size());
  uint32_t process = 0;
  for (ssize_t at = 0; process == 0 && at < length;) {
    const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
    const std::string_view name = entry->d_name;
    std::from_chars(name.data(), name.data() + name.size(), process);
    at += entry->d_reclen;
  }
  return process;
}

}  // namespace nfsrdma::client::nfs4
