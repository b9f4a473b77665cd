// SPDX-License-Identifier: Apache-2.0
// Attributes: ACCESS, GETATTR, SETATTR, VERIFY, NVERIFY (RFC 8881 sections 18.1, 18.7, 18.15, 18.30, 18.31).

#include "filer/nfs/delegations.h"
#include "filer/nfs/ops.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

constexpr bitmap4 kSetOnly =
    bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED});
// Attributes that the holder of a write delegation may know better than the server (section 10.4.3).
constexpr bitmap4 kDelegated = bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE, FATTR4_TIME_MODIFY,
                                            FATTR4_TIME_METADATA, FATTR4_SPACE_USED, FATTR4_TIME_ACCESS});

ByteVector encoded(const fattr4& a) {
  ByteVector bytes;
  xdr::Encoder x(bytes);
  x(a);
  return bytes;
}

// NFS4ERR_SAME, NFS4ERR_NOT_SAME, or the error that prevents the comparison.
nfsstat4 compare(Context& c, const fattr4& theirs) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return status;
  if (!tree::supported_attributes().contains(theirs.attrmask)) return NFS4ERR_ATTRNOTSUPP;
  // Set-only attributes and rdattr_error cannot be compared (sections 5.5, 18.15.4).
  if (!(theirs.attrmask & kSetOnly).empty() || theirs.has(FATTR4_RDATTR_ERROR)) return NFS4ERR_INVAL;
  const bool delegated = !(theirs.attrmask & kDelegated).empty();
  if (delegated && recall_conflicting(c, *c.current.node, false)) return NFS4ERR_DELAY;
  const fattr4 ours = tree::read_attributes(c.core.tree, *c.current.node, theirs.attrmask, c.core.facts());
  return encoded(ours) == encoded(theirs) ? NFS4ERR_SAME : NFS4ERR_NOT_SAME;
}

// Sets the size under the rules of a WRITE (section 18.30.3).
nfsstat4 set_size(Context& c, const stateid4& stateid, uint64_t size) {
  tree::Node& node = *c.current.node;
  if (node.type != NF4REG) return NFS4ERR_WRONG_TYPE;
  const tree::Answer<state::State*> state = io_state(c, stateid, OPEN4_SHARE_ACCESS_WRITE);
  if (!state) return state.error();
  // "incompatible with a share reservation that specifies OPEN4_SHARE_DENY_WRITE"; an open's own deny bits do
  // not apply to itself.
  const state::State* own = *state == nullptr                           ? nullptr
                            : (*state)->kind == state::StateKind::kLock ? (*state)->open
                                                                        : *state;
  while (state::State* denying = c.core.states.denies(node.id, OPEN4_SHARE_ACCESS_WRITE, own)) {
    if (!c.core.take_from_expired(*denying)) return NFS4ERR_LOCKED;
  }
  if (!tree::may(node, c.who, tree::kMayWrite) && !(*state != nullptr && tree::owns(node, c.who)))
    return NFS4ERR_ACCESS;
  const nfsstat4 status = c.core.tree.resize(node, size, c.who);
  if (status == NFS4_OK) c.core.tree.clear_set_id(node, c.who);
  return status;
}

}  // namespace

ACCESS4res execute(Context& c, const ACCESS4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<ACCESS4res>(status);
  constexpr uint32_t kDefined =
      ACCESS4_READ | ACCESS4_LOOKUP | ACCESS4_MODIFY | ACCESS4_EXTEND | ACCESS4_DELETE | ACCESS4_EXECUTE;
  if ((args.access & ~kDefined) != 0) return refused<ACCESS4res>(NFS4ERR_INVAL);
  const tree::Node& node = *c.current.node;
  const uint32_t bits = tree::permissions(node, c.who);
  const bool dir = node.is_directory();
  // Bits without meaning for the type are not supported: LOOKUP and DELETE of files, EXECUTE of directories.
  const uint32_t meaningful =
      dir ? kDefined & ~ACCESS4_EXECUTE : kDefined & ~(ACCESS4_LOOKUP | ACCESS4_DELETE);
  uint32_t granted = 0;
  if ((bits & tree::kMayRead) != 0) granted |= ACCESS4_READ;
  if ((bits & tree::kMayExecute) != 0) granted |= dir ? ACCESS4_LOOKUP : ACCESS4_EXECUTE;
  if ((bits & tree::kMayWrite) != 0 && !node.fs->read_only) {
    // MODIFY and EXTEND of a directory need write permission only, as access(2) reports it. Removing an entry
    // also needs search permission, and so does DELETE.
    granted |= ACCESS4_MODIFY | ACCESS4_EXTEND;
    if (dir && (bits & tree::kMayExecute) != 0) granted |= ACCESS4_DELETE;
  }
  ACCESS4res res;
  res.resok4.supported = args.access & meaningful;
  res.resok4.access = args.access & meaningful & granted;
  return res;
}

GETATTR4res execute(Context& c, const GETATTR4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<GETATTR4res>(status);
  // "an attempt to get a set-only attribute ... NFS4ERR_INVAL" (section 5.5).
  if (!(args.attr_request & kSetOnly).empty()) return refused<GETATTR4res>(NFS4ERR_INVAL);
  if (args.attr_request.test(FATTR4_ACL) && c.core.switches.refuses_acls)
    return refused<GETATTR4res>(NFS4ERR_ACCESS);
  HeldAttributes held;
  if (!(args.attr_request & kDelegated).empty()) held = ask_holder(c, *c.current.node);
  if (held.status != NFS4_OK) return refused<GETATTR4res>(held.status);
  GETATTR4res res;
  fattr4& attributes = res.resok4.obj_attributes;
  attributes = tree::read_attributes(c.core.tree, *c.current.node, args.attr_request, c.core.facts());
  if (held.size && attributes.has(FATTR4_SIZE)) attributes.size = *held.size;
  return res;
}

SETATTR4res execute(Context& c, const SETATTR4args& args) {
  SETATTR4res res;
  if (res.status = need_current(c); res.status != NFS4_OK) return res;
  const tree::Answer<tree::Changes> changes = tree::parse_changes(args.obj_attributes);
  if (!changes) return refused<SETATTR4res>(changes.error());
  tree::Node& node = *c.current.node;
  if (node.fs->read_only && !changes->empty()) return refused<SETATTR4res>(NFS4ERR_ROFS);
  if (recall_conflicting(c, node, true)) return refused<SETATTR4res>(NFS4ERR_DELAY);
  if (changes->size) {
    res.status = set_size(c, args.stateid, *changes->size);
    if (res.status != NFS4_OK) return res;
    res.attrsset.set(FATTR4_SIZE);
  } else if (args.stateid != kAnonymousStateid && args.stateid != kReadBypassStateid) {
    const tree::Answer<state::State*> state =
        named_state(c, args.stateid, state::kAnyState);  // "the server SHOULD validate the stateid"
    if (!state) return refused<SETATTR4res>(state.error());
  }
  res.status = tree::apply_changes(c.core.tree, node, *changes, c.who, res.attrsset);
  return res;
}

VERIFY4res execute(Context& c, const VERIFY4args& args) {
  const nfsstat4 status = compare(c, args.obj_attributes);
  return refused<VERIFY4res>(status == NFS4ERR_SAME ? NFS4_OK : status);
}

NVERIFY4res execute(Context& c, const NVERIFY4args& args) {
  const nfsstat4 status = compare(c, args.obj_attributes);
  return refused<NVERIFY4res>(status == NFS4ERR_NOT_SAME ? NFS4_OK : status);
}

}  // namespace nfsrdma::filer::nfs
