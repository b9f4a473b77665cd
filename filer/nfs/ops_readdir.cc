// SPDX-License-Identifier: Apache-2.0
// READDIR (RFC 8881 section 18.23).
//
// Entries are returned in the order of their cookies, without "." and "..". The number of entries is limited
// by maxcount, by dircount (a hint, but respected) and by the session's reply size. Sizes are exact: they are
// what the encoder will write.

#include "filer/nfs/ops.h"
#include "filer/nfs/security_policy.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// cookieverf, end of the list, and eof.
constexpr size_t kFrameBytes = 8 + 4 + 4;
// opnum and status, in front of READDIR4resok.
constexpr size_t kResultBytes = 8;

verifier4 cookie_verifier(const Context& c, const tree::Node& dir) {
  constexpr uint64_t kFileidBits = (uint64_t{1} << 40) - 1;
  if (c.core.switches.strict_cookie_verifier) return verifier4::of(dir.change);
  const auto at = c.core.cookie_generation.find(dir.id);
  const uint64_t generation = at == c.core.cookie_generation.end() ? 0 : at->second;
  return verifier4::of(uint64_t{1} << 63 | generation << 40 | (dir.fileid & kFileidBits));
}

nfsstat4 check_start(const Context& c, const tree::Node& dir, const READDIR4args& args) {
  if (args.cookie == 0) return NFS4_OK;
  // "cookie values of zero, 1, and 2 are to be considered reserved": checked before the verifier.
  if (args.cookie <= 2) return NFS4ERR_BAD_COOKIE;
  // "the cookieverf field must match the cookieverf returned by the READDIR in which the cookie was
  // acquired".
  if (args.cookieverf != cookie_verifier(c, dir)) return NFS4ERR_NOT_SAME;
  return c.core.tree.issued(dir, args.cookie) ? NFS4_OK : NFS4ERR_BAD_COOKIE;
}

entry4 entry_with_error(const tree::NamedNode& entry, nfsstat4 error) {
  entry4 bare{entry.cookie, entry.name, {}};
  bare.attrs.attrmask.set(FATTR4_RDATTR_ERROR);
  bare.attrs.rdattr_error = error;
  return bare;
}

// "In some cases, the server may encounter an error while obtaining the attributes for a directory entry.
// Instead of returning an error for the entire READDIR operation, the server can instead return the attribute
// rdattr_error. ... If the client does not request the attribute, the server has no choice but to return
// failure".
tree::Answer<entry4> make_entry(const Context& c, const tree::NamedNode& entry, bool may_search,
                                const bitmap4& wanted) {
  const nfsstat4 error = may_search ? entry.error : NFS4ERR_ACCESS;
  if (error != NFS4_OK) {
    if (wanted.empty()) return entry4{entry.cookie, entry.name, {}};
    if (!wanted.test(FATTR4_RDATTR_ERROR)) return tree::refuse(error);
    return entry_with_error(entry, error);
  }
  // If another file system is mounted on the entry, return the attributes of its root. A caller whose flavor
  // that file system does not accept learns so; READDIR itself must not answer NFS4ERR_WRONGSEC (section
  // 2.6.3.1.1.7), so without rdattr_error he gets the attributes of the directory that is covered.
  tree::NodePtr node = tree::Tree::top(entry.node);
  if (!accepts(c, *node)) {
    if (wanted.test(FATTR4_RDATTR_ERROR)) return entry_with_error(entry, NFS4ERR_WRONGSEC);
    node = entry.node;
  }
  return entry4{entry.cookie, entry.name, tree::read_attributes(c.core.tree, *node, wanted, c.core.facts())};
}

// The entry that follows `cookie`.
tree::Answer<tree::NamedNode> next_entry(const Context& c, tree::Node& dir, uint64_t cookie) {
  tree::Answer<tree::NamedNode> entry = c.core.tree.next(dir, cookie);
  const bool loops = entry && entry->end() && c.core.switches.looping_cookies;
  return loops ? c.core.tree.next(dir, 0) : entry;
}

}  // namespace

READDIR4res execute(Context& c, const READDIR4args& args) {
  using Res = READDIR4res;
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<Res>(status);
  tree::Node& dir = *c.current.node;
  if (!dir.is_directory()) return refused<Res>(NFS4ERR_NOTDIR);
  if (!tree::may(dir, c.who, tree::kMayRead)) return refused<Res>(NFS4ERR_ACCESS);
  constexpr bitmap4 kSetOnly =
      bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_SET_MASKED});
  if (!(args.attr_request & kSetOnly).empty()) return refused<Res>(NFS4ERR_INVAL);
  if (const nfsstat4 status = check_start(c, dir, args); status != NFS4_OK) return refused<Res>(status);

  const size_t room = std::min<size_t>(args.maxcount, c.room > kResultBytes ? c.room - kResultBytes : 0);
  if (room < kFrameBytes) return refused<Res>(NFS4ERR_TOOSMALL);
  size_t left = room - kFrameBytes;
  size_t names_left = args.dircount == 0 ? SIZE_MAX : args.dircount;
  Res res;
  res.resok4.cookieverf = cookie_verifier(c, dir);
  tree::Answer<tree::NamedNode> at = next_entry(c, dir, args.cookie);
  const bool may_search = tree::may(dir, c.who, tree::kMayExecute);
  for (; at && !at->end(); at = next_entry(c, dir, at->cookie)) {
    const size_t name_bytes = 8 + 4 + xdr_padded(at->name.size());
    // dircount is a hint: at least one entry is returned, so that the client makes progress.
    if (name_bytes > names_left && !res.resok4.reply.entries.empty()) break;
    tree::Answer<entry4> entry = make_entry(c, *at, may_search, args.attr_request);
    if (!entry) return refused<Res>(entry.error());
    const size_t bytes = 4 + xdr::size_of(*entry);
    if (bytes > left) break;
    left -= bytes;
    names_left -= std::min(names_left, name_bytes);
    res.resok4.reply.entries.push_back(*std::move(entry));
  }
  if (!at) return refused<Res>(at.error());
  const bool more = !at->end();
  if (more && res.resok4.reply.entries.empty()) return refused<Res>(NFS4ERR_TOOSMALL);
  res.resok4.reply.eof = !more;
  c.core.tree.accessed(dir);
  return res;
}

}  // namespace nfsrdma::filer::nfs
