// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/filer/host_fixture.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <cerrno>

namespace nfsrdma::filer::test {
std::atomic<int> failing_fsyncs{0};
std::atomic<int> failing_getxattr{0};
LastWriter last_writer;

static void note_writer() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  syscall(SYS_capget, &header, data);
  last_writer.user = static_cast<uint32_t>(setfsuid(static_cast<uid_t>(-1)));
  last_writer.overrides =
      (data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective & CAP_TO_MASK(CAP_SYS_RESOURCE)) != 0;
}
}  // namespace nfsrdma::filer::test

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  nfsrdma::filer::test::note_writer();
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

extern "C" int ftruncate(int fd, off_t size) noexcept {
  nfsrdma::filer::test::note_writer();
  return static_cast<int>(syscall(SYS_ftruncate, fd, size));
}

extern "C" ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  const int error = nfsrdma::filer::test::failing_getxattr;
  if (error == 0) return syscall(SYS_getxattr, path, name, value, size);
  errno = error;
  return -1;
}

extern "C" int fsync(int fd) {
  std::atomic<int>& failing = nfsrdma::filer::test::failing_fsyncs;
  if (failing > 0 && failing-- > 0) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}
