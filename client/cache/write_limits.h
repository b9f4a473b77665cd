// SPDX-License-Identifier: Apache-2.0
// WriteLimits: how much of what was written a mount keeps until the server has it; beyond that writers wait.
// Bytes. Pure.
//
// As the data cache's room it follows the memory there is: 512 MiB where there is plenty, of a small
// container what leaves it alive.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nfsrdma::client {

class WriteLimits {
 public:
  // A little always: with less every write would wait for its own answer.
  static constexpr uint64_t kLeast = 32u << 20, kMost = 512u << 20;

  explicit constexpr WriteLimits(uint64_t bytes) : bytes_(bytes) {}
  // For a machine with so much memory available beside the `kept` bytes: of what there would be without them,
  // a quarter (the data cache has half, DataCache::fitting()).
  static constexpr WriteLimits fitting(uint64_t available, uint64_t kept) {
    return WriteLimits(std::clamp((available + kept) / 4, kLeast, kMost));
  }

  // In buffers beside the data cache: a write of a few bytes keeps a page until it is committed.
  constexpr uint64_t buffers() const { return bytes_; }
  constexpr uint64_t uncommitted() const { return bytes_ / 2; }
  constexpr uint64_t unanswered() const { return bytes_ / 8; }
  // Uncommitted, of one file: COMMIT in the background.
  constexpr uint64_t commit_at() const { return bytes_ / 16; }

 private:
  uint64_t bytes_;
};

}  // namespace nfsrdma::client
