// SPDX-License-Identifier: Apache-2.0
// Invalidator: makes the kernel forget pages, attributes and names, on behalf of the Filesystem.
//
// The kernel may block in these notifications: dropping pages waits for reads and writes under way on them,
// dropping a name waits for the directory's lock, and both are held by requests that the loops must answer
// first, some of which wait for a server that does not answer. So threads of its own write them: one names,
// which nobody waits for, and others what concerns nodes, whose end may be waited for: a request that waits
// for a node's may itself hold a directory's lock.
//
// Order: the notices of one node are told one after another (NoticeQueue), each wholly after what it was
// asked for. There is no order between nodes, between names, nor between a node and a name.
//
// Threads: a node whose pages stay locked takes one for as long as that lasts, and holds up nobody else.
// While one is in the kernel another one stands by, which takes what is left alone for a moment; whoever
// takes begins the next, and more than two that have nothing to do end. Beyond kMaxThreads (so many files
// have a READ or WRITE that the server does not answer) notices wait for one of these to come back: the queue
// merges them, drop_data() takes that long, and whoever cannot wait so long must not (drop_data_within()).
// Where no thread can be begun that holds for those there are.
//
// Names cannot be replaced by something coarser when they become many, the kernel has no such message; they
// are as many as the Filesystem handed out. Nothing asked for is ever lost. Entries hold NodeRefs, so a node
// id cannot come to mean another file meanwhile.
//
// Owner: FuseMount. invalidate_*: any thread, never block, nor begin a thread; drop_data() suspends its
// coroutine. No errors: what the kernel refuses it does not know.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/filesystem.h"
#include "fuse/inode_table.h"
#include "fuse/notice_queue.h"
#include "transport/runtime/sync.h"

struct fuse_session;

namespace nfsrdma::fuse {

class Invalidator final : public client::FrontEnd {
 public:
  static constexpr size_t kMaxNodes = 65536;
  static constexpr size_t kMaxThreads = 64;

  // `max_nodes` for tests; see NoticeQueue.
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

  using Numbers = NoticeQueue::Numbers;
  Numbers numbers() const;

 private:
  using Notice = NoticeQueue::Notice;
  using Done = NoticeQueue::Done;
  using Name = std::pair<client::NodeRef, std::string>;
  struct NameOrder {
    bool operator()(const Name& a, const Name& b) const {
      return a.first.get() != b.first.get() ? a.first.get() < b.first.get() : a.second < b.second;
    }
  };
  using Threads = std::list<std::thread>;
  using Lock = std::unique_lock<std::mutex>;

  // False when there is nothing to wait for.
  bool enqueue(client::NodeRef node, bool data, Done done);
  // A thread for nodes: what it does, and its steps, with the lock.
  void send_nodes(Threads::iterator self);
  bool await_notice(Lock& lock);
  void stand_by(Lock& lock);
  void gather_everything(Lock& lock);
  void begin_thread();
  void have_one_stand_by();
  void end_thread(Lock& lock, Threads::iterator self);

  void send_names();
  void send(Notice notice);
  void send(const Name& name);
  static void tell(const std::vector<Done>& waiting);
  static void check(int result);

  InodeTable& inodes_;
  fuse_session* session_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable notices_wait_, names_wait_;
  std::condition_variable moment_;  // of the thread that stands by
  NoticeQueue queue_;
  std::set<Name, NameOrder> names_;
  Numbers of_names_;
  bool enabled_ = false;
  bool stop_ = false;
  Threads node_threads_;
  size_t idle_ = 0;           // of node_threads_, not in the kernel
  std::thread ended_thread_;  // the latest; it joins the one before
  std::thread name_thread_;
  size_t running_ = 0;
};

}  // namespace nfsrdma::fuse
