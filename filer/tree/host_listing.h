// SPDX-License-Identifier: Apache-2.0
// HostListing: the names of one directory of the host, with READDIR cookies that need no memory.
//
// A name's cookie is a keyed hash of the name, and entries come in the order of their cookies: whatever
// happens to other names, and whatever the file system underneath does for telldir(3), a reader that goes on
// from a cookie sees every name that existed throughout exactly once; the same after a restart with the same
// key. Names with the same hash (one pair among some billions of names) get the following cookies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filer/tree/node.h"
#include "filer/tree/siphash.h"

namespace nfsrdma::filer {

class HostListing {
 public:
  static constexpr uint64_t kFirstCookie = 3;

  struct Entry {
    uint64_t cookie = 0;
    std::string name;
  };

  // Reads the directory that `directory`, any descriptor of it, stands for. "." and ".." are left out.
  static Answer<HostListing> read(int directory, const SipHash& hash);

  // The first entry behind `cookie`, or null.
  const Entry* next(uint64_t cookie) const;

 private:
  std::vector<Entry> entries_;  // by cookie
};

}  // namespace nfsrdma::filer
