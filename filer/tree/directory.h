// SPDX-License-Identifier: Apache-2.0
// Directory: the names in one directory of the memory tree, with their READDIR cookies. A value type without
// locks; the tree's owner serializes access.
//
// A name keeps its cookie as long as it exists, whatever happens to other names, and no cookie is reused. A
// reader that continues from a cookie therefore sees every name that existed all the time exactly once (RFC
// 8881 section 18.23.3: "Ideally, the cookie value SHOULD NOT change if the directory is modified"). The RFC
// reserves cookies 0, 1 and 2; they are not used. Lookup by name uses a hash table; names are listed in the
// order of insertion.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "filer/tree/node.h"

namespace nfsrdma::filer::tree {

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
    cookies_.erase(at);  // first, because its key points to the entry's name
    entries_.erase(cookie);
  }
  // Makes the existing `name` refer to another node; its cookie stays.
  void replace(std::string_view name, NodeId node) { entries_.at(cookies_.find(name)->second).node = node; }

  // The first entry after `cookie` (0: the first entry), or null at the end.
  const Entry* next(uint64_t cookie) const {
    const auto at = entries_.upper_bound(cookie);
    return at == entries_.end() ? nullptr : &at->second;
  }
  // Whether this directory has assigned `cookie`, even to a name that is gone by now.
  bool issued(uint64_t cookie) const { return cookie >= kFirstCookie && cookie < next_cookie_; }

 private:
  // By cookie; elements do not move, so cookies_ can point to their names.
  std::map<uint64_t, Entry> entries_;
  std::unordered_map<std::string_view, uint64_t> cookies_;
  uint64_t next_cookie_ = kFirstCookie;
};

}  // namespace nfsrdma::filer::tree
