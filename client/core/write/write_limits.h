// SPDX-License-Identifier: Apache-2.0
// WriteLimits: how many bytes of written data a mount keeps until the server has them. Beyond that, writers
// wait. Pure.
//
// Like the limit of the data cache, it depends on the available memory: 512 MiB if there is plenty, less in a
// small container, which must not run out of memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nfsrdma::client {

class WriteLimits {
 public:
  // kLeast is always allowed: with less, every write would wait for its own reply.
  static constexpr uint64_t kLeast = 32u << 20, kMost = 512u << 20;

  explicit constexpr WriteLimits(uint64_t bytes) : bytes_(bytes) {}
  // For a machine with `available` memory while buffers outside the data cache take `kept` bytes: a quarter
  // of what would be available without these (the data cache gets half, DataCache::fitting()).
  static constexpr WriteLimits fitting(uint64_t available, uint64_t kept) {
    return WriteLimits(std::clamp((available + kept) / 4, kLeast, kMost));
  }

  // Buffers outside the data cache. A write of a few bytes keeps a whole page until it is committed.
  constexpr uint64_t buffers() const { return bytes_; }
  constexpr uint64_t uncommitted() const { return bytes_ / 2; }
  constexpr uint64_t unanswered() const { return bytes_ / 8; }
  // Uncommitted data of one file beyond which a COMMIT is sent in the background.
  constexpr uint64_t commit_at() const { return bytes_ / 16; }

 private:
  uint64_t bytes_;
};

}  // namespace nfsrdma::client
