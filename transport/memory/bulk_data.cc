// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/bulk_data.h"

namespace nfsrdma {

bool read_all(Pipe& from, MutableBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t n = from.read(bytes);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool BulkData::land() {
  if (piped.empty()) return true;
  if (!read_all(*pipe, slice.bytes.subspan(piped.begin, piped.size()))) return false;
  piped = {};
  pipe.reset();
  return true;
}

}  // namespace nfsrdma
