// SPDX-License-Identifier: Apache-2.0
// Directory: the names of one directory of the memory tree, and their READDIR cookies.
//
// A name keeps its cookie as long as it exists, whatever happens to the names around it, and no cookie is
// used twice: so a reader that goes on from a cookie sees every name that existed throughout exactly once
// (RFC 8881 section 18.23.3: "Ideally, the cookie value SHOULD NOT change if the directory is modified").
// Cookies 0, 1 and 2 are reserved there and never given out. Lookup by name is hashed; insertion order is
// reading order.
//
// Values only, no locks: the owner of the tree serializes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "filer/tree/node.h"

namespace nfsrdma::filer {

class Directory {
 public:
  static constexpr uint64_t kFirstCookie = 3;

  struct Entry {
    uint64_t cookie = 0;
    std::string name;
    NodeId node = 0;
  };

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }

  const Entry* find(std::string_view name) const {
    const auto at = cookies_.find(name);
    return at == cookies_.end() ? nullptr : &entries_.at(at->second);
  }
  // `name` must not exist.
  void insert(std::string_view name, NodeId node) {
    const uint64_t cookie = next_cookie_++;
    const auto at = entries_.emplace(cookie, Entry{cookie, std::string(name), node}).first;
    cookies_.emplace(at->second.name, cookie);
  }
  void erase(std::string_view name) {
    const auto at = cookies_.find(name);
    if (at == cookies_.end()) return;
    const uint64_t cookie = at->second;
    cookies_.erase(at);  // its key views the entry's name: first
    entries_.erase(cookie);
  }
  // `name`, which exists, names another node from now on and keeps its cookie.
  void replace(std::string_view name, NodeId node) { entries_.at(cookies_.find(name)->second).node = node; }

  // The first entry behind `cookie` (0: the first of all), or null at the end.
  const Entry* next(uint64_t cookie) const {
    const auto at = entries_.upper_bound(cookie);
    return at == entries_.end() ? nullptr : &at->second;
  }
  // Whether a cookie was given out by this directory, for a name that may be gone by now.
  bool issued(uint64_t cookie) const { return cookie >= kFirstCookie && cookie < next_cookie_; }

 private:
  std::map<uint64_t, Entry> entries_;  // by cookie; nodes are stable, so that names can be viewed
  std::unordered_map<std::string_view, uint64_t> cookies_;
  uint64_t next_cookie_ = kFirstCookie;
};

}  // namespace nfsrdma::filer
