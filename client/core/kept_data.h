// SPDX-License-Identifier: Apache-2.0
// KeptData: drops what is kept of a file, in the data cache and in the kernel. One per mount; any loop.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/core/mount_parts.h"

namespace nfsrdma::client {

class KeptData {
 public:
  explicit KeptData(const MountParts& parts)
      : options_(parts.options), table_(parts.table), kernel_(parts.kernel), protocol_(parts.protocol) {}
  KeptData(const KeptData&) = delete;
  KeptData& operator=(const KeptData&) = delete;

  // Drop the file's cached data, here and in the kernel. drop_data() returns when both are done.
  void invalidate_data(const NodeRef& node);
  Task<> drop_data(NodeRef node);
  // Reads without O_DIRECT may be answered from the data cache.
  bool keeps_data() const;
  // Drops the file's data from the data cache. Data of a READ in progress is not cached either.
  void drop_kept(CachedNode& n) {
    ++n.data_touched;
    table_.data().drop(n);
  }
  // Drops all cached data if the server restarted since it was cached.
  void note_server_epoch(uint64_t epoch);
  // [offset, end) was written: removes it from the data cache, also where a READ is in progress. The
  // Node's mutex is held.
  void note_written(CachedFile& file, uint64_t offset, uint64_t end);

 private:
  const ClientOptions& options_;
  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  std::atomic<uint64_t> data_epoch_{0};  // the epoch of the cached data
};

}  // namespace nfsrdma::client
