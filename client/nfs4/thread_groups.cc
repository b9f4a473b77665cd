#include "client/nfs4/thread_groups.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace nfsrdma::client {

bool ThreadGroups::has(uint32_t process, uint32_t thread) const {
  return access(fmt::format("/proc/{}/task/{}", process, thread).c_str(), F_OK) == 0;
}

// The first thread that the kernel lists of a process is the one that has its number. Not from the thread's
// status, for which the kernel takes hold of the process' memory: if it is killed just then, the last to let
// go waits for the I/O that its own loop is to answer.
uint32_t ThreadGroups::process_of(uint32_t thread) const {
  const int fd = ::open(fmt::format("/proc/{}/task", thread).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  alignas(dirent64) std::array<char, 128> entries;  // ".", "..", and one or two threads
  const ssize_t length = getdents64(fd, entries.data(), entries.size());
  ::close(fd);
  uint32_t process = 0;
  for (ssize_t at = 0; process == 0 && at < length;) {
    const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
    const std::string_view name = entry->d_name;
    std::from_chars(name.data(), name.data() + name.size(), process);
    at += entry->d_reclen;
  }
  return process;
}

}  // namespace nfsrdma::client
