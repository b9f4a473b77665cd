// SPDX-License-Identifier: Apache-2.0
// NameCache: what is known of names: (directory, name) -> file, or "no such name".
//
// One per mount, shared by all loops, one lock (rank: taken with no other lock of the client held but, at
// most, none; nothing is called while it is held). It does not decide whether an entry may be believed: that
// follows from the directory's change attribute and is the caller's. Entries refer to Nodes without owning
// them and vanish with them: a Node calls forget() before it dies. "No such name" entries are bounded in
// number, oldest dropped first, and so are the names of one file.
//
// An answer is about the time when its request was executed, and may be stored long after that (a buffered
// READDIR). What we have changed under the name since the request began wins (RFC 8881 section 10.8).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client/node.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client {

// What a Node carries for the NameCache.
struct NameEntry;
struct NamesOfDirectory;
struct NameLinks {
  NameLinks();
  ~NameLinks();
  std::unique_ptr<NamesOfDirectory> as_directory;  // null while nothing is known of its names
  NameEntry* as_child = nullptr;                   // the names that lead to it
};

// Since when and under what an entry was right.
struct NameBelief {
  TimePoint since{};   // the request began
  uint64_t epoch = 0;  // Nfs4Node::names_epoch of the directory; 0: never to be believed
  uint64_t order =
      0;  // NodeTable::next_start(): of the request's beginning, or of the end of a change of ours
  uint64_t asked = 0;  // likewise: of the beginning of the request that has shown it; 0: none has
};

struct NameEntry {
  Node* directory = nullptr;
  std::string name;
  Node* child = nullptr;  // null: no such name
  NameBelief belief{};    // its order: of our latest change under this name; 0: none
  struct Link {
    NameEntry* next = nullptr;
    NameEntry* prev = nullptr;
  };
  Link in_directory{}, in_child{};
};

// Each directory has a table of its own: that of one that is listed, or worked in, does not share the
// processor's cache with a million names of others (docs/adr/0024-index-of-nodes.md).
struct NamesOfDirectory {
  struct Hash {
    using is_transparent = void;
    // noexcept: libstdc++ then keeps no hash with each entry, of which there may be a million.
    size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
    size_t operator()(const NameEntry& e) const noexcept { return (*this)(e.name); }
  };
  struct Equal {
    using is_transparent = void;
    static std::string_view name(std::string_view n) { return n; }
    static std::string_view name(const NameEntry& e) { return e.name; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return name(a) == name(b);
    }
  };
  // An entry's place does not change, and only its name is what it is found by.
  std::unordered_set<NameEntry, Hash, Equal> entries;
  NameEntry* newest = nullptr;
  uint64_t forgotten = 0;  // our latest change, or doubt, of a name that has no entry any more
};

class NameCache {
 public:
  static constexpr size_t kMaxNegative = 65536;
  // Names of one file: what another client renames again and again leads to it under each name it has had.
  static constexpr size_t kMaxOfOne = 64;

  using LinksOf = NameLinks& (*)(Node&);
  explicit NameCache(LinksOf links) : links_(links) {}

  struct Found {
    NodeRef child;  // null: no such name
    NameBelief belief;
  };
  std::optional<Found> find(Node& directory, std::string_view name);
  // We have made it so. `child` null: there is no such name now.
  void put(Node& directory, std::string_view name, Node* child, NameBelief belief);
  enum class Learnt : uint8_t {
    kStored,
    kAbsent,  // not stored: by a change of ours since the request began there is no such name
    kOther,   // not stored: likewise the name leads elsewhere, or nothing is known of it; or who asked later
              // was told otherwise
  };
  // The server said so in an answer to a request that began as `belief` says.
  Learnt learn(Node& directory, std::string_view name, Node* child, NameBelief belief);
  // Nothing is known of it: whatever was asked before `order` is no answer either.
  void remove(Node& directory, std::string_view name, uint64_t order);
  // Likewise, but where the kernel may still have the name it leads where it led, and is not believed.
  void doubt(Node& directory, std::string_view name, uint64_t order);
  // The Node is about to die.
  void forget(Node& node);
  // Some name that leads to the Node, for operations that need one; nothing when none is known.
  struct Name {
    NodeRef directory;
    std::string name;
  };
  std::optional<Name> name_of(Node& node);
  // Some of the files that names of the directory lead to, the latest names first.
  std::vector<NodeRef> children(Node& directory, size_t most) const;
  // Every name known of the directory, of absent files too.
  std::vector<std::string> names_in(Node& directory) const;
  size_t size() const;

 private:
  // With mutex_ held.
  NamesOfDirectory& names_of(Node& directory);
  void store(Node& directory, std::string_view name, Node* child, NameBelief belief);
  void link_child(NameEntry& e, Node* child);
  void unlink_child(NameEntry& e);
  NameEntry* entry(Node& directory, std::string_view name) const;
  const NameEntry* newest(Node& directory) const;
  void note_forgotten(Node& directory, uint64_t order);
  void erase(NameEntry& e);
  void bound_names_of(Node& child);

  const LinksOf links_;
  mutable std::mutex mutex_;
  size_t size_ = 0;
  NameEntry* newest_negative_ = nullptr;
  NameEntry* oldest_negative_ = nullptr;
  size_t negatives_ = 0;
};

}  // namespace nfsrdma::client
