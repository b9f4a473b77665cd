#include "client/nfs4/thread_groups.h"

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

uint32_t ThreadGroups::process_of(uint32_t thread) const {
  constexpr std::string_view kKey = "\nTgid:\t";
  const int fd = ::open(fmt::format("/proc/{}/status", thread).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::array<char, 512> buffer;  // one of the first lines; the name before it is short, and has no newline
  const ssize_t length = ::read(fd, buffer.data(), buffer.size());
  ::close(fd);
  const std::string_view text(buffer.data(), length > 0 ? static_cast<size_t>(length) : 0);
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) return 0;
  uint32_t process = 0;
  std::from_chars(text.data() + at + kKey.size(), text.data() + text.size(), process);
  return process;
}

}  // namespace nfsrdma::client
