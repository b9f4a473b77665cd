// SPDX-License-Identifier: Apache-2.0
// ReadHistory: how one open file description is being read: its pattern, and how much of what was asked for
// is not answered. Any thread, one short lock. What takes room exists from the first read on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace nfsrdma::client {

class ReadPattern;
struct ReadRange;

class ReadHistory {
 public:
  ReadHistory();
  ~ReadHistory();

  // A read of the application's (the kernel's), while it is under way.
  class Turn {
   public:
    Turn(ReadHistory& history, uint64_t offset, uint64_t size);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ReadHistory& history_;
    const uint64_t size_;
  };

  // See ReadPattern::next(). Nothing, too, when the application keeps as much as `window` under way by
  // itself: then the way to the server is full without us.
  std::optional<ReadRange> next(uint64_t window, uint64_t piece, uint64_t end);
  // See there.
  void put_back(const ReadRange& rest);
  void missed(uint64_t offset, uint64_t size);
  // Whether a pattern is seen at all.
  bool foretells() const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<ReadPattern> pattern_;
  uint64_t asked_ = 0;       // bytes, not answered
  uint64_t most_asked_ = 0;  // of late
};

}  // namespace nfsrdma::client
