// SPDX-License-Identifier: Apache-2.0
// From nodes to fattr4 and back (RFC 8881 sections 5.6 to 5.8).
//
// All REQUIRED attributes and the RECOMMENDED ones a POSIX client uses are supported; owner and owner_group
// are decimal numbers, as AUTH_SYS clients expect (section 5.9). Setting answers BADOWNER, PERM, INVAL,
// ATTRNOTSUPP like a POSIX file system would: only root gives files away; the owner may change mode, times,
// and his group to one he is in.
#pragma once

#include <cstdint>

#include "filer/tree/access.h"
#include "filer/tree/tree.h"

namespace nfsrdma::filer {

// What attributes say about the server rather than the object.
struct ServerFacts {
  uint32_t lease_seconds = 90;
  uint64_t max_read = 1 << 20;
  uint64_t max_write = 1 << 20;
  bool shows_acls = false;
};

const nfs4::bitmap4& supported_attributes();
// Those of an exclusive create: time_*_set would be legal, but their absence tests what clients do about it.
const nfs4::bitmap4& exclusive_create_attributes();

// The attributes of `wanted` that are supported and can be read; others are left out, as GETATTR must.
nfs4::fattr4 read_attributes(const Tree& tree, const Node& node, const nfs4::bitmap4& wanted,
                             const ServerFacts& facts);

// What a SETATTR or a create asks for, taken out of a fattr4 and checked as far as that goes without an
// object.
struct Changes {
  std::optional<uint64_t> size;
  std::optional<uint32_t> mode;  // the new mode
  std::optional<nfs4::mode_masked4> mode_masked;
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<nfs4::settime4> accessed;
  std::optional<nfs4::settime4> modified;

  bool empty() const { return !size && !mode && !mode_masked && !uid && !gid && !accessed && !modified; }
};
Answer<Changes> parse_changes(const nfs4::fattr4& attributes);

// Takes out of `changes` what a new object has got already, and adds it to `set`.
void settle_initial(const Node& node, Changes& changes, nfs4::bitmap4& set);

// Everything of `changes` but the size, or nothing. `set` tells which attributes that were.
nfs4::nfsstat4 apply_changes(Tree& tree, Node& node, const Changes& changes, const Principal& who,
                             nfs4::bitmap4& set);

}  // namespace nfsrdma::filer
