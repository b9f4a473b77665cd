// SPDX-License-Identifier: Apache-2.0
// Invalidator: tells the kernel to drop pages, attributes and names, on behalf of the Filesystem.
//
// The kernel may block in these notifications: dropping pages waits for reads and writes in progress on them,
// and dropping a name waits for the directory's lock. Requests that the loops have to answer first hold both,
// and some of those wait for a server that does not answer. So separate threads write the notifications. One
// thread writes those of names, which nobody waits for. The others write those of nodes. A caller may wait
// for these, and a request that waits for a node's notice may itself hold a directory's lock.
//
// Order: the notices of one node are sent one after another (NoticeQueue), each entirely after the call that
// asked for it. There is no order between nodes, between names, nor between a node and a name.
//
// Threads: a node whose pages stay locked occupies one thread for as long as that lasts, and delays no other
// node. While a thread is in the kernel another one stands by; it takes a notice that the others have left
// for kMoment. A thread that takes a notice starts the next thread if none is idle. Two idle threads are
// kept; further ones end. Beyond kMaxThreads (that many files have a READ or WRITE that the server does not
// answer) notices wait for one of these threads to return. Meanwhile the queue merges notices, and
// drop_data() waits; a caller that cannot wait so long must bound its wait. If no thread can be started, the
// notices wait for the existing ones.
//
// Name notices cannot be merged into a coarser one, because the kernel has no such message. There are at most
// as many as names that the Filesystem handed out. No notice is ever lost. Entries hold NodeRefs, so a node
// id cannot come to mean another file meanwhile.
//
// Owner: FuseMount. invalidate_*: any thread; never block and never start a thread. drop_data() suspends its
// coroutine. No errors: if the kernel refuses a notification it does not know the object.
#pragma once

#include <cstdint>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/api/filesystem.h"
#include "fuse/inode_table.h"
#include "fuse/notice_queue.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

struct fuse_session;

namespace nfsrdma::fuse {

class Invalidator final : public client::FrontEnd {
 public:
  static constexpr size_t kMaxNodes = 65536;
  static constexpr size_t kMaxThreads = 64;

  // `max_nodes`: the queue's limit (NoticeQueue); tests set it.
  explicit Invalidator(InodeTable& inodes, size_t max_nodes = kMaxNodes);
  ~Invalidator() override;

  // Call it after the handshake. Earlier requests were ignored: the kernel knew nothing yet.
  void start(fuse_session* session);
  // The connection ended: drops the queue. Each thread may still be inside one notification.
  void disable();
  // After disable(): whether all threads have left the kernel; then join() does not block.
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
  using Lock = MutexLock;

  // False when there is no notice to wait for.
  bool enqueue(client::NodeRef node, bool data, Done done);
  // A thread for nodes, and its steps. Clang's lock analysis does not follow a lock that is a parameter.
  void send_nodes(Threads::iterator self);
  bool await_notice(Lock& lock) NFSRDMA_REQUIRES(mutex_);
  void stand_by(Lock& lock) NFSRDMA_REQUIRES(mutex_);
  void gather_everything(Lock& lock) NFSRDMA_REQUIRES(mutex_) NFSRDMA_UNCHECKED_LOCKS;
  void begin_thread() NFSRDMA_REQUIRES(mutex_);
  void have_one_stand_by() NFSRDMA_REQUIRES(mutex_);
  void end_thread(Lock& lock, Threads::iterator self) NFSRDMA_REQUIRES(mutex_) NFSRDMA_UNCHECKED_LOCKS;

  void send_names();
  void send(Notice notice);
  void send(const Name& name);
  static void tell(const std::vector<Done>& waiting);
  static void check(int result);

  InodeTable& inodes_;
  fuse_session* session_ = nullptr;

  mutable Mutex mutex_;
  ConditionVariable notices_wait_, names_wait_;
  ConditionVariable moment_;  // wakes the thread that stands by
  NoticeQueue queue_ NFSRDMA_GUARDED_BY(mutex_);
  std::set<Name, NameOrder> names_ NFSRDMA_GUARDED_BY(mutex_);
  Numbers of_names_ NFSRDMA_GUARDED_BY(mutex_);
  bool enabled_ NFSRDMA_GUARDED_BY(mutex_) = false;
  bool stop_ NFSRDMA_GUARDED_BY(mutex_) = false;
  Threads node_threads_ NFSRDMA_GUARDED_BY(mutex_);
  size_t idle_ NFSRDMA_GUARDED_BY(mutex_) = 0;  // threads of node_threads_ that are not in the kernel
  // The thread that ended last. It joins the one before it.
  std::thread ended_thread_ NFSRDMA_GUARDED_BY(mutex_);
  std::thread name_thread_ NFSRDMA_GUARDED_BY(mutex_);
  size_t running_ NFSRDMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace nfsrdma::fuse
