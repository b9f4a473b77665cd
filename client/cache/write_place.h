// SPDX-License-Identifier: Apache-2.0
// WritePlace: the place of a write(2) among the others of its file that overlap it, from when it begins until
// a WRITE is sent for every part of it.
//
// A later write waits for the extents that are sent. A write that waits itself has not sent its own yet:
// without its place, a later write that overlaps nothing sent would go first, and the older bytes would then
// overwrite the newer ones. The place stays until the data is sent, also when the program stops waiting for
// the write (a signal, `soft`), because that does not end the write.
//
// In the frame of the write's coroutine. Any loop.
#pragma once

#include <cstdint>
#include <utility>

#include "client/cache/cached_file.h"

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
  // A WRITE is sent for every part. Takes the Node's mutex, unless the write has not waited.
  void leave();

 private:
  const CachedFileRef file_;
  FileWrites::Place place_;
};

}  // namespace nfsrdma::client
