// SPDX-License-Identifier: Apache-2.0
// The kernel's own limit on the age of a FUSE request (Linux 6.15 and later). When a request is older, the
// kernel ends the whole mount. But waiting for a lock, or for a server that is away, may take longer than any
// limit. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma::fuse {

// The seconds after which a request ends the mount; 0: never. The arguments are the texts of
// /proc/sys/fs/fuse/{default,max}_request_timeout, empty where the kernel has none.
uint32_t request_timeout(std::string_view default_text, std::string_view max_text);

// A warning about this machine's limit, if it has one.
std::optional<std::string> request_timeout_warning();

}  // namespace nfsrdma::fuse
