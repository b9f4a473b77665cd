// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/open_device.h"

#include <fcntl.h>
#include <unistd.h>

namespace nfsrdma::fabric::verbs {

OpenDevice::~OpenDevice() {
  if (!removed_.load(std::memory_order_relaxed)) return;
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;  // the removal waits until this process ends
  ::dup3(nothing, context_->async_fd, O_CLOEXEC);
  ::dup3(nothing, context_->cmd_fd, O_CLOEXEC);
  ::close(nothing);
}

}  // namespace nfsrdma::fabric::verbs
