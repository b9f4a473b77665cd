#include "fuse/invalidator.h"

#include <fuse_lowlevel.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

using client::NodeRef;

Invalidator::Invalidator(InodeTable& inodes, size_t max_nodes) : inodes_(inodes), max_nodes_(max_nodes) {}

Invalidator::~Invalidator() {
  disable();
  join();
}

void Invalidator::start(fuse_session* session) {
  std::lock_guard lock(mutex_);
  session_ = session;
  enabled_ = true;
  running_ = 2;
  node_thread_ = std::thread([this] { send_nodes(); });
  name_thread_ = std::thread([this] { send_names(); });
  pthread_setname_np(node_thread_.native_handle(), "fuse-invalidate");
  pthread_setname_np(name_thread_.native_handle(), "fuse-names");
}

void Invalidator::disable() {
  // Their NodeRefs go, and their waiters go on, after the lock.
  std::unordered_map<client::Node*, Wish> nodes;
  std::set<Name, NameOrder> names;
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    enabled_ = false;
    stop_ = true;
    everything_ = false;
    nodes.swap(nodes_);
    names.swap(names_);
    waiting.swap(waiting_for_everything_);
    order_.clear();
    wake_.notify_all();
  }
  for (const auto& [node, wish] : nodes) tell(wish.waiting);
  tell(waiting);
}

bool Invalidator::idle() const {
  std::lock_guard lock(mutex_);
  return running_ == 0;
}

void Invalidator::join() {
  for (std::thread* thread : {&node_thread_, &name_thread_}) {
    if (thread->joinable()) thread->join();
  }
}

bool Invalidator::enqueue(NodeRef node, bool data, Done done) {
  if (!node || !inodes_.known(node)) return false;
  std::unordered_map<client::Node*, Wish> merged;
  std::lock_guard lock(mutex_);
  if (!enabled_) return false;
  if (everything_) {
    ++numbers_.merged;
    everything_has_data_ |= data;
    if (done) waiting_for_everything_.push_back(std::move(done));
    return true;
  }
  client::Node* const key = node.get();
  const auto [it, inserted] = nodes_.try_emplace(key);
  Wish& wish = it->second;
  wish.data |= data;
  if (done) wish.waiting.push_back(std::move(done));
  if (!inserted) {
    ++numbers_.merged;
    return true;
  }
  wish.node = std::move(node);
  order_.push_back(key);
  if (nodes_.size() > max_nodes_) {
    everything_ = true;
    ++numbers_.floods;
    merged.swap(nodes_);
    order_.clear();
    everything_has_data_ = false;
    for (auto& [n, w] : merged) {
      everything_has_data_ |= w.data;
      waiting_for_everything_.insert(waiting_for_everything_.end(), w.waiting.begin(), w.waiting.end());
    }
  }
  wake_.notify_all();
  return true;
}

Task<> Invalidator::drop_data(NodeRef node) {
  auto done = std::make_shared<Completion<bool>>();
  if (!enqueue(std::move(node), true, done)) co_return;
  auto told = done->wait();
  co_await told;
}

void Invalidator::invalidate_entry(NodeRef directory, std::string name) {
  if (!directory || !inodes_.known(directory)) return;
  std::lock_guard lock(mutex_);
  if (!enabled_) return;
  if (!names_.emplace(std::move(directory), std::move(name)).second) ++numbers_.merged;
  wake_.notify_all();
}

void Invalidator::send_nodes() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || everything_ || !order_.empty(); });
    if (stop_) break;
    if (std::exchange(everything_, false)) {
      const auto waiting = std::exchange(waiting_for_everything_, {});
      const bool data = everything_has_data_;
      lock.unlock();
      send_everything(waiting, data);
    } else {
      const auto wish = nodes_.extract(order_.front());
      order_.pop_front();
      ++numbers_.sent;
      lock.unlock();
      send(wish.mapped());
    }
    lock.lock();
  }
  --running_;
}

void Invalidator::send_names() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !names_.empty(); });
    if (stop_) break;
    {
      const auto name = names_.extract(names_.begin());
      ++numbers_.sent;
      lock.unlock();
      send(name.value());
    }  // its reference goes without the lock
    lock.lock();
  }
  --running_;
}

void Invalidator::send(const Wish& wish) {
  check(fuse_lowlevel_notify_inval_inode(session_, inodes_.id(wish.node), wish.data ? 0 : -1, 0));
  tell(wish.waiting);
}

void Invalidator::tell(const std::vector<Done>& waiting) {
  for (const Done& done : waiting) done->set(true);
}

void Invalidator::send(const Name& name) {
  // Expired, a name is looked up before it is used again, and what is in use under it stays where it is:
  // getcwd(2) of a process below a dropped one fails. Before Linux 6.2 there is only dropping.
  const auto directory = inodes_.id(name.first);
  const std::string& text = name.second;
  const int expired =
      fuse_lowlevel_notify_expire_entry(session_, directory, text.c_str(), text.size(), FUSE_LL_EXPIRE_ONLY);
  check(expired == -ENOSYS ? fuse_lowlevel_notify_inval_entry(session_, directory, text.c_str(), text.size())
                           : expired);
}

void Invalidator::check(int result) {
  // ENOENT: not in the kernel's caches. ENODEV, ENOTCONN, EPERM: the mount is going.
  if (result == 0 || result == -ENOENT || result == -ENODEV || result == -ENOTCONN || result == -EPERM)
    return;
  log::debug("fuse: kernel cache invalidation: {}", strerrordesc_np(-result));
}

void Invalidator::send_everything(const std::vector<Done>& waiting, bool data) {
  for (NodeRef& node : inodes_.snapshot()) {
    {
      std::lock_guard lock(mutex_);
      if (stop_) break;
      ++numbers_.sent;
    }
    send(Wish{std::move(node), data, {}});
  }
  tell(waiting);
}

Invalidator::Numbers Invalidator::numbers() const {
  std::lock_guard lock(mutex_);
  return numbers_;
}

}  // namespace nfsrdma::fuse
