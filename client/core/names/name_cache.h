// SPDX-License-Identifier: Apache-2.0
// NameCache: (directory, name) -> file, or a negative entry.
//
// One per mount, shared by all loops. It has one lock, a leaf (LockRank::kLeaf): nothing is called while it
// is held. The cache does not decide whether an entry is valid: the caller does, by the directory's change
// attribute. Entries point to Nodes without owning them; a Node calls forget() before it is destroyed, which
// removes them. The number of negative entries is bounded (the oldest go first), and so is the number of
// names per file.
//
// A reply tells the state when its request was executed, and may be stored much later (a buffered READDIR).
// If we changed the name since the request began, our change wins (RFC 8881 section 10.8).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "client/api/node.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

// The NameCache's links inside a Node.
struct NameEntry;
struct NamesOfDirectory;
struct NameLinks {
  NameLinks();
  ~NameLinks();
  std::unique_ptr<NamesOfDirectory> as_directory;  // null while no name in it is known
  NameEntry* as_child = nullptr;                   // the names of this file
};

// When and in which epoch an entry was valid.
struct NameBelief {
  TimePoint since{};   // when the request began
  uint64_t epoch = 0;  // NamesState::epoch of the directory; 0: the entry is not valid
  uint64_t order = 0;  // next_start() at the request's start or at the end of our change
  uint64_t asked = 0;  // start of the request whose reply showed it, as next_start(); 0: none
};

struct NameEntry {
  Node* directory = nullptr;
  std::string name;
  Node* child = nullptr;  // null: negative entry
  NameBelief belief{};    // `order`: our latest change of this name; 0: none
  struct Link {
    NameEntry* next = nullptr;
    NameEntry* prev = nullptr;
  };
  Link in_directory{}, in_child{};
};

// Each directory has its own table. So the table of a directory that is being listed or used does not compete
// for the processor's cache with a million names of other directories
// (docs/adr/0024-index-of-nodes.md).
struct NamesOfDirectory {
  struct Hash {
    using is_transparent = void;
    // noexcept: then libstdc++ stores no hash with each entry. There may be a million entries.
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
  // An entry's address is stable. Only its name determines its place, so the rest may change.
  std::unordered_set<NameEntry, Hash, Equal> entries;
  NameEntry* newest = nullptr;
  uint64_t forgotten = 0;  // sequence number of our latest change or doubt of a name without an entry
};

class NameCache {
 public:
  static constexpr size_t kMaxNegative = 65536;
  // Names per file. If another client renames a file again and again, each of its names leads to it.
  static constexpr size_t kMaxOfOne = 64;

  using LinksOf = NameLinks& (*)(Node&);
  explicit NameCache(LinksOf links) : links_(links) {}

  struct Found {
    NodeRef child;  // null: no such name
    NameBelief belief;
  };
  std::optional<Found> find(Node& directory, std::string_view name);
  // We made this change. `child` null: we removed the name.
  void put(Node& directory, std::string_view name, Node* child, NameBelief belief);
  enum class Learnt : uint8_t {
    kStored,
    kAbsent,  // not stored: we removed the name after the request began
    kOther,   // not stored: we changed the name after the request began, and it leads elsewhere or is not
              // known; or a later request has another answer
  };
  // Stores the server's answer to a request that began at `belief.order`.
  Learnt learn(Node& directory, std::string_view name, Node* child, NameBelief belief);
  // Removes the entry. Answers to requests that began before `order` are rejected, too.
  void remove(Node& directory, std::string_view name, uint64_t order);
  // As remove(), but the kernel may still have the name: the entry stays and is not valid.
  void doubt(Node& directory, std::string_view name, uint64_t order);
  // The Node is about to be destroyed.
  void forget(Node& node);
  // Any name of the Node, for operations that need one. Nothing if none is known.
  struct Name {
    NodeRef directory;
    std::string name;
  };
  std::optional<Name> name_of(Node& node);
  // Up to `most` files that the directory's names lead to, latest names first.
  std::vector<NodeRef> children(Node& directory, size_t most) const;
  // All known names of the directory, with those of negative entries.
  std::vector<std::string> names_in(Node& directory) const;
  size_t size() const;

 private:
  NamesOfDirectory& names_of(Node& directory) NFSRDMA_REQUIRES(mutex_);
  void store(Node& directory, std::string_view name, Node* child, NameBelief belief) NFSRDMA_REQUIRES(mutex_);
  void link_child(NameEntry& e, Node* child) NFSRDMA_REQUIRES(mutex_);
  void unlink_child(NameEntry& e) NFSRDMA_REQUIRES(mutex_);
  NameEntry* entry(Node& directory, std::string_view name) const NFSRDMA_REQUIRES(mutex_);
  const NameEntry* newest(Node& directory) const NFSRDMA_REQUIRES(mutex_);
  void note_forgotten(Node& directory, uint64_t order) NFSRDMA_REQUIRES(mutex_);
  void erase(NameEntry& e) NFSRDMA_REQUIRES(mutex_);
  void bound_names_of(Node& child) NFSRDMA_REQUIRES(mutex_);

  const LinksOf links_;
  mutable Mutex mutex_;
  size_t size_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  NameEntry* newest_negative_ NFSRDMA_GUARDED_BY(mutex_) = nullptr;
  NameEntry* oldest_negative_ NFSRDMA_GUARDED_BY(mutex_) = nullptr;
  size_t negatives_ NFSRDMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace nfsrdma::client
