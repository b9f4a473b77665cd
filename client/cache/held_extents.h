// SPDX-License-Identifier: Apache-2.0
// HeldExtents: which of a file's `writes` are held, so that their neighbours may join them (write_extents.h).
//
// Several, for as many places of a file may be appended to in turn: writers of logs, of parts, of an index
// and its data. The one written last is the last. Pointers into CachedFile::writes; guarded by the Node's
// mutex.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "client/cache/write_extents.h"
#include "transport/runtime/check.h"

namespace nfsrdma::client {

class HeldExtents {
 public:
  static constexpr size_t kMost = 4;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  bool full() const { return size_ == kMost; }
  WriteExtent* const* begin() const { return all_.data(); }
  WriteExtent* const* end() const { return all_.data() + size_; }
  WriteExtent& oldest() const { return *all_.front(); }

  bool holds(const WriteExtent& extent) const { return std::find(begin(), end(), &extent) != end(); }
  // What is written at `offset` lies in it, or else begins where it ends.
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
  // It has grown.
  void touch(WriteExtent& extent) {
    WriteExtent** const last = all_.data() + size_;
    WriteExtent** const at = std::find(all_.data(), last, &extent);
    std::rotate(at, at + 1, last);
  }
  // Those that `which` says yes to are not held any more. It is asked of the oldest first, and may ask which
  // that is.
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
  std::array<WriteExtent*, kMost> all_{};
  size_t size_ = 0;
};

}  // namespace nfsrdma::client
