// SPDX-License-Identifier: Apache-2.0
// OwnChanges: tells whether other clients changed a file while we changed it.
//
// Each of our operations brings the file's change attribute from before and after it, in one COMPOUND (RFC
// 8881 section 10.3.1 leaves it to the client to tell its own changes from others'). Our change lies between
// the two values. While nobody else changes the file, the spans of our operations follow one another without
// a gap, in whatever order the replies come. Another client's change makes a gap, unless it falls between the
// two GETATTRs of one of our operations.
//
// Pure; a value inside a CachedFile, guarded by its Node's mutex. It stores one span for each run of replies
// that overtook the reply to an earlier operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nfsrdma::client {

class OwnChanges {
 public:
  static constexpr size_t kMostApart = 256;

  // Adds our change from `before` to `after`. Returns the change attribute that our changes lead to from
  // `known`. A value that was only seen is a change from itself to itself.
  uint64_t follow(uint64_t known, uint64_t before, uint64_t after);
  // True: a span does not connect to the known value. Either a reply is still missing, or another client
  // changed the file.
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
