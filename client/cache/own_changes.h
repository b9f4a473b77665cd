// SPDX-License-Identifier: Apache-2.0
// OwnChanges: whether the file that changed while we changed it was changed by anybody else.
//
// An operation of ours comes with the file's change attribute before and after it, in one COMPOUND (RFC 8881
// section 10.3.1 leaves it to the client to tell its own changes from others'). What it did lies between the
// two; so while nobody else changes the file, the spans of our operations follow one another without a gap,
// in whatever order they are answered. Somebody else's change is a gap, unless it falls between the two
// GETATTRs of one of our operations.
//
// Pure; a value inside a CachedFile, guarded by its Node's mutex. Size: one span for each run of answers that
// overtook another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nfsrdma::client {

class OwnChanges {
 public:
  static constexpr size_t kMostApart = 256;

  // Where a file that is known at `known` has got to by our changes, with another one from `before` to
  // `after`. An attribute that was only seen is a change from itself to itself.
  uint64_t follow(uint64_t known, uint64_t before, uint64_t after);
  // Something lies between what follows and what was seen: an operation whose answer is on its way, or
  // somebody else's change.
  bool gaps() const { return !apart_.empty(); }
  void clear() { apart_.clear(); }

 private:
  struct Span {
    uint64_t first = 0, last = 0;
  };
  void add(Span span);

  std::vector<Span> apart_;  // disjoint, ascending
};

}  // namespace nfsrdma::client
