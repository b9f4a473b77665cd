// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of a TCP socket. In its own file, because <linux/tcp.h> and <netinet/tcp.h> cannot be
// included together.
#pragma once

#include <cstdint>

namespace nfsrdma::test {

// Received segments with data.
uint32_t data_segments_received(int fd);

}  // namespace nfsrdma::test
