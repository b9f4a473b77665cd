// SPDX-License-Identifier: Apache-2.0
// WriteTurn: the place of a write(2) among the others of its file that overlap it, from when it begins to
// wait for one of them until all of it is under way.
//
// What is under way is in CachedFile::writes, and whoever comes later waits for it. A write that waits itself
// is not: without its turn, one that came later but overlaps nothing that is under way would overtake it, and
// then be written over by older bytes; also when nobody waits for the older one's answer any more (a signal,
// `soft`), which does not end it.
//
// On the stack of the write's coroutine; any loop. Marked functions: with the Node's mutex held.
#pragma once

#include <cstdint>
#include <list>
#include <optional>

#include "client/cache/cached_file.h"

namespace nfsrdma::client {

class WriteTurn {
 public:
  WriteTurn(CachedFileRef file, uint64_t offset, uint64_t end);
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  ~WriteTurn() { end(); }

  const CachedFileRef& file() const { return file_; }
  // It has to wait: who overlaps it and comes from now on is behind it. Locked.
  void begin();
  // One that has begun before it overlaps it. Locked.
  bool others_first() const;
  // Of what it enters: who waits for all that was written by then waits for this, too. None: it has not
  // waited. Locked.
  std::optional<uint64_t> serial() const { return waiting_ ? std::optional(serial_) : std::nullopt; }
  // All of it is under way. Not locked.
  void end();

 private:
  const CachedFileRef file_;
  const uint64_t offset_, end_;
  std::list<const WriteTurn*>::iterator place_;  // in CachedFile::turns, while it waits
  uint64_t serial_ = 0;  // in CachedFile::under_way: who waits for all that was written waits for it
  bool waiting_ = false;
};

}  // namespace nfsrdma::client
