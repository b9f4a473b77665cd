// SPDX-License-Identifier: Apache-2.0
// SparseFile: the content of one regular file of the memory tree, and which part of it a crash would lose. A
// value type without locks; the tree's owner serializes access.
//
// Pages of 4 KiB exist only where data was written, so holes cost nothing. Each byte is stable or unstable.
// An unstable write (RFC 8881 section 18.32, UNSTABLE4) keeps the overwritten bytes until commit() of a range
// that includes them. crash() restores the old bytes and the old size. A client that commits too small a
// range, or does not write again after the verifier changed, therefore reads wrong data, as after a real
// power failure.
//
// Offsets and sizes are in bytes; the largest size is kMaxFileBytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "filer/tree/interval_set.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer::tree {

class SparseFile {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kMaxFileBytes = uint64_t{1} << 62;

  uint64_t size() const { return size_; }
  uint64_t allocated_bytes() const { return pages_.size() * kPageBytes; }
  // Bytes that writing [offset, offset + length) would allocate.
  uint64_t growth(uint64_t offset, uint64_t length) const;

  // Appends up to `bytes` bytes from `offset` on to `to`, until the end of the file. Returns how many.
  size_t read(uint64_t offset, size_t bytes, ByteVector& to) const;
  void write(uint64_t offset, ConstBytes data, bool stable);
  // Truncates, or extends with a hole. Stable at once, as SETATTR is.
  void resize(uint64_t size);

  // COMMIT of `length` bytes at `offset`; length 0 means to the end of the file.
  void commit(uint64_t offset, uint64_t length);
  // Loses all unstable bytes. Returns true if there were any.
  bool crash();
  bool has_unstable() const { return !unstable_.empty() || stable_size_ != size_; }

 private:
  using Page = std::array<std::byte, kPageBytes>;
  using Pages = std::map<uint64_t, std::unique_ptr<Page>>;  // by page number

  void remember(Interval range);
  void copy_in(Pages& pages, uint64_t offset, ConstBytes data);
  static void zero(Pages& pages, Interval range);
  void forget_clean_shadows();

  Pages pages_;
  uint64_t size_ = 0;
  // The state that a crash restores: the old content of the ranges `unstable_`, and the old size.
  IntervalSet unstable_;
  Pages shadow_;  // a page absent here reads as zeros
  uint64_t stable_size_ = 0;
};

}  // namespace nfsrdma::filer::tree
