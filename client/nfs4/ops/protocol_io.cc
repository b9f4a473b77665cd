// SPDX-License-Identifier: Apache-2.0
// READ, WRITE and COMMIT (RFC 8881 sections 18.3, 18.22, 18.32).
#include <algorithm>
#include <cerrno>

#include "client/nfs4/ops/nfs4_protocol.h"
#include "client/nfs4/state/node.h"
#include "client/nfs4/state/state_manager.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// Below this size a copy is cheaper: a pipe costs four more system calls.
constexpr size_t kMinPipedBytes = 64u << 10;

}  // namespace

Task<Result<ReadPiece>> Nfs4Protocol::read_piece(OpenFileRef open, const IoAccount& account, uint64_t offset,
                                                 Slice destination, ReadFor purpose) {
  Nfs4File& handle = nfs4_file(open);
  const size_t size = destination.size();
  const bool keeping = purpose == ReadFor::kKeeping;
  PipePool* const pipes = size >= kMinPipedBytes && !keeping ? &buffers_.pipes() : nullptr;
  const nfs4::nfs_fh4 fh = nfs4_node(handle.node).fh();
  nfs4::READ4args args;
  args.offset = offset;
  const StateUse use = StateUse::by_io(handle.node, handle.file, account, CachedOpen::kRead, args.stateid);
  auto build = [&](CompoundBuilder& b) {
    args.count = std::min(static_cast<uint32_t>(size), limits_of(handle.node).rsize);
    b.putfh(fh).add(args).expect_read(destination, pipes);
    if (keeping) b.getattr(kChangeAttribute);
  };
  const Request request{
      .op = nfs4::OP_READ, .credential = handle.credential, .build = build, .sink = destination};
  Result<CompoundReply> reply = co_await states_.run(request, use);
  if (!reply) co_return fail(std::move(reply.error()));
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  co_return take_read(*reply, destination, keeping);
}

Result<ReadPiece> Nfs4Protocol::take_read(CompoundReply& reply, const Slice& destination, bool keeping) {
  auto res = reply.take<nfs4::READ4res>();
  if (!res) return fail(std::move(res.error()));
  const ConstBytes data = res->resok4.data;
  if (data.size() > destination.size())
    return fail(system_error(EIO, "READ", "the server sent more than was asked for"));
  if (!reply.placed() && !data.empty()) std::copy(data.begin(), data.end(), destination.bytes.begin());
  if (data.empty() && !res->resok4.eof && destination.size() != 0)
    return fail(system_error(EIO, "READ", "the server sent nothing, and no end of file"));
  ReadPiece piece;
  piece.data.slice = destination.first(data.size());
  piece.data.piped = reply.piped();
  piece.data.pipe = reply.take_pipe();
  piece.eof = res->resok4.eof;
  if (keeping) {
    auto after = reply.take<nfs4::GETATTR4res>();
    if (after && after->resok4.obj_attributes.attrmask.test(nfs4::FATTR4_CHANGE))
      piece.change = after->resok4.obj_attributes.change;
  }
  return piece;
}

bool Nfs4Protocol::may_read_ahead(unsigned under_way) const {
  const SlotTable::Counts slots = session_.slots().counts();
  return under_way < slots.target / 2 && slots.in_use + 2 < slots.target;
}

// Read-ahead uses at most half of the connection's credits (RFC 8166): a request with a slot but without a
// credit waits on the connection, and so do all requests behind it. One credit is reserved for lease renewal.
unsigned Nfs4Protocol::most_ahead_on(unsigned loop) const {
  const uint32_t credits = session_.connections().credits(loop);
  return credits == 0 ? 0 : (credits - 1) / 2;
}

Result<> Nfs4Protocol::usable(const CachedOpen& open, const IoAccount& account) const {
  if (account.lock_owners.empty()) return {};  // only a lost lock makes it unusable
  const FileState& file = *static_cast<const Nfs4File&>(open).file;
  MutexLock lock(file.node.mutex);
  NFSRDMA_TRY(StateManager::io_stateid(file, account, open.access));
  return {};
}

Task<Result<WriteOutcome>> Nfs4Protocol::write(NodeRef node, CachedFileRef cached, const IoAccount& account,
                                               uint64_t offset, Slice data, nfs4::stable_how4 stable) {
  const auto file = std::static_pointer_cast<FileState>(cached);
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
  nfs4::WRITE4args args;
  args.offset = offset;
  args.stable = stable;
  const StateUse use = StateUse::by_io(node, file, account, CachedOpen::kWrite, args.stateid);
  for (;;) {
    const uint64_t order = nodes_.next_start();
    args.data = data.bytes;
    bool asked = false;
    auto build = [&](CompoundBuilder& b) {
      b.putfh(fh);
      replies_.ask_change_before(b, node, asked);
      b.add(args).getattr(kFileAttributes).keep(data);
    };
    const Request request{.op = nfs4::OP_WRITE, .credential = account.credential, .build = build};
    Result<CompoundReply> reply = co_await states_.run(request, use);
    // The WRITE waited for a new session, for which the server granted a smaller request size. Send less.
    const size_t wsize = limits_of(node).wsize;
    if (reply && reply->status() == nfs4::NFS4ERR_REQ_TOO_BIG && data.size() > wsize) {
      data = data.first(wsize);
      continue;
    }
    std::optional<uint64_t> before;
    auto res = ReplyAttributes::take_own<nfs4::WRITE4res>(reply, asked, before);
    if (!res) co_return fail(std::move(res.error()));
    const auto& ok = res->resok4;
    NFSRDMA_CO_TRY(check_count(ok.count, data.size()));
    WriteOutcome answer{.bytes = ok.count, .written = {ok.committed, ok.writeverf}};
    auto attributes = reply->take<nfs4::GETATTR4res>();
    answer.after = co_await replies_.answered_own(node, attributes, order, asked, before);
    co_return answer;
  }
}

Task<Result<CommitOutcome>> Nfs4Protocol::commit(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                                 uint64_t end) {
  const nfs4::nfs_fh4 fh = nfs4_node(node).fh();
  const uint64_t order = nodes_.next_start();
  const nfs4::COMMIT4args args{offset, commit_count(offset, end)};
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    replies_.ask_change_before(b, node, asked);
    b.add(args).getattr(kFileAttributes);
  };
  const Request request{.op = nfs4::OP_COMMIT, .credential = credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  std::optional<uint64_t> before;
  auto committed = ReplyAttributes::take_own<nfs4::COMMIT4res>(reply, asked, before);
  if (!committed) co_return fail(std::move(committed.error()));
  CommitOutcome answer{.verifier = committed->resok4.writeverf};
  auto attributes = reply->take<nfs4::GETATTR4res>();
  answer.after = co_await replies_.answered_own(node, attributes, order, asked, before);
  co_return answer;
}

}  // namespace nfsrdma::client::nfs4
