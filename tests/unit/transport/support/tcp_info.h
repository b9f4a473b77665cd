// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of a TCP socket. A file of its own: <linux/tcp.h> and <netinet/tcp.h> exclude each
// other.
#pragma once

#include <cstdint>

namespace nfsrdma::test {

// Segments with data received so far.
uint32_t data_segments_received(int fd);

}  // namespace nfsrdma::test
