// SPDX-License-Identifier: Apache-2.0
// WritePlace: the order of a write(2) among the overlapping writes of its file. The place exists from the
// beginning of the write until a WRITE is sent for every part of it.
//
// A write waits for extents that were sent earlier and overlap it. While it waits, its own data is not sent.
// Without its place, a later write that overlaps only this data would be sent first, and then the older bytes
// would overwrite the newer ones. The place stays until the data is sent, also when the application stops
// waiting for the write (a signal, `soft`), because that does not end the write.
//
// A local object of the write's coroutine. Any loop.
#pragma once

#include <cstdint>
#include <utility>

#include "client/core/nodes/cached_file.h"

namespace nfsrdma::client {

class WritePlace {
 public:
  WritePlace(CachedFileRef file, uint64_t offset, uint64_t end)
      : file_(std::move(file)), place_{offset, end} {}
  WritePlace(const WritePlace&) = delete;
  WritePlace& operator=(const WritePlace&) = delete;
  ~WritePlace() { leave(); }

  const CachedFileRef& file() const { return file_; }
  FileWrites::Place& get() { return place_; }
  // A WRITE is sent for every part. Takes the Node's mutex only if the write has waited.
  void leave();

 private:
  const CachedFileRef file_;
  FileWrites::Place place_;
};

}  // namespace nfsrdma::client
