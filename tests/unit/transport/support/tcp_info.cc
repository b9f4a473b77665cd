// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport/support/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace nfsrdma::test {

uint32_t data_segments_received(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_data_segs_in : 0;
}

}  // namespace nfsrdma::test
