// SPDX-License-Identifier: Apache-2.0
// READ, WRITE, COMMIT, READDIR and READDIRPLUS (RFC 1813 sections 3.3.6, 3.3.7, 3.3.16, 3.3.17, 3.3.21).
// client/core calls them.
#include <algorithm>
#include <cerrno>

#include "client/core/names/listing.h"
#include "client/nfs3/nfs3_protocol.h"

namespace nfsrdma::client::nfs3 {

Task<Result<ReadPiece>> Nfs3Protocol::read_piece(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                                 Slice destination, ReadFor) {
  const CachedOpen& handle = cached_open(open);
  auto asking = server_.read(account.credential, fh_of(handle.node), offset, destination);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "READ"));
  if (answer->count == 0 && !answer->eof && destination.size() != 0)
    co_return fail(system_error(EIO, "READ", "the server sent nothing, and no end of file"));
  ReadPiece piece;
  piece.data.slice = destination.first(answer->count);
  piece.eof = answer->eof;
  co_return piece;
}

Task<Result<WriteOutcome>> Nfs3Protocol::write(NodeRef node, CachedFileRef, const IoAccount& account,
                                               uint64_t offset, Slice data, nfs4::stable_how4 stable) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.write(account.credential, fh_of(node), offset, data, stable);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "WRITE"));
  NFSRDMA_CO_TRY(check_count(answer->count, data.size()));
  co_return WriteOutcome{.bytes = answer->count,
                         .written = {static_cast<nfs4::stable_how4>(answer->committed), answer->verifier},
                         .after = answered_own(answer->wcc, order)};
}

Task<Result<CommitOutcome>> Nfs3Protocol::commit(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.commit(std::move(credential), fh_of(node), offset, commit_count(offset, end));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "COMMIT"));
  co_return CommitOutcome{.verifier = answer->verifier, .after = answered_own(answer->wcc, order)};
}

// Exchanges the cookies 1 and 2 with two large values, in both directions. Our listings use the offsets 1 and
// 2 for "." and ".." (Listing), so no other entry may have them. RFC 8881 section 18.23.3 reserves these
// cookies; RFC 1813 does not. Some servers (go-nfs) count the entries: "." has cookie 0, and the first name
// after ".." has cookie 2. Such servers do not use the large values.
static uint64_t exchanged(uint64_t cookie) {
  constexpr uint64_t kStandIn = INT64_MAX - 3;
  if (cookie == 1 || cookie == 2) return kStandIn + cookie;
  return cookie == kStandIn + 1 || cookie == kStandIn + 2 ? cookie - kStandIn : cookie;
}

Task<Result<ListOutcome>> Nfs3Protocol::list(RequestContext ctx, const Listing& listing, uint64_t cookie,
                                             bool plus) {
  const NodeRef directory = listing.node;
  const uint64_t order = nodes_.next_start();
  const uint64_t before = names_change(directory);
  // Section 3.3.16: the verifier goes with cookies other than zero.
  const nfs4::verifier4 verifier = cookie != 0 ? listing.verifier : nfs4::verifier4{};
  auto asking = server_.readdir(ctx.credential, fh_of(directory), exchanged(cookie), verifier,
                                listing.reply_bytes, plus);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (plus && answer->status == nfs3::NFS3ERR_NOTSUPP_) co_return co_await list(ctx, listing, cookie, false);
  if (answer->status != 0) co_return fail(nfs3_error(answer->status, "READDIR"));
  ListOutcome list;
  list.directory = answered(answer->directory, order);
  list.names_change = names_change(before, answer->directory);
  list.plus = plus;
  list.eof = answer->eof;
  list.verifier = answer->verifier;
  const uint32_t here = nfs3_node(directory).export_index();
  list.entries.reserve(answer->entries.size());
  for (auto& from : answer->entries) {
    ListedEntry& entry = list.entries.emplace_back();
    entry.name = std::move(from.name);
    entry.cookie = exchanged(from.cookie);
    entry.ino = from.fileid;
    if (!from.object) continue;
    entry.export_index = export_of(*from.object);
    entry.attributes = as_cached(*from.object);
    entry.ino = entry.attributes.ino;
    entry.type = entry.attributes.mode & S_IFMT;
    entry.complete = plus && !from.handle.empty() && entry.export_index == here;
    entry.fh.assign(as_const_bytes(from.handle));
  }
  co_return list;
}

}  // namespace nfsrdma::client::nfs3
