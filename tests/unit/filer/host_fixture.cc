#include "tests/unit/filer/host_fixture.h"

#include <sys/syscall.h>

#include <cerrno>

namespace nfsrdma::filer::test {
std::atomic<int> failing_fsyncs{0};
}

extern "C" int fsync(int fd) {
  std::atomic<int>& failing = nfsrdma::filer::test::failing_fsyncs;
  if (failing > 0 && failing-- > 0) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}
