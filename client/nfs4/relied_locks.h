// SPDX-License-Identifier: Apache-2.0
// Whose locks a READ, a WRITE or a change of the size relies on: with such a lock's stateid it is sent, and
// it fails once that lock is lost (RFC 8881 sections 8.2.5, 9.1.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/nfs4/file_state.h"
#include "client/nfs4/thread_groups.h"

namespace nfsrdma::client {

// So many processes are asked for a thread one by one; for more it is cheaper to ask the thread for its own.
constexpr size_t kFewLockers = 4;

// The owners of those locks, for I/O through `handle` by `thread` (RequestContext). A POSIX lock is its
// process's, whichever descriptor that reads and writes through; any lock counts for the open file
// description it was taken through, and one that was lost for a thread that is not known: pages of a mapping
// are written back by the kernel's own. However many have locks, `groups` is asked no more than kFewLockers
// times; the Node's mutex is taken, and not held meanwhile.
std::vector<std::string> locks_relied_on(const Nfs4File& handle, uint32_t thread, const ThreadGroups& groups);

}  // namespace nfsrdma::client
