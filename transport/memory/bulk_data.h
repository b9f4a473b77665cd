// SPDX-License-Identifier: Apache-2.0
// BulkData: what a READ brought: memory, of which one range may still wait in a pipe.
//
// `slice` has room for all of it. While `piped` is not empty, those bytes of the slice are not there but in
// `pipe`, which holds them and nothing else; land() brings them to their place. Move-only; one thread at a
// time.
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
  // False when the pipe does not give what it was counted to hold: the data is lost (EIO).
  bool land();
};

// Reads exactly bytes.size() of what `from` holds.
bool read_all(Pipe& from, MutableBytes bytes);

}  // namespace nfsrdma
