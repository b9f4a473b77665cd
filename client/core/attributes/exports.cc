// SPDX-License-Identifier: Apache-2.0
#include "client/core/attributes/exports.h"

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

uint32_t Exports::index_of(const FilesystemId& id) {
  MutexLock lock(mutex_);
  const auto known = indices_.find({id.major, id.minor});
  if (known != indices_.end()) return known->second;
  const auto next = static_cast<uint32_t>(indices_.size());
  if (next >= kMost) return kMost;
  indices_.insert({{id.major, id.minor}, next});
  return next;
}

uint64_t Exports::ino(uint32_t export_index, const FilesystemId& id, uint64_t fileid) {
  if (export_index == 0) return fileid;
  uint64_t h = (id.major * 0x9e3779b97f4a7c15ULL) ^ (id.minor + 0x7f4a7c15ULL);
  h ^= h >> 29;
  return fileid ^ (h << 32 | 1ULL << 63);
}

}  // namespace nfsrdma::client
