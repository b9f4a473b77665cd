// SPDX-License-Identifier: Apache-2.0
// HostListing: the names in one directory of the host, with READDIR cookies that need no memory.
//
// A name's cookie is a keyed hash of the name, and entries are in the order of their cookies. A cookie does
// not depend on other names, on telldir(3), or on a restart with the same key. A reader that continues from a
// cookie therefore sees every name that existed all the time exactly once. If two names have the same hash
// (one pair among some billions of names), the second gets the next cookie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filer/tree/node.h"
#include "filer/tree/siphash.h"

namespace nfsrdma::filer::tree {

class HostListing {
 public:
  static constexpr uint64_t kFirstCookie = 3;

  struct Entry {
    uint64_t cookie = 0;
    std::string name;
  };

  // Reads the directory of the descriptor `directory`, which may be O_PATH. "." and ".." are left out.
  static Answer<HostListing> read(int directory, const SipHash& hash);

  // The first entry after `cookie`, or null.
  const Entry* next(uint64_t cookie) const;

 private:
  std::vector<Entry> entries_;  // by cookie
};

}  // namespace nfsrdma::filer::tree
