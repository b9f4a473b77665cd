// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/stag_table.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr unsigned kIndexBits = 13;
constexpr uint32_t kIndexMask = (1u << kIndexBits) - 1;
static_assert(StagTable::kMaxTags == kIndexMask + 1u);
// The most that one getentropy(3) returns: a call for each tag would cost more than the rest of add().
constexpr size_t kRandomWords = 64;

}  // namespace

// Uses the kernel's generator: its next value cannot be calculated from values that were seen.
uint32_t StagTable::random() {
  if (pool_.empty()) {
    pool_.resize(kRandomWords);
    if (::getentropy(pool_.data(), kRandomWords * sizeof(uint32_t)) != 0)
      throw std::system_error(errno, std::generic_category(), "getentropy");
  }
  const uint32_t word = pool_.back();
  pool_.pop_back();
  return word;
}

std::optional<StagTable::Tag> StagTable::add(MutableBytes memory, TagUse use, PipedPlace* piped) {
  uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (entries_.size() < kMaxTags) {
    index = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    return std::nullopt;
  }
  Entry& e = entries_[index];
  do {
    e.stag = (random() & ~kIndexMask) | index;
  } while (e.stag == 0);
  // Below 2^59, so no length makes it wrap. A multiple of 4096, so that page boundaries of both sides match.
  e.offset = (uint64_t{random()} << 27 ^ uint64_t{random()} << 12) & ~uint64_t{4095};
  e.use = use;
  e.memory = memory;
  e.piped = piped;
  ++used_;
  return Tag{e.stag, e.offset};
}

const StagTable::Entry* StagTable::entry(uint32_t stag) const {
  const uint32_t index = stag & kIndexMask;
  if (stag == 0 || index >= entries_.size() || entries_[index].stag != stag) return nullptr;
  return &entries_[index];
}

bool StagTable::remove(uint32_t stag) {
  if (entry(stag) == nullptr) return false;
  Entry& e = entries_[stag & kIndexMask];
  const uint32_t revoked = e.revoked;
  e = {};
  e.revoked = revoked;
  free_.push_back(stag & kIndexMask);
  --used_;
  return true;
}

bool StagTable::revoke(uint32_t stag) {
  if (!remove(stag)) return false;
  entries_[stag & kIndexMask].revoked = stag;
  return true;
}

bool StagTable::take_revoked(uint32_t stag) {
  const uint32_t index = stag & kIndexMask;
  if (stag == 0 || index >= entries_.size() || entries_[index].revoked != stag) return false;
  entries_[index].revoked = 0;
  return true;
}

void StagTable::clear() {
  entries_.clear();
  free_.clear();
  used_ = 0;
}

std::optional<TagUse> StagTable::use_of(uint32_t stag) const {
  const Entry* e = entry(stag);
  if (e == nullptr) return std::nullopt;
  return e->use;
}

StagTable::Found StagTable::find(uint32_t stag, uint64_t offset, size_t bytes, TagUse use) const {
  const Entry* e = entry(stag);
  if (e == nullptr) return {nullptr, Fault::kInvalid, nullptr};
  if (e->use != use) return {nullptr, Fault::kAccess, nullptr};
  if (offset + bytes < offset) return {nullptr, Fault::kWrap, nullptr};
  if (offset < e->offset || offset - e->offset > e->memory.size() ||
      bytes > e->memory.size() - (offset - e->offset))
    return {nullptr, Fault::kBounds, nullptr};
  return {e->memory.data() + (offset - e->offset), Fault::kNone, e->piped};
}

}  // namespace nfsrdma::fabric::iwarp
