// SPDX-License-Identifier: Apache-2.0
// Names: the name cache and how long its names are valid (RFC 8881 section 10.8).
//
// A cached name is valid while its directory's attributes are fresh and the directory's change attribute is
// the one that belongs to the names. Our own changes fetch the directory's new attributes in the same
// COMPOUND, so the names stay valid. Another client's change moves the change attribute and ends the epoch of
// the names. A reply belongs to the epoch of the directory attributes that precede it in its COMPOUND. The
// name of a file under a delegation stays valid after that epoch, because a rename or removal of the file
// recalls the delegation.
#include "client/core/name_service.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

uint64_t NameService::names_epoch(const NodeRef& directory, uint64_t change) {
  const CachedNode& d = cached_node(directory);
  MutexLock lock(d.mutex);
  return d.contents.are_of(change) ? d.names_known.epoch : 0;
}

DirectoryKnowledge NameService::directory_knowledge(const CachedNode& d, uint64_t epoch,
                                                    TimePoint now) const {
  return {.holds = d.names_hold(epoch),
          .uncertain = d.names_known.uncertain,
          .remaining = d.attributes.remaining(now)};
}

Duration NameService::entry_ttl(const NodeRef& directory, const NameBelief& belief) const {
  const CachedNode& d = cached_node(directory);
  const TimePoint now = Clock::now();
  MutexLock lock(d.mutex);
  return name_ttl(directory_knowledge(d, belief.epoch, now), belief, now, options_.acdirmax,
                  options_.lookupcache, access_.names_are_free(d));
}

Task<NameBelief> NameService::record_own_change(NodeRef directory, DirectoryChange change, uint64_t order) {
  CachedNode& d = cached_node(directory);
  {
    MutexLock lock(d.mutex);
    const bool alone =
        follow_own_change(d.contents, d.names_known, change.before, change.after, change.atomic);
    // Adding or removing a name leaves the permissions of the directory as they were.
    const Attributes& known = d.attributes.get();
    const std::optional<Attributes>& now = change.attributes;
    const bool same_rights = now && known.mode == now->mode && known.uid == now->uid && known.gid == now->gid;
    if (alone && same_rights) d.access.moved(change.before, change.after);
  }
  AnsweredAttributes answered;
  answered.attributes = change.attributes;
  answered.order = order;
  co_await attributes_.record(directory, answered);
  co_return NameBelief{Clock::now(), names_epoch(directory, change.after), table_.next_start()};
}

bool NameService::name_is_promised(const NameCache::Found& found) const {
  if (!protocol_.promises_hold()) return false;
  const CachedNode& child = cached_node(found.child);
  MutexLock lock(child.mutex);
  return child.name_holds(found.belief);
}

bool NameService::believed(const NodeRef& directory, const NameBelief& belief) const {
  const CachedNode& d = cached_node(directory);
  const TimePoint now = Clock::now();
  MutexLock lock(d.mutex);
  return believes(directory_knowledge(d, belief.epoch, now), belief, now, options_.acdirmax);
}

Entry NameService::learnt_entry(const NodeRef& directory, const std::string& name, const NodeRef& node,
                                const NameBelief& belief) {
  Entry entry;
  if (node) {
    entry = attributes_.cached_entry(node, Duration::zero());
  } else if (options_.lookupcache != LookupCache::kAll) {
    return entry;
  }
  if (table_.names().learn(*directory.get(), name, node.get(), belief) == NameCache::Learnt::kStored)
    entry.entry_ttl = entry_ttl(directory, belief);
  return entry;
}

void NameService::name_in_doubt(const NodeRef& directory, const std::string& name) {
  table_.names().doubt(*directory.get(), name, table_.next_start());
  attributes_.expire(directory);
}

NameService::Moving NameService::moving(const NodeRef& from_directory, const std::string& from,
                                        const NodeRef& to_directory, const std::string& to) {
  Moving m;
  if (auto found = table_.names().find(*from_directory.get(), from)) {
    m.moved = found->child;
    m.belief = found->belief;
  }
  if (auto found = table_.names().find(*to_directory.get(), to)) m.replaced = found->child;
  return m;
}

void NameService::expire_moved(const Moving& m) {
  attributes_.expire(m.moved);
  if (!m.replaced) return;
  {
    // A replaced directory keeps its cached attributes: the server cannot return them any more.
    MutexLock lock(cached_node(m.replaced).mutex);
    if (S_ISDIR(cached_node(m.replaced).attributes.get().mode)) return;
  }
  attributes_.expire(m.replaced);
}

void NameService::names_moved(const Moving& m, const NodeRef& from_directory, const std::string& from,
                              const NameBelief& from_belief, const NodeRef& to_directory,
                              const std::string& to, const NameBelief& to_belief) {
  NameCache& names = table_.names();
  if (m.moved == m.replaced && m.moved) return;
  names.put(*from_directory.get(), from, nullptr, from_belief);
  if (!m.moved) {
    // It is not known which file the new name leads to.
    names.remove(*to_directory.get(), to, to_belief.order);
    return;
  }
  // If another client changed the directory before the RENAME, the old name may have led to another file.
  bool sure = m.belief.epoch != 0 && m.belief.epoch == from_belief.epoch;
  if (!sure) {
    const CachedNode& n = cached_node(m.moved);
    MutexLock lock(n.mutex);
    sure = n.name_holds(m.belief);
  }
  NameBelief belief = to_belief;
  belief.since = std::min(belief.since, m.belief.since);
  if (!sure) belief.epoch = belief.asked = 0;  // only a hint: the next lookup() asks the server
  names.put(*to_directory.get(), to, m.moved.get(), belief);
}

NodeRef NameService::directory_under(const NodeRef& directory, const std::string& name) {
  const auto found = table_.names().find(*directory.get(), name);
  if (!found || !found->child || !believed(directory, found->belief)) return {};
  return S_ISDIR(AttributeService::known_attributes(found->child).mode) ? found->child : NodeRef{};
}

void NameService::note_removed(const NodeRef& directory) {
  if (!directory) return;
  MutexLock lock(cached_node(directory).mutex);
  cached_node(directory).attributes.removed();
}

}  // namespace nfsrdma::client
