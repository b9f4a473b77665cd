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

Task<Result<ListOutcome>> Nfs4Protocol::list(RequestContext ctx, const Listing& listing, uint64_t cookie,
                                             bool plus) {
  const NodeRef directory = listing.node;
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  nfs4::READDIR4args args = readdir_args(listing, cookie, plus);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes).add(args); };
  const Request request{.op = nfs4::OP_READDIR, .credential = ctx.credential, .build = build};
  for (bool bare = false;; bare = true) {
    Result<CompoundReply> reply = co_await session_.run(request);
    NFSRDMA_CO_TRY(ReplyAttributes::take_handle(reply));
    Result<ListOutcome> answer = co_await take_listed(*reply, directory, order);
    if (!answer) co_return answer;
    co_await take_entries(*reply, directory, plus && !bare, *answer);
    // nfs-ganesha 6 returns this error for the whole directory if a single entry needs another security
    // flavor.
    const bool one_refused = !answer->read && answer->read.error().is_status(nfs4::NFS4ERR_WRONGSEC);
    if (bare || !one_refused) co_return answer;
    args.attr_request = kBareAttributes;
  }
}

Task<Result<ListOutcome>> Nfs4Protocol::list_with_access(RequestContext ctx, const Listing& listing,
                                                         bool plus, bool with_acl) {
  const NodeRef directory = listing.node;
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  const nfs4::READDIR4args args = readdir_args(listing, 0, plus);
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes).add(args);
    if (with_acl) b.getattr(kDirectoryAcl);  // last: the ACL may be denied to some users, or be too long
  };
  const Request request{.op = nfs4::OP_READDIR, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(ReplyAttributes::take_handle(reply));
  auto access = reply->take<nfs4::ACCESS4res>();
  if (!access) co_return fail(std::move(access.error()));
  Result<ListOutcome> answer = co_await take_listed(*reply, directory, order);
  if (!answer) co_return answer;
  answer->access = AccessBits{access->resok4.supported, access->resok4.access, *answer->names_change};
  co_await take_entries(*reply, directory, plus, *answer);
  if (with_acl) answer->acl = take_acl(*reply);
  co_return answer;
}

Task<Result<ListOutcome>> Nfs4Protocol::take_listed(CompoundReply& reply, NodeRef directory, uint64_t order) {
  auto attributes = reply.take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  ListOutcome answer;
  answer.names_change = attributes->resok4.obj_attributes.change;
  answer.directory = co_await replies_.answered(directory, attributes->resok4.obj_attributes, order);
  co_return answer;
}

Task<> Nfs4Protocol::take_entries(CompoundReply& reply, NodeRef directory, bool plus, ListOutcome& answer) {
  auto res = reply.take<nfs4::READDIR4res>();
  if (!res) {
    answer.read = fail(std::move(res.error()));
    co_return;
  }
  auto& list = res->resok4.reply;
  answer.plus = plus;
  answer.eof = list.eof;
  answer.verifier = res->resok4.cookieverf;
  answer.entries.reserve(list.entries.size());
  for (nfs4::entry4& from : list.entries) {
    answer.entries.push_back(co_await listed_entry(directory, from, plus));
  }
}

ValueTask<ListedEntry> Nfs4Protocol::listed_entry(const NodeRef& directory, nfs4::entry4& from, bool plus) {
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
  if (!entry.complete) return entry;
  entry.fh = a.filehandle;
  const uint32_t index = entry.export_index;
  return replies_.complete(
      std::move(entry), [](ListedEntry& e, const Attributes& got) { e.attributes = got; }, a, index);
}

}  // namespace nfsrdma::client::nfs4
