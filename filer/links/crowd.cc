// SPDX-License-Identifier: Apache-2.0
#include "filer/links/crowd.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace nfsrdma::filer::links::crowd {

namespace {

// The owner of a connection: its address and, if it has used a session, the principal of that session.
using Address = std::string;
using Owner = std::tuple<Address, bool, rpc::auth_flavor, uint32_t, std::string>;

Owner owner_of(const Link& link) {
  const Link::Standing& s = link.standing;
  return {s.address, s.has_session, s.owner.flavor, s.owner.uid, s.owner.name};
}

// The key with the highest count.
template <class Key>
const Key* heaviest(const std::map<Key, size_t>& counts) {
  const auto at = std::max_element(counts.begin(), counts.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; });
  return at == counts.end() ? nullptr : &at->first;
}

// Those of `links` that belong to the heaviest owner at the heaviest address. `weigh` is a link's weight.
template <class Weigh>
std::vector<LinkPtr> of_the_heaviest(const std::vector<LinkPtr>& links, Weigh weigh) {
  std::map<Address, size_t> addresses;
  for (const LinkPtr& link : links) addresses[link->standing.address] += weigh(*link);
  const Address* address = heaviest(addresses);
  std::map<Owner, size_t> owners;
  for (const LinkPtr& link : links) {
    if (link->standing.address == *address) owners[owner_of(*link)] += weigh(*link);
  }
  const Owner* owner = heaviest(owners);
  std::vector<LinkPtr> found;
  for (const LinkPtr& link : links) {
    if (owner_of(*link) == *owner) found.push_back(link);
  }
  return found;
}

size_t one(const Link&) {
  return 1;
}

LinkPtr first_by(const std::vector<LinkPtr>& links, TimePoint Link::Standing::*time) {
  return *std::min_element(links.begin(), links.end(), [time](const LinkPtr& a, const LinkPtr& b) {
    return a->standing.*time < b->standing.*time;
  });
}

}  // namespace

LinkPtr goes_for_another(const Links& links, size_t most) {
  std::vector<LinkPtr> strangers, clients;
  for (const auto& [id, link] : links) (link->standing.has_session ? clients : strangers).push_back(link);
  const auto stranger = [&] {
    return strangers.empty() ? nullptr : first_by(of_the_heaviest(strangers, one), &Link::Standing::accepted);
  };
  if (strangers.size() > most / 8 || clients.empty()) return stranger();
  const std::vector<LinkPtr> his = of_the_heaviest(clients, one);
  if (his.size() <= std::max<size_t>(most / 16, 1)) return stranger();
  return first_by(his, &Link::Standing::heard);
}

std::vector<LinkPtr> idle_since(const Links& links, TimePoint then) {
  std::vector<LinkPtr> idle;
  for (const auto& [id, link] : links) {
    if (!link->standing.has_session && link->standing.heard < then) idle.push_back(link);
  }
  return idle;
}

std::vector<LinkPtr> hold_too_much(const Links& links, size_t most) {
  std::vector<LinkPtr> left;
  size_t total = 0;
  for (const auto& [id, link] : links) {
    left.push_back(link);
    total += link->held_bytes();
  }
  std::vector<LinkPtr> going;
  const auto held = [](const Link& link) { return link.held_bytes(); };
  while (total > most && !left.empty()) {
    std::vector<LinkPtr> his = of_the_heaviest(left, held);
    std::sort(his.begin(), his.end(),
              [](const LinkPtr& a, const LinkPtr& b) { return a->held_bytes() > b->held_bytes(); });
    const LinkPtr& largest = his.front();
    if (largest->held_bytes() == 0) break;
    total -= largest->held_bytes();
    std::erase(left, largest);
    going.push_back(largest);
  }
  return going;
}

}  // namespace nfsrdma::filer::links::crowd
