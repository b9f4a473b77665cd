// SPDX-License-Identifier: Apache-2.0
#include "client/core/kept_data.h"

namespace nfsrdma::client {

void KeptData::note_written(CachedFile& file, uint64_t offset, uint64_t end) {
  ++file.cached.data_touched;
  table_.data().punch(file.cached, offset, end);
}

void KeptData::invalidate_data(const NodeRef& node) {
  drop_kept(cached_node(node));
  kernel_.invalidate_data(node);
}

Task<> KeptData::drop_data(NodeRef node) {
  drop_kept(cached_node(node));
  co_await kernel_.drop_data(node);
}

bool KeptData::keeps_data() const {
  return options_.cache_bytes != 0 && !options_.noac && !options_.attributes_before_reads &&
         protocol_.has_change_attributes();
}

void KeptData::note_server_epoch(uint64_t epoch) {
  uint64_t known = data_epoch_.load(std::memory_order_relaxed);
  while (known != epoch) {
    if (!data_epoch_.compare_exchange_weak(known, epoch, std::memory_order_acq_rel)) continue;
    table_.data().drop_all();
    return;
  }
}

}  // namespace nfsrdma::client
