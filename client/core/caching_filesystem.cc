// SPDX-License-Identifier: Apache-2.0
#include "client/core/caching_filesystem.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/runtime/mutex.h"
#include "transport/runtime/suspension.h"

namespace nfsrdma::client {
namespace {

// Of run_periodically().
constexpr Duration kPeriod = std::chrono::milliseconds(500);
constexpr unsigned kKeptIdle = 20;    // half seconds that unused memory stays allocated
constexpr size_t kMostLevels = 2048;  // directories in a path

}  // namespace

CachingFilesystem::CachingFilesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options,
                                     CachedNodeTable& table, Protocol& protocol)
    : options_(std::move(options)),
      machine_(process_credential()),
      parts_{loops, buffers, options_, machine_, table, kernel_, protocol, stopping_},
      held_timer_(loops[0]),
      kept_(parts_),
      attributes_(parts_),
      access_(parts_, attributes_),
      names_(parts_, attributes_, access_),
      room_(parts_),
      write_back_(parts_, attributes_, kept_, room_),
      writer_(parts_, attributes_, kept_, room_, write_back_),
      ahead_(parts_, kept_),
      reader_(parts_, kept_, attributes_, write_back_, ahead_),
      sweeper_(parts_, attributes_, access_, names_),
      removals_(parts_, attributes_, names_, write_back_, sweeper_),
      directories_(parts_, attributes_, access_, names_, sweeper_) {}

int CachingFilesystem::soft_errno() const {
  return options_.soft_error_timedout ? ETIMEDOUT : EIO;
}

Whereabouts CachingFilesystem::whereabouts(const NodeRef& node) const {
  Whereabouts at;
  at.ino = AttributeService::known_attributes(node).ino;
  if (auto name = parts_.table.names().name_of(*node.get())) {
    at.directory = std::move(name->directory);
    at.name = std::move(name->name);
  }
  return at;
}

bool CachingFilesystem::synchronous(int flags) const {
  return options_.sync || options_.noac || (flags & (O_SYNC | O_DSYNC | O_DIRECT)) != 0;
}

CacheStatistics CachingFilesystem::cache_statistics() const {
  CacheStatistics s;
  s.nodes = parts_.table.size();
  s.names = parts_.table.names().size();
  s.attribute_hits = sweeper_.attribute_hits();
  s.attribute_misses = attributes_.misses();
  s.name_hits = names_.hits();
  s.name_misses = names_.misses();
  s.dirty_bytes = room_.written().unanswered;
  s.uncommitted_bytes = room_.written().uncommitted;
  s.refused_bytes = write_back_.refused_bytes();
  s.room_errors = write_back_.room_errors();
  const DataCache::Numbers data = parts_.table.data().numbers();
  s.data_bytes = data.bytes;
  s.data_limit_bytes = parts_.table.data().limit();
  s.data_hits = data.hits;
  s.data_hit_bytes = data.hit_bytes;
  s.ahead_bytes = data.filled_bytes;
  s.ahead_wasted_bytes = data.wasted_bytes;
  s.ahead_refused_bytes = data.refused_bytes;
  s.evicted_bytes = data.evicted_bytes;
  return s;
}

Task<Result<>> CachingFilesystem::unlink(RequestContext ctx, NodeRef directory, std::string name) {
  return removals_.unlink(std::move(ctx), std::move(directory), std::move(name));
}

Task<Result<Entry>> CachingFilesystem::link(RequestContext ctx, NodeRef node, NodeRef directory,
                                            std::string name) {
  return removals_.link(std::move(ctx), std::move(node), std::move(directory), std::move(name));
}

Task<Result<>> CachingFilesystem::rmdir(RequestContext ctx, NodeRef directory, std::string name) {
  return removals_.rmdir(std::move(ctx), std::move(directory), std::move(name));
}

Task<Result<>> CachingFilesystem::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                         NodeRef to_directory, std::string to, unsigned flags) {
  return removals_.rename(std::move(ctx), std::move(from_directory), std::move(from), std::move(to_directory),
                          std::move(to), flags);
}

Task<Result<ReadReply>> CachingFilesystem::read(RequestContext ctx, OpenFileRef file, uint64_t offset,
                                                size_t size) {
  return reader_.read(std::move(ctx), std::move(file), offset, size);
}

Task<Result<>> CachingFilesystem::write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) {
  return writer_.write(std::move(ctx), std::move(file), offset, std::move(data));
}

Task<Result<OpenDirectoryReply>> CachingFilesystem::opendir(RequestContext ctx, NodeRef node) {
  return directories_.opendir(std::move(ctx), std::move(node));
}

Task<Result<DirectoryPage>> CachingFilesystem::readdir(RequestContext ctx, OpenDirectoryRef directory,
                                                       uint64_t offset, size_t bytes, bool plus) {
  return directories_.readdir(std::move(ctx), std::move(directory), offset, bytes, plus);
}

Task<> CachingFilesystem::releasedir(OpenDirectoryRef directory) {
  return directories_.releasedir(std::move(directory));
}

std::optional<Error> CachingFilesystem::take_error(const OpenFileRef& file) {
  return write_back_.take_error(file);
}

void CachingFilesystem::memory_refused() {
  write_back_.memory_refused();
}

void CachingFilesystem::doubt_ages() {
  attributes_.doubt_ages();
}

Task<Result<Entry>> CachingFilesystem::lookup(RequestContext ctx, NodeRef directory, std::string name) {
  if (name.size() > parts_.protocol.limits_of(directory).name_max)
    co_return fail(system_error(ENAMETOOLONG, "LOOKUP"));
  if (options_.lookupcache != LookupCache::kNone) {
    Result<std::optional<Entry>> known = co_await known_entry(ctx, directory, name);
    if (known && !*known && co_await sweeper_.sweep_for_names(ctx, directory))
      known = co_await known_entry(ctx, directory, name);
    if (!known) {
      auto why = lookup_error(ctx, directory, std::move(known.error()));
      co_return fail(co_await std::move(why));
    }
    if (*known) {
      names_.count_lookup(true);
      co_return std::move(**known);
    }
  }
  names_.count_lookup(false);
  Result<Entry> answer = co_await names_.lookup_on_server(ctx, directory, std::move(name));
  if (!answer) {
    auto why = lookup_error(ctx, directory, std::move(answer.error()));
    co_return fail(co_await std::move(why));
  }
  if (!answer->node) co_return answer;
  // READDIR does not help for absent files, so only files that exist count.
  if (sweeper_.sweeps()) sweeper_.note_asked(directory);
  if (AttributeService::doubtful(answer->node)) {
    NFSRDMA_CO_TRY(co_await attributes_.resolve_doubt(ctx, answer->node));
    *answer = attributes_.cached_entry(answer->node, answer->entry_ttl);
  }
  co_return answer;
}

Task<Result<std::optional<Entry>>> CachingFilesystem::known_entry(RequestContext ctx, NodeRef directory,
                                                                  const std::string& name) {
  std::optional<NameCache::Found> found = parts_.table.names().find(*directory.get(), name);
  if (found && !found->child && options_.lookupcache == LookupCache::kPositive) found.reset();
  bool good = found && names_.believed(directory, found->belief);
  if (!good && found && found->child && names_.name_is_promised(*found)) {
    NFSRDMA_CO_TRY(co_await sweeper_.revalidate(ctx, directory));  // its permissions may have changed
    good = names_.name_is_promised(*found);
  }
  if (!good) co_return co_await sweeper_.waiting_entry(ctx, directory, name);
  NFSRDMA_CO_TRY(co_await access_.check_search(ctx, directory));
  // Check again: the ACCESS reply may have shown a change to the directory.
  if (!names_.believed(directory, found->belief) && !(found->child && names_.name_is_promised(*found)))
    co_return std::nullopt;
  if (!found->child) co_return Entry{{}, {}, {}, names_.entry_ttl(directory, found->belief)};
  // If only the file's delegation makes the name valid, the kernel must not cache the name (entry_ttl() is
  // zero). To invalidate it at a recall, we would wait for the directory's lock in the kernel, and its holder
  // may wait for the recall.
  if (co_await sweeper_.revalidate(ctx, found->child))
    co_return attributes_.cached_entry(found->child, names_.entry_ttl(directory, found->belief));
  // The file is gone: send a LOOKUP.
  parts_.table.names().remove(*directory.get(), name, parts_.table.next_start());
  co_return std::nullopt;
}

Task<Error> CachingFilesystem::lookup_error(RequestContext ctx, NodeRef directory, Error error) {
  NodeRef below = directory;
  for (size_t levels = 0; error.errnum == ESTALE && levels < kMostLevels; ++levels) {
    const auto name = parts_.table.names().name_of(*below.get());
    if (!name) break;
    const Result<Entry> there = co_await names_.lookup_on_server(ctx, name->directory, name->name);
    const int e = there ? 0 : there.error().errnum;
    if (e == ENOENT || (there && !there->node)) co_return system_error(ENOENT, "LOOKUP");
    if (e != ESTALE) break;
    below = name->directory;
  }
  co_return error;
}

Task<Result<AttributesReply>> CachingFilesystem::getattr(RequestContext ctx, NodeRef node, OpenFileRef) {
  // Size, mtime and change attribute must include our writes, so the server must get them first.
  co_await write_back_.settle_node(node);
  Result<> asked = co_await sweeper_.revalidate(ctx, node);
  if (!asked) {
    // A server need not keep a directory that we removed. For applications that have it open it still exists.
    const Attributes known = AttributeService::known_attributes(node);
    const bool removed_here = S_ISDIR(known.mode) && known.nlink == 0;
    if (!removed_here || asked.error().errnum != ESTALE) co_return fail(std::move(asked.error()));
  }
  bool pages_are_old = false;
  {
    MutexLock lock(cached_node(node).mutex);
    pages_are_old = cached_node(node).kernel.dropping();
  }
  // read(2) after fstat(2) must not return data older than the attributes that fstat(2) returned.
  if (pages_are_old) co_await kernel_.drop_data(node);
  co_return attributes_.attributes_reply(node);
}

Task<Result<>> CachingFilesystem::access(RequestContext ctx, NodeRef node, int mask) {
  NFSRDMA_CO_TRY(co_await sweeper_.revalidate(ctx, node));
  const Attributes attributes = AttributeService::known_attributes(node);
  const bool directory = S_ISDIR(attributes.mode);
  uint32_t wanted = 0;
  if ((mask & R_OK) != 0) wanted |= nfs4::ACCESS4_READ;
  if ((mask & W_OK) != 0) wanted |= nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND;
  if ((mask & X_OK) != 0) wanted |= directory ? nfs4::ACCESS4_LOOKUP : nfs4::ACCESS4_EXECUTE;
  if (wanted == 0) co_return Result<>{};  // F_OK: it exists
  co_return co_await access_.require_access(ctx, node, wanted, "ACCESS");
}

Task<Result<>> CachingFilesystem::fsync(RequestContext, OpenFileRef open, bool) {
  CachedOpen& handle = cached_open(open);
  co_await write_back_.write_back(handle.node, handle.cached);
  co_return WriteBack::unreported_error(handle);
}

Task<Result<>> CachingFilesystem::fsyncdir(RequestContext, OpenDirectoryRef) {
  // CREATE, REMOVE, RENAME and LINK are on stable storage when they are answered (section 18.4.4 and others).
  co_return Result<>{};
}

void CachingFilesystem::give_memory_back() {
  parts_.table.sweeps().drop_old(Clock::now(), options_.acregmin);
  DataCache& data = parts_.table.data();
  // Half of the registrable memory: requests in flight need the rest.
  const uint64_t wanted =
      kept_.keeps_data() ? std::min(options_.cache_bytes, parts_.protocol.registrable_bytes() / 2) : 0;
  const bool keeps_nothing = data.empty() && data.limit() == wanted;
  const bool writes_nothing = room_.written().unanswered + room_.written().uncommitted == 0;
  if (writes_nothing) room_.forget_limit();
  if (keeps_nothing && writes_nothing && parts_.buffers.idle_bytes() == 0) return;
  const uint64_t available = options_.memory().available;
  if (!writes_nothing) room_.fit_writes(available);
  if (!keeps_nothing) data.set_limit(DataCache::fitting(wanted, available, data.numbers().bytes));
  if (available < parts_.buffers.idle_bytes())
    parts_.buffers.trim(1, 0);
  else
    parts_.buffers.trim(kKeptIdle);
  data.leave_slabs(parts_.buffers);
}

Task<> CachingFilesystem::run_periodically() {
  Suspension suspension{since_boot(), Clock::now()};
  while (!stopping_) {
    const Duration boot = since_boot();
    if (suspension.noticed(boot, Clock::now())) doubt_ages();
    room_.note_memory_is_back();
    give_memory_back();
    directories_.take_back_old_listings();
    co_await held_timer_.wait_for(kPeriod);
    if (!stopping_) write_back_.send_old_writes();
  }
}

}  // namespace nfsrdma::client
