// SPDX-License-Identifier: Apache-2.0
// The kernel's own limit on how long a FUSE request may wait (Linux 6.15 and later): when one is older, the
// kernel ends the whole mount, though a lock may be waited for, and a filer that is away, for as long as it
// takes. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma::fuse {

// Of the texts of /proc/sys/fs/fuse/{default,max}_request_timeout, empty where the kernel has none: after how
// many seconds a request ends the mount; 0: never.
uint32_t request_timeout(std::string_view default_text, std::string_view max_text);

// What is to be said about this machine's, if anything.
std::optional<std::string> request_timeout_warning();

}  // namespace nfsrdma::fuse
