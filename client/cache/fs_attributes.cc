// SPDX-License-Identifier: Apache-2.0
// Attributes: how they are booked, how long they are believed, and what they say about what is cached
// (RFC 8881 section 10.4; RFC 1813 section 4.8).
#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/cache/caching_filesystem.h"

namespace nfsrdma::client {
namespace {

bool is_directory(const Attributes& a) {
  return S_ISDIR(a.mode);
}

// Questions in a row whose answers are contradicted, while others write the file.
constexpr int kMostDoubts = 3;

}  // namespace

AttributeCache::Limits CachingFilesystem::limits(bool directory) const {
  if (options_.noac) return {};
  return directory ? AttributeCache::Limits{options_.acdirmin, options_.acdirmax}
                   : AttributeCache::Limits{options_.acregmin, options_.acregmax};
}

void CachingFilesystem::note_drop(CachedNode& n, CachedFile* file) {
  n.kernel.drop_begins();
  n.contents.change = n.attributes.get().change;
  if (file != nullptr) file->own_changes.clear();
}

bool CachingFilesystem::others_changed_too(CachedFile& file) {
  if (file.writing() || !file.own_changes.gaps()) return false;
  note_drop(file.cached, &file);
  return true;
}

KnownContents CachingFilesystem::known_contents(const CachedNode& n, const CachedFile* file) const {
  return {.promised = promised(n),
          .known = n.contents.known,
          .contents_change = n.contents.change,
          .change = n.attributes.get().change,
          .open = file != nullptr,
          .writing = file != nullptr && file->writing(),
          .kernel_knows = n.kernel.knows(),
          .kernel_change = n.kernel.change()};
}

ArrivedAttributes CachingFilesystem::arrived_attributes(const CachedNode& n, const Attributes& attributes,
                                                        Cause cause, std::optional<uint64_t> before) const {
  const Attributes& cached = n.attributes.get();
  const bool directory = is_directory(attributes);
  return {.directory = directory,
          .cause = cause,
          .change = attributes.change,
          .before = before,
          .same_rights =
              cached.mode == attributes.mode && cached.uid == attributes.uid && cached.gid == attributes.gid,
          .search_withdrawn = directory && all_may_search(cached) && !all_may_search(attributes),
          .kernel_drops = options_.attributes_before_reads && n.kernel.drops_pages_for(attributes)};
}

void CachingFilesystem::carry_out(const Decision& d, CachedNode& n, CachedFile* file, uint64_t cached_change,
                                  TimePoint then) {
  const uint64_t change = n.attributes.get().change;
  if (d.data == Decision::Data::kConfirmed) table_.data().confirm(n, then);
  if (d.data == Decision::Data::kDropped) table_.data().drop(n);
  n.contents.known = d.contents_known;
  n.contents.change = d.contents_change;
  if (d.mixed) n.contents.mixed = true;
  if (d.names_epoch_ends) n.names_known.others_changed();
  if (d.access_moves) n.access.moved(cached_change, change);
  if (d.kernel_change_moves) n.kernel.follow(change);
  if (d.outdated) note_drop(n, file);
}

Task<bool> CachingFilesystem::book(NodeRef node, Attributes attributes, uint64_t order, Cause cause,
                                   std::optional<uint64_t> before, TimePoint then) {
  CachedNode& n = cached_node(node);
  Decision decision;
  bool good = false;
  {
    std::lock_guard lock(n.mutex);
    const CachedFileRef file = n.cached_file();
    const KnownContents known = known_contents(n, file.get());
    const ArrivedAttributes arrived = arrived_attributes(n, attributes, cause, before);
    const Ownership whose = whose_change(known, arrived, file ? &file->own_changes : nullptr);
    const auto update =
        n.attributes.update(attributes, order, table_.next_start(), then, limits(arrived.directory));
    decision = decide(known, arrived, whose, update);
    carry_out(decision, n, file.get(), known.change, then);
    good = decision.good && !n.kernel.dropping();
  }
  if (decision.kernel_forgets_rights) kernel_.invalidate_attributes(node);
  // chmod(2) of the directory holds its lock in the kernel: invalidate_names() does not wait for it.
  if (decision.kernel_forgets_names) kernel_.invalidate_names(node, table_.names().names_in(n));
  if (decision.outdated && cause == Cause::kOpened) {
    co_await kernel_.drop_counted(node);
  } else if (decision.outdated) {
    Loop::current()->spawn(kernel_.drop_counted(node));
  }
  co_return good;
}

Task<> CachingFilesystem::book_listed(const NodeRef& node, const ListedEntry& entry,
                                      const NameBelief& belief) {
  co_await book(node, entry.attributes, belief.order, Cause::kAsked, std::nullopt, belief.since);
}

Entry CachingFilesystem::cached_entry(const NodeRef& node, Duration ttl) const {
  const AttributesReply reply = attributes_reply(node);
  return {node, reply.attributes, reply.ttl, ttl};
}

AttributesReply CachingFilesystem::attributes_reply(const NodeRef& node) const {
  CachedNode& n = cached_node(node);
  std::lock_guard lock(n.mutex);
  Attributes attributes = n.attributes.get();
  // Written here and not on the server's disk: it may not know of it yet, or no longer after a restart.
  const CachedFileRef file = n.cached_file();
  if (file) attributes.size = std::max(attributes.size, file->written_end(epoch()));
  // Its times come with the answer to the WRITE: until then the kernel is to ask again each time.
  const bool answered = !file || !file->writing();
  const Duration ttl = answered ? n.attributes.remaining(Clock::now(), promises_hold()) : Duration::zero();
  // What is appended below the new end is no late part of an append that was cut off.
  if (file && attributes.size < n.kernel.size()) file->direct_append.done.clear();
  n.kernel.told(attributes, ttl);
  return {attributes, ttl};
}

bool CachingFilesystem::size_is_news(const CachedNode& n) const {
  const CachedFileRef file = n.cached_file();
  // What is written through the front end, it knows before the server does.
  if (file && file->writing()) return false;
  uint64_t size = n.attributes.get().size;
  if (file) size = std::max(size, file->written_end(epoch()));
  return size != n.kernel.size();
}

Attributes CachingFilesystem::known_attributes(const NodeRef& node) {
  std::lock_guard lock(cached_node(node).mutex);
  return cached_node(node).attributes.get();
}

Error CachingFilesystem::gone(const NodeRef& node, Error error) {
  if (!error.is_status(nfs4::NFS4ERR_STALE)) return error;
  NameCache& names = table_.names();
  const auto name = is_directory(known_attributes(node)) ? names.name_of(*node.get()) : std::nullopt;
  names.forget(*node.get());
  // Where it was is worth asking (lookup_error()).
  if (name) names.put(*name->directory.get(), name->name, node.get(), {.order = table_.next_start()});
  expire(node);
  return error;
}

bool CachingFilesystem::fresh(const CachedNode& n) const {
  std::lock_guard lock(n.mutex);
  return n.attributes.fresh(Clock::now(), promises_hold());
}

void CachingFilesystem::doubt_ages() {
  table_.data().doubt_all();
  table_.sweeps().drop_old(TimePoint::max(), Duration::zero());
  table_.each([this](const NodeRef& node) {
    CachedNode& n = cached_node(node);
    {
      std::lock_guard lock(n.mutex);
      if (vouched_for(n)) return;
      n.access = {};
      if (n.names_known.uncertain) n.names_known.others_changed();
      // What is not believed here any more, the kernel was not lent for longer.
      if (!n.attributes.fresh(Clock::now())) return;
      n.attributes.expire(table_.next_start());
    }
    kernel_.invalidate_attributes(node);
    kernel_.invalidate_names(node, table_.names().names_in(n));
  });
}

Task<Result<>> CachingFilesystem::revalidate(RequestContext ctx, NodeRef node) {
  CachedNode& n = cached_node(node);
  bool good = false, swept = false;
  {
    std::lock_guard lock(n.mutex);
    good = n.attributes.fresh(Clock::now(), promises_hold());
    swept = good && std::exchange(n.swept, false);
  }
  if (swept) {
    if (const auto name = table_.names().name_of(*node.get())) note_asked(name->directory);
  }
  if (!good) good = co_await sweep_for(ctx, node);
  if (good) {
    attribute_hits_.fetch_add(1, std::memory_order_relaxed);
    co_return Result<>{};
  }
  NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, Cause::kAsked));
  co_return co_await resolve_doubt(ctx, node);
}

bool CachingFilesystem::doubtful(const NodeRef& node) {
  std::lock_guard lock(cached_node(node).mutex);
  const AttributeCache& known = cached_node(node).attributes;
  return known.doubtful() && S_ISREG(known.get().mode);
}

// Of a size that is too small the kernel makes zeros: it cuts its pages there, at once, however short a time
// it is given to believe it.
Task<Result<>> CachingFilesystem::resolve_doubt(RequestContext ctx, NodeRef node) {
  for (int turn = 0; turn < kMostDoubts && doubtful(node); ++turn) {
    NFSRDMA_CO_TRY(co_await fetch_attributes(ctx, node, Cause::kAsked));
  }
  co_return Result<>{};
}

Task<Result<AttributesReply>> CachingFilesystem::sure_attributes(RequestContext ctx, NodeRef node) {
  (void)co_await resolve_doubt(ctx, node);  // what was asked for is done, whatever becomes of this
  co_return attributes_reply(node);
}

Task<Result<AttributesReply>> CachingFilesystem::getattr(RequestContext ctx, NodeRef node, OpenFileRef) {
  // What was written here must be in size, mtime and change attribute: the server has to have it first.
  co_await settle_node(node);
  Result<> asked = co_await revalidate(ctx, node);
  if (!asked) {
    // The server need not keep a directory that was removed here; to whoever has it open it is one.
    const Attributes known = known_attributes(node);
    const bool removed_here = is_directory(known) && known.nlink == 0;
    if (!removed_here || asked.error().errnum != ESTALE) co_return fail(std::move(asked.error()));
  }
  bool pages_are_old = false;
  {
    std::lock_guard lock(cached_node(node).mutex);
    pages_are_old = cached_node(node).kernel.dropping();
  }
  // read(2) after fstat(2) must show what fstat(2) has seen.
  if (pages_are_old) co_await kernel_.drop_data(node);
  co_return attributes_reply(node);
}

}  // namespace nfsrdma::client
