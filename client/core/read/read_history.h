// SPDX-License-Identifier: Apache-2.0
// ReadHistory: how applications read one open file description: the pattern, and the bytes requested and not
// yet answered. Any thread, one short lock. The pattern is allocated at the first read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class ReadPattern;
struct ReadRange;

class ReadHistory {
 public:
  ReadHistory();
  ~ReadHistory();

  // A read of the kernel (for an application) in progress.
  class UnderWay {
   public:
    UnderWay(ReadHistory& history, uint64_t offset, uint64_t size);
    ~UnderWay();
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    ReadHistory& history_;
    const uint64_t size_;
  };

  // See ReadPattern::next(). Also nothing if the application itself keeps `window` bytes in flight: then the
  // path to the server is full without read-ahead.
  std::optional<ReadRange> next(uint64_t window, uint64_t piece, uint64_t end);
  // See ReadPattern.
  void put_back(const ReadRange& rest);
  void missed(uint64_t offset, uint64_t size);
  // True if a pattern was detected.
  bool foretells() const;

 private:
  mutable Mutex mutex_;
  std::unique_ptr<ReadPattern> pattern_ NFSRDMA_GUARDED_BY(mutex_);
  uint64_t asked_ NFSRDMA_GUARDED_BY(mutex_) = 0;       // bytes without an answer
  uint64_t most_asked_ NFSRDMA_GUARDED_BY(mutex_) = 0;  // its recent maximum
};

}  // namespace nfsrdma::client
