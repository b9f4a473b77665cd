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
  if (answer->status != 0) co_return fail(failed(handle.node, answer->status, "READ"));
  if (answer->count == 0 && !answer->eof && destination.size() != 0)
    co_return fail(system_error(EIO, "READ", "the server sent nothing, and no end of file"));
  ReadPiece piece;
  piece.data.slice = destination.first(answer->count);
  piece.eof = answer->eof;
  co_return piece;
}

Task<Result<Written>> Nfs3Protocol::write_on_server(NodeRef node, CachedFileRef, IoAccount account,
                                                    uint64_t offset, Slice data, nfs4::stable_how4 stable) {
  Written result{nfs4::FILE_SYNC4, {}};
  int verifiers = 0;
  for (size_t done = 0; done < data.size();) {
    const Slice piece = data.subslice(done, std::min<size_t>(data.size() - done, limits_.wsize));
    const uint64_t order = nodes_.next_start();
    auto asking = server_.write(account.credential, fh_of(node), offset + done, piece, stable);
    auto answer = co_await std::move(asking);
    if (!answer) co_return fail(std::move(answer.error()));
    if (answer->status != 0) co_return fail(failed(node, answer->status, "WRITE"));
    if (answer->count == 0 || answer->count > piece.size())
      co_return fail(system_error(EIO, "WRITE", "the server wrote an impossible number of bytes"));
    co_await note_own(node, answer->wcc, order);
    // The pieces of one extent got different verifiers. What the first verifier covered may be lost, so write
    // all again.
    if (done != 0 && result.committed == nfs4::UNSTABLE4 && answer->verifier != result.verifier) {
      if (++verifiers == kMostVerifiers)
        co_return fail(system_error(EIO, "WRITE", "the server's write verifier is another one each time"));
      result = {nfs4::FILE_SYNC4, {}};
      done = 0;
      continue;
    }
    result.committed = std::min(result.committed, static_cast<nfs4::stable_how4>(answer->committed));
    result.verifier = answer->verifier;
    done += answer->count;
  }
  co_return result;
}

Task<Result<nfs4::verifier4>> Nfs3Protocol::commit_on_server(NodeRef node, rpc::CredentialPtr credential,
                                                             uint64_t offset, uint64_t end) {
  const uint64_t order = nodes_.next_start();
  auto asking = server_.commit(std::move(credential), fh_of(node), offset, commit_count(offset, end));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "COMMIT"));
  co_await note_own(node, answer->wcc, order);
  co_return answer->verifier;
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

Task<Result<>> Nfs3Protocol::read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus) {
  const NodeRef directory = listing.node;
  NameBelief belief{Clock::now(), 0, nodes_.next_start()};
  const uint64_t before = names_change(directory);
  listing.filled = false;
  // Section 3.3.16: the verifier goes with cookies other than zero.
  const nfs4::verifier4 verifier = cookie != 0 ? listing.verifier : nfs4::verifier4{};
  auto asking = server_.readdir(ctx.credential, fh_of(directory), exchanged(cookie), verifier,
                                listing.reply_bytes, plus);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (plus && answer->status == nfs3::NFS3ERR_NOTSUPP_)
    co_return co_await read_entries(ctx, listing, cookie, false);
  if (answer->status != 0) co_return fail(failed(directory, answer->status, "READDIR"));
  // The attributes are from after the operation. They belong to the listing only if nothing changed.
  const uint64_t after = answer->directory ? answer->directory->attributes.change : 0;
  if (cookie == 0) listing.change = after == before ? before : 0;
  co_await note(directory, answer->directory, belief.order, Cause::kAsked);
  belief.epoch = epoch_of(directory, before, answer->directory);
  listing.verifier = answer->verifier;
  const uint32_t here = nfs3_node(directory).export_index();
  std::vector<ListedEntry> entries;
  entries.reserve(answer->entries.size());
  for (auto& from : answer->entries) {
    ListedEntry& entry = entries.emplace_back();
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
  co_return listing.answer(cookie, plus, std::move(entries), answer->eof, belief);
}

}  // namespace nfsrdma::client::nfs3
