// SPDX-License-Identifier: Apache-2.0
// Attributes: how they are recorded, how long they are valid, and what they mean for cached data and names
// (RFC 8881 section 10.4; RFC 1813 section 4.8).
#include "client/core/attribute_service.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

bool is_directory(const Attributes& a) {
  return S_ISDIR(a.mode);
}

// The maximum number of GETATTRs in a row, while their replies contradict each other because other clients
// write the file.
constexpr int kMostQuestions = 3;

}  // namespace

AttributeCache::Limits AttributeService::limits(bool directory) const {
  if (options_.noac) return {};
  return directory ? AttributeCache::Limits{options_.acdirmin, options_.acdirmax}
                   : AttributeCache::Limits{options_.acregmin, options_.acregmax};
}

void AttributeService::note_drop(CachedNode& n, CachedFile* file) {
  n.kernel.drop_begins();
  n.contents.change = n.attributes.get().change;
  if (file != nullptr) file->own_changes.clear();
}

bool AttributeService::others_changed_too(CachedFile& file) {
  if (file.writing() || !file.own_changes.gaps()) return false;
  note_drop(file.cached, &file);
  return true;
}

KnownContents AttributeService::known_contents(const CachedNode& n, const CachedFile* file) const {
  return {.promised = promised(n),
          .known = n.contents.known,
          .contents_change = n.contents.change,
          .change = n.attributes.get().change,
          .open = file != nullptr,
          .writing = file != nullptr && file->writing(),
          .kernel_knows = n.kernel.knows(),
          .kernel_change = n.kernel.change()};
}

ArrivedAttributes AttributeService::arrived_attributes(const CachedNode& n, const Attributes& attributes,
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

void AttributeService::carry_out(const Decision& d, CachedNode& n, CachedFile* file, uint64_t cached_change,
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

ValueTask<bool> AttributeService::record(const NodeRef& node, const Attributes& attributes, uint64_t order,
                                         Cause cause, std::optional<uint64_t> before, TimePoint then) {
  CachedNode& n = cached_node(node);
  Decision decision;
  bool good = false;
  {
    MutexLock lock(n.mutex);
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
  // chmod(2) holds the directory's lock in the kernel; invalidate_names() does not wait for that lock.
  if (decision.kernel_forgets_names) kernel_.invalidate_names(node, table_.names().names_in(n));
  if (decision.outdated && cause == Cause::kOpened) return dropped_before(node, good);
  if (decision.outdated) Loop::current()->spawn(kernel_.drop_counted(node));
  return good;
}

Task<bool> AttributeService::dropped_before(NodeRef node, bool good) {
  co_await kernel_.drop_counted(node);
  co_return good;
}

ValueTask<bool> AttributeService::record(const NodeRef& node, const AnsweredAttributes& answered) {
  if (answered.attributes)
    return record(node, *answered.attributes, answered.order, answered.cause, answered.before);
  expire(node);
  return false;
}

Task<Result<bool>> AttributeService::record_or_fetch(RequestContext ctx, NodeRef node,
                                                     AnsweredAttributes answered) {
  const Cause cause = answered.cause;
  const bool complete = answered.attributes.has_value();
  const bool good = co_await record(node, answered);
  if (complete) co_return good;
  // Another client may have changed the object between our change and this GETATTR, so its reply is not kOwn.
  NFSRDMA_CO_TRY(co_await fetch(ctx, node, cause == Cause::kOwn ? Cause::kAsked : cause));
  co_return false;
}

Task<Result<>> AttributeService::fetch(RequestContext ctx, NodeRef node, Cause cause) {
  misses_.fetch_add(1, std::memory_order_relaxed);
  Result<AnsweredAttributes> answer = co_await protocol_.get_attributes(ctx, node);
  if (!answer) co_return fail(gone(node, std::move(answer.error())));
  answer->cause = cause;
  co_await record(node, *answer);
  co_return Result<>{};
}

ValueTask<bool> AttributeService::record_listed(const NodeRef& node, const ListedEntry& entry,
                                                const NameBelief& belief) {
  return record(node, entry.attributes, belief.order, Cause::kAsked, std::nullopt, belief.since);
}

Entry AttributeService::cached_entry(const NodeRef& node, Duration ttl) const {
  const AttributesReply reply = attributes_reply(node);
  return {node, reply.attributes, reply.ttl, ttl};
}

AttributesReply AttributeService::attributes_reply(const NodeRef& node) const {
  CachedNode& n = cached_node(node);
  MutexLock lock(n.mutex);
  Attributes attributes = n.attributes.get();
  // The server may not know the size yet, because our data is not written; or it lost the data in a restart.
  const CachedFileRef file = n.cached_file();
  if (file) attributes.size = std::max(attributes.size, file->written_end(protocol_.epoch()));
  // The reply to the WRITE brings the new times. Until then the kernel must not cache the attributes.
  const bool answered = !file || !file->writing();
  const Duration ttl =
      answered ? n.attributes.remaining(Clock::now(), protocol_.promises_hold()) : Duration::zero();
  // The file became shorter. An append below its former end is a new one, not a late part of the last one.
  if (file && attributes.size < n.kernel.size()) file->direct_append.done.clear();
  n.kernel.told(attributes, ttl);
  return {attributes, ttl};
}

bool AttributeService::size_is_news(const CachedNode& n) const {
  const CachedFileRef file = n.cached_file();
  // The front end wrote this data itself, so it knows the size before the server does.
  if (file && file->writing()) return false;
  uint64_t size = n.attributes.get().size;
  if (file) size = std::max(size, file->written_end(protocol_.epoch()));
  return size != n.kernel.size();
}

Attributes AttributeService::known_attributes(const NodeRef& node) {
  MutexLock lock(cached_node(node).mutex);
  return cached_node(node).attributes.get();
}

Error AttributeService::gone(const NodeRef& node, Error error) {
  if (error.errnum != ESTALE) return error;
  NameCache& names = table_.names();
  const auto name = is_directory(known_attributes(node)) ? names.name_of(*node.get()) : std::nullopt;
  names.forget(*node.get());
  // Keep one name of a directory as an invalid entry: lookup_error() asks the server about it.
  if (name) names.put(*name->directory.get(), name->name, node.get(), {.order = table_.next_start()});
  expire(node);
  return error;
}

bool AttributeService::fresh(const CachedNode& n) const {
  MutexLock lock(n.mutex);
  return n.attributes.fresh(Clock::now(), protocol_.promises_hold());
}

void AttributeService::doubt_ages() {
  table_.data().doubt_all();
  table_.sweeps().drop_old(TimePoint::max(), Duration::zero());
  table_.each([this](const NodeRef& node) {
    CachedNode& n = cached_node(node);
    {
      MutexLock lock(n.mutex);
      if (vouched_for(n)) return;
      n.access = {};
      if (n.names_known.uncertain) n.names_known.others_changed();
      // Attributes that have expired here have expired in the kernel, too.
      if (!n.attributes.fresh(Clock::now())) return;
      n.attributes.expire(table_.next_start());
    }
    kernel_.invalidate_attributes(node);
    kernel_.invalidate_names(node, table_.names().names_in(n));
  });
}

bool AttributeService::doubtful(const NodeRef& node) {
  const CachedNode& n = cached_node(node);
  MutexLock lock(n.mutex);
  return n.attributes.doubtful() && S_ISREG(n.attributes.get().mode);
}

// The kernel must not get a size that is too small: it truncates its pages at once, whatever the timeout, and
// later reads return zeros there.
Task<Result<>> AttributeService::resolve_doubt(RequestContext ctx, NodeRef node) {
  for (int asked = 0; asked < kMostQuestions && doubtful(node); ++asked) {
    NFSRDMA_CO_TRY(co_await fetch(ctx, node));
  }
  co_return Result<>{};
}

Task<Result<AttributesReply>> AttributeService::sure_attributes(RequestContext ctx, NodeRef node) {
  (void)co_await resolve_doubt(ctx, node);  // the caller's operation succeeded, even if this fails
  co_return attributes_reply(node);
}

bool AttributeService::all_may_search(const Attributes& directory) const {
  constexpr uint32_t kEverybody = S_IXUSR | S_IXGRP | S_IXOTH;
  uint32_t needed = kEverybody;
  if (!options_.many_users) {
    const auto& groups = machine_->groups();
    const bool member = directory.gid == machine_->gid() ||
                        std::find(groups.begin(), groups.end(), directory.gid) != groups.end();
    needed = directory.uid == machine_->uid() ? S_IXUSR : member ? S_IXGRP : S_IXOTH;
  }
  return (directory.mode & needed) == needed;
}

void AttributeService::expire(const NodeRef& node) {
  if (!node) return;
  MutexLock lock(cached_node(node).mutex);
  cached_node(node).attributes.expire(table_.next_start());
}

}  // namespace nfsrdma::client
