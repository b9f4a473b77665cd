// Invalidator: makes the kernel forget pages, attributes and names, on behalf of the Filesystem.
//
// The kernel may block in these notifications: dropping pages waits for reads and writes under way on them,
// dropping a name waits for the directory's lock, and both are held by requests that the loops must answer
// first. So threads of its own write them: one what concerns nodes, whose end may be waited for, and one
// names, which nobody waits for: a request that waits for a node's may itself hold a directory's lock.
//
// The queue merges what is asked twice. Nodes: at most kMaxNodes wait; beyond that (the kernel is stuck
// behind a dead filer, and delegations are recalled) they become one entry, everything the kernel knows.
// Names cannot be replaced by something coarser, the kernel has no such message; they are as many as the
// Filesystem handed out. Nothing asked for is ever lost. Entries hold NodeRefs, so a node id cannot come to
// mean another file meanwhile.
//
// Owner: FuseMount. invalidate_*: any thread, never block; drop_data() suspends its coroutine. Two threads
// inside.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/filesystem.h"
#include "fuse/inode_table.h"
#include "transport/runtime/sync.h"

struct fuse_session;

namespace nfsrdma::fuse {

class Invalidator final : public client::FrontEnd {
 public:
  static constexpr size_t kMaxNodes = 65536;

  // `max_nodes` for tests.
  explicit Invalidator(InodeTable& inodes, size_t max_nodes = kMaxNodes);
  ~Invalidator() override;

  // After the handshake. What was asked before concerns nothing the kernel could know.
  void start(fuse_session* session);
  // The connection ended: drops what is queued. The threads may still be inside one notification each.
  void disable();
  // After disable(): whether the threads are out of the kernel; then join() does not block.
  bool idle() const;
  void join();

  void invalidate_data(client::NodeRef node) override { enqueue(std::move(node), true, nullptr); }
  Task<> drop_data(client::NodeRef node) override;
  void invalidate_attributes(client::NodeRef node) override { enqueue(std::move(node), false, nullptr); }
  void invalidate_entry(client::NodeRef directory, std::string name) override;

  struct Numbers {
    uint64_t sent = 0, merged = 0, floods = 0;
  };
  Numbers numbers() const;

 private:
  // Shared: set() may still run when its waiter has gone on.
  using Done = std::shared_ptr<Completion<bool>>;
  struct Wish {
    client::NodeRef node;
    bool data = false;  // pages too, not only attributes
    std::vector<Done> waiting;
  };
  using Name = std::pair<client::NodeRef, std::string>;
  struct NameOrder {
    bool operator()(const Name& a, const Name& b) const {
      return a.first.get() != b.first.get() ? a.first.get() < b.first.get() : a.second < b.second;
    }
  };

  // False when there is nothing to wait for.
  bool enqueue(client::NodeRef node, bool data, Done done);
  void send_nodes();
  void send_names();
  void send(const Wish& wish);
  static void tell(const std::vector<Done>& waiting);
  void send(const Name& name);
  void send_everything(const std::vector<Done>& waiting, bool data);
  void check(int result);

  InodeTable& inodes_;
  const size_t max_nodes_;
  fuse_session* session_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<client::Node*> order_;
  std::unordered_map<client::Node*, Wish> nodes_;
  std::set<Name, NameOrder> names_;
  bool everything_ = false;
  bool everything_has_data_ = false;  // some of it wanted more than attributes to go
  std::vector<Done> waiting_for_everything_;
  bool enabled_ = false;
  bool stop_ = false;
  unsigned running_ = 0;
  Numbers numbers_;
  std::thread node_thread_, name_thread_;
};

}  // namespace nfsrdma::fuse
