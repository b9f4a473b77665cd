// SPDX-License-Identifier: Apache-2.0
// Node: represents one file object of the server in every part of the client.
//
// Exactly one Node exists per file handle of a mount while anything refers to it: the front end (which counts
// the kernel's lookups in front_end_lookups), open files, requests in progress. NodeRef counts references;
// any thread may copy or drop one. The last reference removes the Node from its Filesystem's table. A
// Filesystem keeps its own data per file in a derived class.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace nfsrdma::client {

class Node {
 public:
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // For the front end only: the number of lookups that the kernel holds. While it is above zero, the front
  // end owns one reference (NodeRef::detach, NodeRef::adopt) and keeps the Node in a list of its own.
  std::atomic<uint64_t> front_end_lookups{0};
  Node* front_end_next = nullptr;
  Node* front_end_previous = nullptr;
  // For the front end only: the FUSE generation of this Node's address; 0: none is assigned yet.
  std::atomic<uint32_t> front_end_generation{0};

 protected:
  virtual ~Node() = default;

 private:
  friend class NodeRef;
  friend class NodeTableAccess;
  // Called when the count falls to zero: removes the Node from its table and destroys it. The table gives out
  // no reference to a Node whose count is zero.
  virtual void last_reference() noexcept = 0;
  std::atomic<uint32_t> references_{0};
};

class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* n) noexcept : node_(n) { acquire(); }
  NodeRef(const NodeRef& o) noexcept : node_(o.node_) { acquire(); }
  NodeRef(NodeRef&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  NodeRef& operator=(NodeRef o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~NodeRef() { reset(); }
  void reset() {
    Node* n = std::exchange(node_, nullptr);
    if (n != nullptr && n->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) n->last_reference();
  }
  // detach() hands the reference to an owner of a raw pointer (the kernel's node ID), adopt() takes it back.
  [[nodiscard]] Node* detach() { return std::exchange(node_, nullptr); }
  static NodeRef adopt(Node* n) {
    NodeRef r;
    r.node_ = n;
    return r;
  }

  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const NodeRef&) const = default;

 private:
  void acquire() {
    if (node_ != nullptr) node_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  Node* node_ = nullptr;
};

// For the table that owns the Nodes: acquires a listed Node, unless its last reference is gone.
class NodeTableAccess {
 public:
  static bool try_acquire(Node& n) {
    uint32_t count = n.references_.load(std::memory_order_relaxed);
    while (count != 0) {
      if (n.references_.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  static uint32_t references(const Node& n) { return n.references_.load(std::memory_order_acquire); }
};

}  // namespace nfsrdma::client
