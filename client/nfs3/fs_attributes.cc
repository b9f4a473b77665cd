// SPDX-License-Identifier: Apache-2.0
// SETATTR and FSSTAT (RFC 1813 sections 3.3.2, 3.3.18).
#include <cerrno>

#include "client/nfs3/nfs3_client.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

Task<Result<AttributesReply>> Nfs3Filesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                      OpenFileRef open) {
  Nfs3Node& n = nfs3_node(node);
  // Servers let a file's owner change the size whatever the mode says, because a process may have the file
  // open for writing. But truncate(2), and open(2) with O_TRUNC, need the mode's permission: ask for it with
  // ACCESS.
  const bool opened_to_write = open && (cached_open(open).access & CachedOpen::kWrite) != 0;
  if (set.size && !opened_to_write)
    NFSRDMA_CO_TRY(
        co_await access_.require_access(ctx, node, nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND, "SETATTR"));
  std::shared_ptr<Nfs3FileState> file;
  {
    MutexLock lock(n.mutex);
    file = n.file;
  }
  if (file && (set.size || set.mtime || set.mode)) {
    // A write that is repeated after a server restart must not undo the truncation, the time or the set-id
    // bits.
    co_await write_back_.write_back(node, file);
  } else {
    co_await write_back_.settle_node(node);
  }
  const uint64_t order = nodes_.next_start();
  auto asking = server_.setattr(caller_of(ctx), n.fh(), set);
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) {
    AnsweredAttributes unchanged = protocol_.answered(answer->wcc.after, order);
    co_await attributes_.record(node, unchanged);
    co_return fail(failed(node, answer->status, "SETATTR"));
  }
  AnsweredAttributes after = protocol_.answered_own(answer->wcc, order);
  NFSRDMA_CO_TRY(co_await attributes_.record_or_fetch(ctx, node, after));
  co_return co_await attributes_.sure_attributes(ctx, node);
}

Task<Result<FilesystemStatus>> Nfs3Filesystem::statfs(RequestContext ctx, NodeRef node) {
  auto asking = server_.fsstat(ctx.credential, fh_of(node));
  auto answer = co_await std::move(asking);
  if (!answer) co_return fail(std::move(answer.error()));
  if (answer->status != 0) co_return fail(failed(node, answer->status, "FSSTAT"));
  FilesystemStatus s = answer->space;
  s.block_size = 4096;
  s.name_max = protocol_.limits().name_max;
  co_return s;
}

}  // namespace nfsrdma::client::nfs3
