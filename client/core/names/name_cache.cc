// SPDX-License-Identifier: Apache-2.0
#include "client/core/names/name_cache.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

void push_front(NameEntry*& head, NameEntry& e, NameEntry::Link NameEntry::*link) {
  (e.*link).prev = nullptr;
  (e.*link).next = head;
  if (head != nullptr) (head->*link).prev = &e;
  head = &e;
}

void unlink(NameEntry*& head, NameEntry& e, NameEntry::Link NameEntry::*link) {
  NameEntry* const next = (e.*link).next;
  NameEntry* const prev = (e.*link).prev;
  (prev != nullptr ? (prev->*link).next : head) = next;
  if (next != nullptr) (next->*link).prev = prev;
}

}  // namespace

NameLinks::NameLinks() = default;
NameLinks::~NameLinks() = default;

NamesOfDirectory& NameCache::names_of(Node& directory) {
  std::unique_ptr<NamesOfDirectory>& names = links_(directory).as_directory;
  if (names == nullptr) names = std::make_unique<NamesOfDirectory>();
  return *names;
}

void NameCache::link_child(NameEntry& e, Node* child) {
  e.child = child;
  if (child != nullptr) {
    push_front(links_(*child).as_child, e, &NameEntry::in_child);
    return;
  }
  push_front(newest_negative_, e, &NameEntry::in_child);
  if (oldest_negative_ == nullptr) oldest_negative_ = &e;
  ++negatives_;
}

void NameCache::unlink_child(NameEntry& e) {
  if (e.child != nullptr) {
    unlink(links_(*e.child).as_child, e, &NameEntry::in_child);
    return;
  }
  if (oldest_negative_ == &e) oldest_negative_ = e.in_child.prev;
  unlink(newest_negative_, e, &NameEntry::in_child);
  --negatives_;
}

NameEntry* NameCache::entry(Node& directory, std::string_view name) const {
  const NamesOfDirectory* names = links_(directory).as_directory.get();
  if (names == nullptr) return nullptr;
  const auto it = names->entries.find(name);
  return it == names->entries.end() ? nullptr : const_cast<NameEntry*>(&*it);
}

const NameEntry* NameCache::newest(Node& directory) const {
  const NamesOfDirectory* names = links_(directory).as_directory.get();
  return names == nullptr ? nullptr : names->newest;
}

void NameCache::note_forgotten(Node& directory, uint64_t order) {
  uint64_t& forgotten = names_of(directory).forgotten;
  forgotten = std::max(forgotten, order);
}

void NameCache::erase(NameEntry& e) {
  unlink_child(e);
  note_forgotten(*e.directory, e.belief.order);
  NamesOfDirectory& names = names_of(*e.directory);
  unlink(names.newest, e, &NameEntry::in_directory);
  names.entries.erase(names.entries.find(e));
  if (names.entries.empty()) names.entries = {};  // erase() keeps the buckets of the former size
  --size_;
}

std::optional<NameCache::Found> NameCache::find(Node& directory, std::string_view name) {
  MutexLock lock(mutex_);
  const NameEntry* e = entry(directory, name);
  if (e == nullptr) return std::nullopt;
  if (e->child == nullptr) return Found{{}, e->belief};
  if (!NodeTableAccess::try_acquire(*e->child)) return std::nullopt;  // being destroyed
  return Found{NodeRef::adopt(e->child), e->belief};
}

void NameCache::store(Node& directory, std::string_view name, Node* child, NameBelief belief) {
  NameEntry* e = entry(directory, name);
  if (e == nullptr) {
    NamesOfDirectory& names = names_of(directory);
    e = const_cast<NameEntry*>(&*names.entries.insert(NameEntry{&directory, std::string(name)}).first);
    push_front(names.newest, *e, &NameEntry::in_directory);
    link_child(*e, child);
    ++size_;
  } else if (e->child != child) {
    unlink_child(*e);
    link_child(*e, child);
  }
  e->belief = belief;
  while (negatives_ > kMaxNegative) erase(*oldest_negative_);
  if (child != nullptr) bound_names_of(*child);
}

void NameCache::bound_names_of(Node& child) {
  NameEntry* e = links_(child).as_child;
  for (size_t n = 0; e != nullptr && n < kMaxOfOne; ++n) e = e->in_child.next;
  if (e != nullptr) erase(*e);
}

void NameCache::put(Node& directory, std::string_view name, Node* child, NameBelief belief) {
  MutexLock lock(mutex_);
  store(directory, name, child, belief);
}

NameCache::Learnt NameCache::learn(Node& directory, std::string_view name, Node* child, NameBelief belief) {
  MutexLock lock(mutex_);
  const NameEntry* e = entry(directory, name);
  uint64_t changed = 0;
  if (e == nullptr) {
    const NamesOfDirectory* names = links_(directory).as_directory.get();
    if (names != nullptr && names->forgotten > belief.order) return Learnt::kOther;
  } else {
    changed = e->belief.order;
    if (changed > belief.order) {
      if (e->belief.epoch == 0) return Learnt::kOther;
      if (e->child == child) return Learnt::kStored;  // the entry is the same, and more recent
      return e->child == nullptr ? Learnt::kAbsent : Learnt::kOther;
    }
    // A reply that was stored late does not replace one whose request began later.
    if (e->belief.asked > belief.order && e->belief.epoch >= belief.epoch)
      return e->child == child ? Learnt::kStored : Learnt::kOther;
  }
  belief.asked = belief.order;
  belief.order = changed;
  store(directory, name, child, belief);
  return Learnt::kStored;
}

void NameCache::remove(Node& directory, std::string_view name, uint64_t order) {
  MutexLock lock(mutex_);
  if (NameEntry* e = entry(directory, name); e != nullptr) erase(*e);
  note_forgotten(directory, order);
}

void NameCache::doubt(Node& directory, std::string_view name, uint64_t order) {
  MutexLock lock(mutex_);
  if (NameEntry* e = entry(directory, name); e != nullptr) {
    e->belief = NameBelief{.order = order};
  } else {
    note_forgotten(directory, order);
  }
}

void NameCache::forget(Node& node) {
  MutexLock lock(mutex_);
  if (NamesOfDirectory* names = links_(node).as_directory.get()) {
    while (names->newest != nullptr) erase(*names->newest);
  }
  while (NameEntry* e = links_(node).as_child) erase(*e);
}

std::optional<NameCache::Name> NameCache::name_of(Node& node) {
  MutexLock lock(mutex_);
  for (NameEntry* e = links_(node).as_child; e != nullptr; e = e->in_child.next) {
    if (NodeTableAccess::try_acquire(*e->directory)) return Name{NodeRef::adopt(e->directory), e->name};
  }
  return std::nullopt;
}

std::vector<NodeRef> NameCache::children(Node& directory, size_t most) const {
  MutexLock lock(mutex_);
  std::vector<NodeRef> some;
  size_t steps = 8 * most;  // negative entries may stand in between
  for (const NameEntry* e = newest(directory); e != nullptr && steps-- != 0 && some.size() < most;
       e = e->in_directory.next) {
    if (e->child != nullptr && NodeTableAccess::try_acquire(*e->child))
      some.push_back(NodeRef::adopt(e->child));
  }
  return some;
}

std::vector<std::string> NameCache::names_in(Node& directory) const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const NameEntry* e = newest(directory); e != nullptr; e = e->in_directory.next)
    names.push_back(e->name);
  return names;
}

size_t NameCache::size() const {
  MutexLock lock(mutex_);
  return size_;
}

}  // namespace nfsrdma::client
