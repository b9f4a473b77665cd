// SPDX-License-Identifier: Apache-2.0
// BulkData: the data of a READ, in memory; one range of it may still be in a pipe.
//
// `slice` has room for all the data. While `piped` is not empty, the bytes of that range are in `pipe` and
// not in the slice; the pipe contains nothing else. land() moves them into the slice. Move-only; one thread
// at a time.
#pragma once

#include "transport/memory/buffer.h"
#include "transport/memory/pipe.h"

namespace nfsrdma {

// [begin, end), in bytes from the beginning of the data.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

struct BulkData {
  Slice slice;
  ByteRange piped{};
  PipeRef pipe;

  size_t size() const { return slice.size(); }
  // Moves the range from the pipe to the slice. False if the pipe gives fewer bytes than it counted: the data
  // is lost (EIO).
  bool land();
};

// Reads exactly bytes.size() bytes. False if `from` gives fewer.
bool read_all(Pipe& from, MutableBytes bytes);

}  // namespace nfsrdma
