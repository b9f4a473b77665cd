// SPDX-License-Identifier: Apache-2.0
// Which lock-owners a READ, a WRITE or a change of the size relies on: it is sent with such a lock's stateid,
// and it fails after that lock was lost (RFC 8881 sections 8.2.5, 9.1.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/thread_groups.h"

namespace nfsrdma::client::nfs4 {

// Up to this number of processes are checked one by one. For more it is cheaper to look up the thread's
// process.
constexpr size_t kFewLockers = 4;

// The owners of the locks that I/O through `handle` by `thread` (RequestContext) relies on. A POSIX lock
// covers all I/O of its process, through any descriptor. Every lock covers I/O through the open file
// description that it was taken through. If the thread is not known (the kernel writes back pages of a
// mapping), the I/O relies on every lost lock of the file, too. Calls `groups` at most kFewLockers times,
// however many owners have locks. Takes the Node's mutex, and does not hold it during these calls.
std::vector<std::string> locks_relied_on(const Nfs4File& handle, uint32_t thread, const ThreadGroups& groups);

}  // namespace nfsrdma::client::nfs4
