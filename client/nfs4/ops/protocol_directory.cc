// SPDX-License-Identifier: Apache-2.0
// READDIR (RFC 8881 section 18.23). DirectoryService processes the entries.
#include <algorithm>

#include "client/core/names/listing.h"
#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

nfs4::READDIR4args Nfs4Protocol::readdir_args(const Listing& listing, uint64_t cookie, bool plus) const {
  nfs4::READDIR4args args;
  args.cookie = cookie;
  // Section 18.23.3: the verifier goes with cookies other than zero.
  if (cookie != 0) args.cookieverf = listing.verifier;
  args.maxcount = std::min(listing.reply_bytes, session_.fore_channel().response_bytes() - 1024);
  args.dircount = args.maxcount;
  args.attr_request = plus ? kEntryAttributes : kNameAttributes;
  return args;
}

Task<Result<>> Nfs4Protocol::read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) {
  const nfs4::nfs_fh4 fh = fh_of(listing.node);
  NameBelief belief{Clock::now(), 0, nodes_.next_start()};
  listing.filled = false;
  nfs4::READDIR4args args = readdir_args(listing, cookie, plus);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes).add(args); };
  const Request request{.op = nfs4::OP_READDIR, .credential = ctx.credential, .build = build};
  for (bool bare = false;; bare = true) {
    Result<CompoundReply> reply = co_await session_.run(request);
    NFSRDMA_CO_TRY(replies_.take_handle(reply, listing.node));
    const Result<uint64_t> change = co_await take_listed(*reply, listing, belief);
    if (!change) co_return fail(change.error());
    if (cookie == 0) listing.change = *change;
    Result<> taken = co_await take_entries(*reply, listing, cookie, plus && !bare, belief);
    // nfs-ganesha 6 returns this error for the whole directory if a single entry needs another security
    // flavor.
    if (taken || bare || !taken.error().is_status(nfs4::NFS4ERR_WRONGSEC)) co_return taken;
    args.attr_request = kBareAttributes;
  }
}

Task<Result<uint32_t>> Nfs4Protocol::ask_access_and_list(RequestContext ctx, Listing& listing,
                                                         uint32_t wanted, bool plus) {
  const nfs4::nfs_fh4 fh = fh_of(listing.node);
  NameBelief belief{Clock::now(), 0, nodes_.next_start()};
  listing.filled = false;
  const nfs4::READDIR4args args = readdir_args(listing, 0, plus);
  // Even if the ACL is known: a directory is usually listed because it has changed.
  const bool with_acl = options_.many_users && options_.server_acls &&
                        attributes_.all_may_search(AttributeService::known_attributes(listing.node));
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes).add(args);
    if (with_acl) b.getattr(kDirectoryAcl);  // last: the ACL may be denied to some users, or be too long
  };
  const Request request{.op = nfs4::OP_READDIR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(replies_.take_handle(reply, listing.node));
  auto answer = reply->take<nfs4::ACCESS4res>();
  if (!answer) co_return fail(std::move(answer.error()));
  const Result<uint64_t> change = co_await take_listed(*reply, listing, belief);
  if (!change) co_return fail(change.error());
  listing.change = *change;
  const uint32_t allowed = access_.note_access(ctx, nfs4_node(listing.node), answer->resok4.supported,
                                               answer->resok4.access, *change);
  // An error of READDIR is returned to the caller that reads the directory.
  (void)co_await take_entries(*reply, listing, 0, plus, belief);
  if (with_acl) take_acl(*reply, listing.node);
  co_return allowed& wanted;
}

Task<Result<uint64_t>> Nfs4Protocol::take_listed(CompoundReply& reply, Listing& listing, NameBelief& belief) {
  auto attributes = reply.take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  const uint64_t change = attributes->resok4.obj_attributes.change;
  co_await replies_.apply(listing.node, std::move(attributes->resok4.obj_attributes), belief.order,
                          Cause::kAsked);
  belief.epoch = NameService::names_epoch(listing.node, change);
  co_return change;
}

Task<Result<>> Nfs4Protocol::take_entries(CompoundReply& reply, Listing& listing, uint64_t cookie, bool plus,
                                          NameBelief belief) {
  auto res = reply.take<nfs4::READDIR4res>();
  if (!res) co_return fail(std::move(res.error()));
  auto& list = res->resok4.reply;
  listing.verifier = res->resok4.cookieverf;
  std::vector<ListedEntry> entries;
  entries.reserve(list.entries.size());
  for (nfs4::entry4& from : list.entries) {
    Task<ListedEntry> entry = listed_entry(listing.node, std::move(from), plus);
    entries.push_back(co_await std::move(entry));
  }
  co_return listing.answer(cookie, plus, std::move(entries), list.eof, belief);
}

Task<ListedEntry> Nfs4Protocol::listed_entry(NodeRef directory, nfs4::entry4 from, bool plus) {
  const nfs4::fattr4& a = from.attrs;
  ListedEntry entry;
  entry.name = std::move(from.name);
  entry.cookie = from.cookie;
  const uint32_t here = nfs4_node(directory).export_index();
  const bool failed = a.has(nfs4::FATTR4_RDATTR_ERROR) && !a.has(nfs4::FATTR4_TYPE);
  entry.export_index = a.has(nfs4::FATTR4_FSID) ? exports_.index_of(to_filesystem_id(a.fsid)) : here;
  entry.type = failed ? 0 : file_type_bits(a.type);
  entry.ino = Exports::ino(entry.export_index, to_filesystem_id(a.fsid),
                           a.has(nfs4::FATTR4_FILEID) ? a.fileid : a.mounted_on_fileid);
  // A mount point on the server gets its LOOKUP when an application goes there.
  const bool crossing = entry.export_index != here;
  entry.complete = plus && !failed && !crossing && a.has(nfs4::FATTR4_FILEHANDLE);
  if (entry.complete) {
    entry.fh = a.filehandle;
    entry.attributes = co_await replies_.as_cached(from.attrs, entry.export_index);
  }
  co_return entry;
}

}  // namespace nfsrdma::client::nfs4
