// SPDX-License-Identifier: Apache-2.0
// Whether the data of a READ is kept in the data cache: a pure function.
//
// If the data is to be kept, a GETATTR of the change attribute follows the READ in its COMPOUND. If the value
// is the one known before the READ was sent, the file did not change in between, and the data is of the same
// version as the kernel's pages (RFC 8881 section 10.3.1).
#pragma once

#include <cstdint>

namespace nfsrdma::client {

struct ReadForKeeping {
  bool answered = false;      // with data, not with an error
  bool pages_are_of = false;  // the kernel's pages still belong to the change attribute known before
  bool same_change = false;   // the reply has that change attribute
  bool same_epoch = false;    // the server did not restart meanwhile
  bool writing = false;       // we are writing the file, which also changes the change attribute
};

// The first row that fits:
//
//   answered  pages_are_of  same_change  same_epoch  writing
//   yes       yes           yes          yes         *        kKeep
//   yes       yes           no           *           no       kFileChanged
//   *         *             *            *           *        kForget
enum class Keep : uint8_t {
  kKeep,         // the data enters the cache
  kForget,       // it does not
  kFileChanged,  // it does not. Another client changed the file: drop kept data, expire attributes
};
constexpr Keep keep(const ReadForKeeping& read) {
  if (!read.answered || !read.pages_are_of) return Keep::kForget;
  if (read.same_change) return read.same_epoch ? Keep::kKeep : Keep::kForget;
  return read.writing ? Keep::kForget : Keep::kFileChanged;
}

}  // namespace nfsrdma::client
