// SPDX-License-Identifier: Apache-2.0
// O_APPEND: write() puts it where the file ends (RFC 8881 sections 10.3.1, 10.3.2), which the front end may
// know from before somebody else's change.
//
// A front end that knows the end says so each time, and then nothing is asked. Where the two differ, somebody
// else has written, and an open or a lock has shown it here ("cached attributes" are invalid, too): the end
// is then where the server has it, once everything of ours is there.
//
// One write(2) at a time appends to a file, but with O_DIRECT it comes in several parts at once, which
// several loops begin in any order. What lies between the front end's end and the file's is the same for all
// of them, and settled by the first.
#include <algorithm>
#include <cerrno>

#include "client/cache/caching_filesystem.h"

namespace nfsrdma::client {

Task<Result<uint64_t>> CachingFilesystem::end_at_server(RequestContext ctx, NodeRef node,
                                                        CachedFileRef file) {
  const std::shared_ptr<Cancellation> caller = ctx.cancellation;
  co_await settle_all(node, file);
  NFSRDMA_CO_TRY(co_await fetch_attributes(std::move(ctx), node, Cause::kAsked));
  // No unlock or close has waited for it: where this lay may be the next lock holder's.
  if (caller && caller->cancelled()) co_return fail(system_error(EINTR, "WRITE"));
  std::lock_guard lock(cached_node(node).mutex);
  co_return known_end(*file);
}

Task<Result<uint64_t>> CachingFilesystem::append_offset(RequestContext ctx, NodeRef node, CachedFileRef file,
                                                        uint64_t expected) {
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (expected == known_end(*file)) co_return expected;
  }
  co_return co_await end_at_server(std::move(ctx), node, file);
}

uint64_t CachingFilesystem::known_end(const CachedFile& file) const {
  return std::max(file.cached.attributes.get().size, file.written_end(epoch()));
}

Task<Result<uint64_t>> CachingFilesystem::direct_append_offset(RequestContext ctx, NodeRef node,
                                                               CachedFileRef file, AppendPart part) {
  CachedNode& n = cached_node(node);
  DirectAppend& all = file->direct_append;
  std::unique_lock lock(n.mutex);
  // One that overlaps is of a write(2) that nobody waits for any more: it is not this one's.
  while (DirectAppend::any_overlaps(all.parts, part)) {
    co_await file->writes.changed().wait(lock);
    lock = std::unique_lock(n.mutex);
  }
  const bool first = all.parts.empty() && !all.belongs_to_done(part);
  all.parts.push_back(part);
  if (!first) {
    while (!all.shift) {
      co_await file->writes.changed().wait(lock);
      lock = std::unique_lock(n.mutex);
    }
  } else {
    all.done.clear();
    all.shift.reset();
    // A later part of a front end that is right begins beyond the end.
    const uint64_t end = known_end(*file);
    const bool right = part.offset == end || (part.offset > end && n.kernel.size() == end);
    if (right) {
      all.shift = Result<int64_t>(0);
    } else {
      const uint64_t believed = std::min(part.offset, n.kernel.size());
      lock.unlock();
      auto asking = end_at_server(std::move(ctx), node, file);
      const Result<uint64_t> found = co_await std::move(asking);
      lock.lock();
      all.shift = found.map([&](uint64_t at) { return static_cast<int64_t>(at - believed); });
      file->writes.changed().notify_all();
    }
  }
  if (!*all.shift) co_return fail(all.shift->error());
  co_return part.offset + static_cast<uint64_t>(**all.shift);
}

Task<Result<>> CachingFilesystem::write_at_end(RequestContext ctx, OpenFileRef open, uint64_t offset,
                                               Slice data) {
  const NodeRef node = cached_open(open).node;
  const CachedFileRef file = cached_open(open).cached;
  const AppendPart part{offset, offset + data.size()};
  const bool direct = ctx.direct;
  // The end may be another one when there is room. Parts settle theirs first: those that there is room for
  // must not have ended when the others begin.
  if (!direct && !has_room())
    NFSRDMA_CO_TRY(co_await wait_for_room(node, file, ctx.cancellation, data.size()));
  Result<uint64_t> end = fail(Error{});
  if (direct) end = co_await direct_append_offset(ctx, node, file, part);
  if (!direct) end = co_await append_offset(ctx, node, file, offset);
  Result<> written;
  if (!end) written = fail(end.error());
  if (end) written = co_await write_at(std::move(ctx), std::move(open), *end, std::move(data));
  {
    std::lock_guard lock(cached_node(node).mutex);
    if (direct) std::erase(file->direct_append.parts, part);
    if (direct && written) file->direct_append.done.push_back(part);
    if (written) note_kernel_end(cached_node(node), part.end);
    if (direct) file->writes.changed().notify_all();
  }
  if (end && *end != offset) invalidate_data(node);  // the kernel has it where it said
  co_return written;
}

}  // namespace nfsrdma::client
