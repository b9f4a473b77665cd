// SPDX-License-Identifier: Apache-2.0
// ContentState: which version of an object's contents is cached. Guarded by its Node's mutex.
#pragma once

#include <cstdint>

namespace nfsrdma::client {

// The contents of an object: a file's data in the kernel's page cache; a directory's names in the name cache
// and in the kernel's cached listing.
struct ContentState {
  uint64_t change = 0;  // the change attribute of the contents; valid if `known`
  bool known = false;
  // Files: the change attribute moved while we were writing, and other clients may have written, too. Then a
  // new lock drops the pages.
  bool mixed = false;
  // Files: we wrote parts of pages. The kernel does not keep these pages (Linux 6.18 reads such a page when
  // it is needed).
  bool partly = false;

  bool are_of(uint64_t other) const { return known && change == other; }
  void set(uint64_t now) {
    change = now;
    known = true;
  }
};

}  // namespace nfsrdma::client
