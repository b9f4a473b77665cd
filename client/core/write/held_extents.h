// SPDX-License-Identifier: Apache-2.0
// HeldExtents: the extents of a file that are not sent yet because data written next to them may join them
// (file_writes.h).
//
// There are several because a program may append to several places of a file in turn: logs of several
// writers, parts of a download, an index and its data. The order is that of the latest write, oldest first.
// It holds pointers into FileWrites' map of extents and belongs to that FileWrites.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "client/core/write/write_extents.h"
#include "transport/runtime/check.h"

namespace nfsrdma::client {

class HeldExtents {
 public:
  static constexpr size_t kMax = 4;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  bool full() const { return size_ == kMax; }
  WriteExtent* const* begin() const { return all_.data(); }
  WriteExtent* const* end() const { return all_.data() + size_; }
  WriteExtent& oldest() const { return *all_.front(); }

  bool holds(const WriteExtent& extent) const { return std::find(begin(), end(), &extent) != end(); }
  // The extent that contains `offset`, or else the one that ends there; null if there is none.
  WriteExtent* continued_at(uint64_t offset) const {
    WriteExtent* ends_there = nullptr;
    for (WriteExtent* extent : *this) {
      if (extent->end() == offset) ends_there = extent;
      if (extent->offset <= offset && offset < extent->end()) return extent;
    }
    return ends_there;
  }

  void hold(WriteExtent& extent) {
    NFSRDMA_CHECK(!full());
    all_[size_++] = &extent;
  }
  // `extent` was written to: it is the newest now.
  void touch(WriteExtent& extent) {
    WriteExtent** const last = all_.data() + size_;
    WriteExtent** const at = std::find(all_.data(), last, &extent);
    std::rotate(at, at + 1, last);
  }
  // Removes and returns the extents for which `which` returns true. `which` sees the oldest first and may
  // call full() and oldest().
  template <class Which>
  HeldExtents take_if(Which which) {
    HeldExtents taken;
    size_t kept = 0;
    for (size_t i = 0; i < size_; ++i) {
      if (which(*all_[i])) {
        taken.hold(*all_[i]);
      } else {
        all_[kept++] = all_[i];
      }
    }
    size_ = kept;
    return taken;
  }

 private:
  std::array<WriteExtent*, kMax> all_{};
  size_t size_ = 0;
};

}  // namespace nfsrdma::client
