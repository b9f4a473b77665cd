// SPDX-License-Identifier: Apache-2.0
// StagTable: the memory of one endpoint that its peer can reach, by steering tag.
//
// A tag consists of an index and a random key, together 32 bits, and its memory begins at a random tagged
// offset. A guess has to hit both, and a wrong guess ends the connection. The key changes with every use of
// an index, so an old tag does not reach new memory. Every access is checked for tag, access right, wrap and
// bounds (RFC 5040 section 7.2, RFC 5041 section 7.1).
//
// Owner: one endpoint; its loop only. The table refers to memory and owns none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/fabric/iwarp/words.h"
#include "transport/memory/piped_place.h"

namespace nfsrdma::fabric::iwarp {

enum class TagUse : uint8_t {
  kRemoteRead,   // exposed: the peer may read it
  kRemoteWrite,  // exposed: the peer may write it
  kReadSink,     // the target of our own RDMA Read; the peer's Writes must not use it
};

class StagTable {
 public:
  static constexpr size_t kMaxTags = 8192;

  struct Tag {
    uint32_t stag = 0;  // never 0
    uint64_t offset = 0;
  };
  // nullopt: kMaxTags are in use.
  std::optional<Tag> add(MutableBytes memory, TagUse use, PipedPlace* piped = nullptr);
  // False if there is no such tag. After it returns, the memory is unreachable.
  bool remove(uint32_t stag);
  // Removes a tag that the peer may still invalidate, because it does not know that the tag is gone.
  bool revoke(uint32_t stag);
  // True once, if the tag was revoked. (Each index remembers only its last revoked tag.)
  bool take_revoked(uint32_t stag);
  void clear();
  size_t size() const { return used_; }

  std::optional<TagUse> use_of(uint32_t stag) const;

  enum class Fault : uint8_t { kNone, kInvalid, kAccess, kWrap, kBounds };
  struct Found {
    std::byte* at = nullptr;
    Fault fault = Fault::kNone;
    PipedPlace* piped = nullptr;
  };
  // The address of the `bytes` (> 0) bytes at `offset`, or the fault.
  Found find(uint32_t stag, uint64_t offset, size_t bytes, TagUse use) const;

 private:
  struct Entry {
    uint32_t stag = 0;  // 0: free
    TagUse use{};
    uint64_t offset = 0;
    MutableBytes memory;
    PipedPlace* piped = nullptr;
    uint32_t revoked = 0;  // 0: none
  };
  const Entry* entry(uint32_t stag) const;
  uint32_t random();

  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
  std::vector<uint32_t> pool_;  // random words not used yet
};

}  // namespace nfsrdma::fabric::iwarp
