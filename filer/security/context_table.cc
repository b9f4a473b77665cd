// SPDX-License-Identifier: Apache-2.0
#include "filer/security/context_table.h"

#include <algorithm>

#include "filer/state/random.h"

namespace nfsrdma::filer::security {

namespace {

// Loopback is one address for all users of this machine; only their principals tell them apart.
bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("::ffff:127.") || address == "::1";
}

}  // namespace

std::optional<ContextTable::Handle> ContextTable::handle_of(ConstBytes bytes) {
  Handle handle{};
  if (bytes.size() != handle.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), handle.begin());
  return handle;
}

ContextTable::Handle ContextTable::add(ContextPtr context) {
  Owner owner{context->address, context->who.name};
  make_room_for(owner);
  Handle handle{};
  do {
    state::fill_random(handle);
  } while (by_handle_.contains(handle));
  entries_.push_front({handle, std::move(context), std::move(owner)});
  by_handle_.emplace(handle, entries_.begin());
  count(entries_.front(), true);
  return handle;
}

void ContextTable::established(const Handle& handle) {
  const auto at = by_handle_.find(handle);
  if (at == by_handle_.end()) return;
  Entry moved = *at->second;
  remove(at->second);
  moved.owner.second = moved.context->who.name;
  make_room_for(moved.owner);
  entries_.push_front(std::move(moved));
  by_handle_.emplace(handle, entries_.begin());
  count(entries_.front(), true);
}

ContextPtr ContextTable::find(ConstBytes bytes) {
  const auto handle = handle_of(bytes);
  const auto at = handle ? by_handle_.find(*handle) : by_handle_.end();
  if (at == by_handle_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->context;
}

void ContextTable::remove(ConstBytes bytes) {
  const auto handle = handle_of(bytes);
  const auto at = handle ? by_handle_.find(*handle) : by_handle_.end();
  if (at != by_handle_.end()) remove(at->second);
}

void ContextTable::remove_ended(TimePoint now) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    if (entry->context->ends <= now) remove(entry);
  }
}

void ContextTable::clear() {
  entries_.clear();
  by_handle_.clear();
  of_owner_.clear();
  of_address_.clear();
  incomplete_ = 0;
}

void ContextTable::count(const Entry& entry, bool more) {
  const auto change = [more](auto& counts, const auto& key) {
    size_t& number = counts[key];
    number += more ? 1 : size_t(-1);
    if (number == 0) counts.erase(key);
  };
  change(of_owner_, entry.owner);
  change(of_address_, entry.owner.first);
  if (entry.owner.second.empty()) incomplete_ += more ? 1 : size_t(-1);
}

void ContextTable::remove(Entries::iterator entry) {
  count(*entry, false);
  by_handle_.erase(entry->handle);
  entries_.erase(entry);
}

template <class Goes>
void ContextTable::remove_oldest(Goes goes) {
  for (auto at = entries_.end(); at != entries_.begin();) {
    --at;
    if (goes(at->owner)) return remove(at);
  }
}

void ContextTable::make_room_for(const Owner& owner) {
  const auto of = [](const auto& counts, const auto& key) {
    const auto at = counts.find(key);
    return at == counts.end() ? size_t{0} : at->second;
  };
  if (owner.second.empty()) {
    if (incomplete_ >= limits_.incomplete)
      remove_oldest([](const Owner& other) { return other.second.empty(); });
  } else if (of(of_owner_, owner) >= limits_.of_principal) {
    remove_oldest([&](const Owner& other) { return other == owner; });
  }
  if (!is_loopback(owner.first) && of(of_address_, owner.first) >= limits_.all / 2)
    remove_oldest([&](const Owner& other) { return other.first == owner.first; });
  if (entries_.size() < limits_.all) return;
  const std::string& address = fullest_address();
  remove_oldest([&](const Owner& other) { return other.first == address; });
}

const std::string& ContextTable::fullest_address() const {
  return std::max_element(of_address_.begin(), of_address_.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace nfsrdma::filer::security
