// SPDX-License-Identifier: Apache-2.0
// Names: the name cache and how long it is believed (RFC 8881 section 10.8).
//
// A cached name is believed while its directory's attributes are fresh and its change attribute is the one
// the names were learnt under. Changes of ours come with the directory's new attributes in the same COMPOUND,
// so that they do not cost that belief; a change by somebody else shows up as another change attribute and
// ends the epoch in which names are believed. An answer counts for the epoch of the directory's attributes
// that came before it in its COMPOUND. The name of a file under a delegation is believed beyond that epoch: a
// change of it recalls the delegation.
#include <algorithm>
#include <cerrno>

#include "client/cache/caching_filesystem.h"

namespace nfsrdma::client {
namespace {

constexpr size_t kMostLevels = 2048;  // of a path

Error name_error(int errnum, const char* op) {
  return system_error(errnum, op);
}

}  // namespace

bool CachingFilesystem::valid_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

uint64_t CachingFilesystem::names_epoch(const NodeRef& directory, uint64_t change) {
  const CachedNode& d = cached_node(directory);
  std::lock_guard lock(d.mutex);
  return d.contents.are_of(change) ? d.names_known.epoch : 0;
}

DirectoryKnowledge CachingFilesystem::directory_knowledge(const CachedNode& d, uint64_t epoch,
                                                          TimePoint now) const {
  return {.holds = d.names_hold(epoch),
          .uncertain = d.names_known.uncertain,
          .remaining = d.attributes.remaining(now)};
}

Duration CachingFilesystem::entry_ttl(const NodeRef& directory, const NameBelief& belief) const {
  const CachedNode& d = cached_node(directory);
  const TimePoint now = Clock::now();
  std::lock_guard lock(d.mutex);
  return name_ttl(directory_knowledge(d, belief.epoch, now), belief, now, options_.acdirmax,
                  options_.lookupcache, names_are_free(d));
}

Task<NameBelief> CachingFilesystem::book_own_change(NodeRef directory, uint64_t before, uint64_t after,
                                                    bool atomic, std::optional<Attributes> attributes,
                                                    uint64_t order) {
  CachedNode& d = cached_node(directory);
  {
    std::lock_guard lock(d.mutex);
    const bool alone = follow_own_change(d.contents, d.names_known, before, after, atomic);
    // A name more or less changes nobody's rights to the directory.
    const Attributes& known = d.attributes.get();
    const bool same_rights = attributes && known.mode == attributes->mode && known.uid == attributes->uid &&
                             known.gid == attributes->gid;
    if (alone && same_rights) d.access.moved(before, after);
    if (!attributes) d.attributes.expire(table_.next_start());
  }
  if (attributes) co_await book(directory, *attributes, order, Cause::kAsked);
  co_return NameBelief{Clock::now(), names_epoch(directory, after), table_.next_start()};
}

bool CachingFilesystem::name_is_promised(const NameCache::Found& found) const {
  if (!promises_hold()) return false;
  const CachedNode& child = cached_node(found.child);
  std::lock_guard lock(child.mutex);
  return child.name_holds(found.belief);
}

bool CachingFilesystem::believed(const NodeRef& directory, const NameBelief& belief) const {
  const CachedNode& d = cached_node(directory);
  const TimePoint now = Clock::now();
  std::lock_guard lock(d.mutex);
  return believes(directory_knowledge(d, belief.epoch, now), belief, now, options_.acdirmax);
}

Task<Result<std::optional<Entry>>> CachingFilesystem::known_entry(RequestContext ctx, NodeRef directory,
                                                                  const std::string& name) {
  std::optional<NameCache::Found> found = table_.names().find(*directory.get(), name);
  if (found && !found->child && options_.lookupcache == LookupCache::kPositive) found.reset();
  bool good = found && believed(directory, found->belief);
  if (!good && found && found->child && name_is_promised(*found)) {
    NFSRDMA_CO_TRY(co_await revalidate(ctx, directory));  // who may search it may have changed
    good = name_is_promised(*found);
  }
  if (!good) co_return co_await waiting_entry(ctx, directory, name);
  NFSRDMA_CO_TRY(co_await check_search(ctx, directory));
  // Which may have told of a change to the directory.
  if (!believed(directory, found->belief) && !(found->child && name_is_promised(*found)))
    co_return std::nullopt;
  if (!found->child) co_return Entry{{}, {}, {}, entry_ttl(directory, found->belief)};
  // A name that only the file's promise holds is not lent to the kernel: it could not be taken back at a
  // recall without waiting for the directory's lock, whose holder may wait for the recall.
  if (co_await revalidate(ctx, found->child))
    co_return cached_entry(found->child, entry_ttl(directory, found->belief));
  table_.names().remove(*directory.get(), name, table_.next_start());  // the file is gone under its name: ask
  co_return std::nullopt;
}

Task<Result<Entry>> CachingFilesystem::lookup(RequestContext ctx, NodeRef directory, std::string name) {
  if (name.size() > limits_of(directory).name_max) co_return fail(name_error(ENAMETOOLONG, "LOOKUP"));
  if (options_.lookupcache != LookupCache::kNone) {
    Result<std::optional<Entry>> known = co_await known_entry(ctx, directory, name);
    if (known && !*known && co_await sweep_for_names(ctx, directory))
      known = co_await known_entry(ctx, directory, name);
    if (!known) {
      auto why = lookup_error(ctx, directory, std::move(known.error()));
      co_return fail(co_await std::move(why));
    }
    if (*known) {
      name_hits_.fetch_add(1, std::memory_order_relaxed);
      co_return std::move(**known);
    }
  }
  name_misses_.fetch_add(1, std::memory_order_relaxed);
  Result<Entry> answer = co_await lookup_on_server(ctx, directory, std::move(name));
  if (!answer) {
    auto why = lookup_error(ctx, directory, std::move(answer.error()));
    co_return fail(co_await std::move(why));
  }
  if (!answer->node) co_return answer;
  // Of absent files no READDIR tells.
  if (sweeps()) note_asked(directory);
  if (doubtful(answer->node)) {
    NFSRDMA_CO_TRY(co_await resolve_doubt(ctx, answer->node));
    *answer = cached_entry(answer->node, answer->entry_ttl);
  }
  co_return answer;
}

Task<Error> CachingFilesystem::lookup_error(RequestContext ctx, NodeRef directory, Error error) {
  NodeRef below = directory;
  for (size_t levels = 0; error.errnum == ESTALE && levels < kMostLevels; ++levels) {
    const auto name = table_.names().name_of(*below.get());
    if (!name) break;
    const Result<Entry> there = co_await lookup_on_server(ctx, name->directory, name->name);
    const int e = there ? 0 : there.error().errnum;
    if (e == ENOENT || (there && !there->node)) co_return name_error(ENOENT, "LOOKUP");
    if (e != ESTALE) break;
    below = name->directory;
  }
  co_return error;
}

Entry CachingFilesystem::learnt_entry(const NodeRef& directory, const std::string& name, const NodeRef& node,
                                      const NameBelief& belief) {
  Entry entry;
  if (node) {
    entry = cached_entry(node, Duration::zero());
  } else if (options_.lookupcache != LookupCache::kAll) {
    return entry;
  }
  if (table_.names().learn(*directory.get(), name, node.get(), belief) == NameCache::Learnt::kStored)
    entry.entry_ttl = entry_ttl(directory, belief);
  return entry;
}

void CachingFilesystem::expire(const NodeRef& node) {
  if (!node) return;
  std::lock_guard lock(cached_node(node).mutex);
  cached_node(node).attributes.expire(table_.next_start());
}

void CachingFilesystem::name_in_doubt(const NodeRef& directory, const std::string& name) {
  table_.names().doubt(*directory.get(), name, table_.next_start());
  expire(directory);
}

CachingFilesystem::Moving CachingFilesystem::moving(const NodeRef& from_directory, const std::string& from,
                                                    const NodeRef& to_directory, const std::string& to) {
  Moving m;
  if (auto found = table_.names().find(*from_directory.get(), from)) {
    m.moved = found->child;
    m.belief = found->belief;
  }
  if (auto found = table_.names().find(*to_directory.get(), to)) m.replaced = found->child;
  return m;
}

void CachingFilesystem::expire_moved(const Moving& m) {
  expire(m.moved);
  if (!m.replaced) return;
  {
    // Of a directory that is gone, fstat(2) can be told nothing but what is known.
    std::lock_guard lock(cached_node(m.replaced).mutex);
    if (S_ISDIR(cached_node(m.replaced).attributes.get().mode)) return;
  }
  expire(m.replaced);
}

void CachingFilesystem::names_moved(const Moving& m, const NodeRef& from_directory, const std::string& from,
                                    const NameBelief& from_belief, const NodeRef& to_directory,
                                    const std::string& to, const NameBelief& to_belief) {
  NameCache& names = table_.names();
  if (m.moved == m.replaced && m.moved) return;
  names.put(*from_directory.get(), from, nullptr, from_belief);
  if (!m.moved) {
    // To what is not known: as after a change of ours that is forgotten.
    names.remove(*to_directory.get(), to, to_belief.order);
    return;
  }
  // The name may have led elsewhere when it was moved, if somebody else has changed the directory in between.
  bool sure = m.belief.epoch != 0 && m.belief.epoch == from_belief.epoch;
  if (!sure) {
    const CachedNode& n = cached_node(m.moved);
    std::lock_guard lock(n.mutex);
    sure = n.name_holds(m.belief);
  }
  NameBelief belief = to_belief;
  belief.since = std::min(belief.since, m.belief.since);
  if (!sure) belief.epoch = belief.asked = 0;  // a hint: whoever asks is told by the server
  names.put(*to_directory.get(), to, m.moved.get(), belief);
}

}  // namespace nfsrdma::client
