// SPDX-License-Identifier: Apache-2.0
#include "transport/runtime/proc.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace nfsrdma {

Proc::Proc(const char* directory) : directory_(::open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  struct statfs fs {};
  if (directory_ && (::fstatfs(directory_.get(), &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC))
    directory_.reset();
}

const Proc& Proc::ours() {
  static const Proc proc;
  return proc;
}

Fd Proc::open(const std::string& path, int flags) const {
  return directory_ ? Fd(::openat(directory_.get(), path.c_str(), flags | O_CLOEXEC)) : Fd();
}

bool Proc::has(const std::string& path) const {
  return directory_ && ::faccessat(directory_.get(), path.c_str(), F_OK, 0) == 0;
}

std::string Proc::read(const std::string& path) const {
  const Fd fd = open(path);
  if (!fd) return {};
  // One read usually suffices.
  std::string text(4096, '\0');
  size_t length = 0;
  while (true) {
    const ssize_t n = ::read(fd.get(), text.data() + length, text.size() - length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    length += static_cast<size_t>(n);
    if (length == text.size()) text.resize(text.size() * 4);
  }
  text.resize(length);
  return text;
}

std::string Proc::link(const std::string& path) const {
  if (!directory_) return {};
  char buffer[PATH_MAX];
  const ssize_t n = ::readlinkat(directory_.get(), path.c_str(), buffer, sizeof buffer);
  return n < 0 ? std::string() : std::string(buffer, static_cast<size_t>(n));
}

}  // namespace nfsrdma
