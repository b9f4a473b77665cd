// SPDX-License-Identifier: Apache-2.0
// SparseFile: the bytes of one regular file of the memory tree, and which of them a crash would lose.
//
// Pages of 4 KiB exist only where something was written: a hole of any length costs nothing. Every byte is
// either stable or unstable. An unstable write (RFC 8881 section 18.32, UNSTABLE4) keeps what it overwrote,
// byte for byte, until commit() of a range that covers it; crash() puts the old bytes and the old size back.
// So a client that commits a range too small, or does not write again after the verifier changed, reads wrong
// data here, as it would after a real power failure.
//
// Values only, no locks: the owner of the tree serializes. Offsets and sizes in bytes; the largest size is
// kMaxFileBytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "filer/tree/interval_set.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::filer {

class SparseFile {
 public:
  static constexpr uint64_t kPageBytes = 4096;
  static constexpr uint64_t kMaxFileBytes = uint64_t{1} << 62;

  uint64_t size() const { return size_; }
  uint64_t allocated_bytes() const { return pages_.size() * kPageBytes; }
  // Bytes that writing [offset, offset + length) would allocate.
  uint64_t growth(uint64_t offset, uint64_t length) const;

  // Appends up to `bytes` from `offset` to `to`, as far as the file goes; returns how many those were.
  size_t read(uint64_t offset, size_t bytes, ByteVector& to) const;
  void write(uint64_t offset, ConstBytes data, bool stable);
  // Truncates or extends with a hole; stable at once, as SETATTR is.
  void resize(uint64_t size);

  // COMMIT of `length` bytes at `offset`; length 0 means to the end of the file.
  void commit(uint64_t offset, uint64_t length);
  // Loses every unstable byte. True when something was lost.
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
  // What a crash goes back to: the bytes of `unstable_` as they were before, and the size.
  IntervalSet unstable_;
  Pages shadow_;  // a page absent here reads as zeros
  uint64_t stable_size_ = 0;
};

}  // namespace nfsrdma::filer
