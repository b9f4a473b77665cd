// SPDX-License-Identifier: Apache-2.0
// The sizes of requests and files, from what the user asked for and what the server allows. Pure.
#pragma once

#include <cstdint>

namespace nfsrdma::client {

// rsize or wsize: the requested size (0: none requested), limited by the file system (0: no limit known) and
// by the size of a message.
uint32_t io_size(uint32_t asked, uint64_t of_file_system, uint32_t of_message);
// Every server supports files up to this size.
inline constexpr uint64_t kLeastFileLimit = (uint64_t{1} << 31) - 1;
// The file size limit that write() applies. `told`: the server's maxfilesize; 0: not known.
uint64_t file_size_limit(uint64_t told);

}  // namespace nfsrdma::client
