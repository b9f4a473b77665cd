// SPDX-License-Identifier: Apache-2.0
// Conversion between nodes and fattr4 (RFC 8881 sections 5.6 to 5.8).
//
// All REQUIRED attributes are supported, and the RECOMMENDED ones that a POSIX client uses. owner and
// owner_group are decimal numbers, as AUTH_SYS clients expect (section 5.9). Setting follows POSIX and
// answers BADOWNER, PERM, INVAL or ATTRNOTSUPP: only root changes the owner; the owner may change mode,
// times, and the group to one that it belongs to.
#pragma once

#include <cstdint>

#include "filer/tree/access.h"
#include "filer/tree/tree.h"

namespace nfsrdma::filer::tree {

// Attribute values that belong to the server and not to an object.
struct ServerFacts {
  uint32_t lease_seconds = 90;
  uint64_t max_read = 1 << 20;
  uint64_t max_write = 1 << 20;
  bool shows_acls = false;
};

const nfs4::bitmap4& supported_attributes();
// Attributes for exclusive creates. time_*_set would be allowed too; they are left out to test how clients
// cope.
const nfs4::bitmap4& exclusive_create_attributes();

// The attributes of `wanted` that are supported and readable. Others are left out, as GETATTR requires.
nfs4::fattr4 read_attributes(const Tree& tree, const Node& node, const nfs4::bitmap4& wanted,
                             const ServerFacts& facts);

// The attributes that a SETATTR or a create sets, checked as far as possible without an object.
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

// Removes from `changes` what the new object has already, and adds it to `set`.
void settle_initial(const Node& node, Changes& changes, nfs4::bitmap4& set);

// Applies all of `changes` except the size, or nothing. `set` gets the attributes that were set.
nfs4::nfsstat4 apply_changes(Tree& tree, Node& node, const Changes& changes, const Principal& who,
                             nfs4::bitmap4& set);

}  // namespace nfsrdma::filer::tree
