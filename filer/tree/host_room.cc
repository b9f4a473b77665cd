// SPDX-License-Identifier: Apache-2.0
// HostStore: which objects keep a node and open descriptors, and when they lose them.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "filer/tree/host_store.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

constexpr unsigned kLookedAt = 16;
// forget_removed() visits all nodes within this many calls.
constexpr size_t kRounds = 60;
constexpr size_t kFewestBuckets = 64;

// Uses only what the host has cached (AT_STATX_DONT_SYNC).
bool has_no_name(int fd) {
  struct statx facts {};
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &facts) == 0 && facts.stx_nlink == 0;
}

}  // namespace

void HostStore::use(HostNode& node) {
  order_.splice(order_.end(), node.put_away ? put_away_ : order_, node.used);
  node.put_away = false;
}

// Objects without references are forgotten, the oldest first. Open or delegated files keep their node, but
// lose their descriptors until the next use. Each call looks at a few nodes only, so its cost does not grow
// with their number.
void HostStore::make_room() {
  const auto unused = [](const HostNodePtr& node) { return node.use_count() == 2 && node->holds == 0; };
  for (unsigned looked = 0; order_.size() >= most_nodes_ && looked < kLookedAt; ++looked) {
    const HostNodePtr node = nodes_.find(order_.front())->second;
    if (unused(node)) {
      forget(*node);
    } else if (can_be_opened_again(*node)) {
      put_away(*node);
    } else {
      set_pinned(*node, node->holds > 0);
      use(*node);
    }
  }
  for (unsigned looked = 0; !put_away_.empty() && looked < 2; ++looked) {
    const HostNodePtr node = nodes_.find(put_away_.front())->second;
    put_away_.splice(put_away_.end(), put_away_, node->used);
    if (unused(node)) forget(*node);
  }
}

// False for objects that are not regular files, for files without a name or at an unknown place, and for
// files that only the descriptor of their creation may read or write.
bool HostStore::can_be_opened_again(const HostNode& node) {
  struct statx facts {};
  if (node.type != NF4REG || node.links == 0) return false;
  if (!stat_of(node.path.get(), facts) || facts.stx_nlink == 0) return false;
  const auto owner_may = [&](unsigned what) { return !fs_.everybody || (facts.stx_mode & what) != 0; };
  return owner_may(S_IRUSR) && (!node.writer || owner_may(S_IWUSR)) && locator_.knows_way(node.identity);
}

void HostStore::set_pinned(HostNode& node, bool pinned) {
  if (node.pinned != pinned) pins_moved_.push_back(node.id);
  node.pinned = pinned;
}

HostStore::Crowd HostStore::crowd() {
  if (order_.size() > most_nodes_) make_room();
  return {order_.size(), 2 * most_nodes_};
}

// Writes unstable data to disk before `writer` is closed. `writer` may be the last descriptor that reports a
// write error.
void HostStore::write_out(HostNode& node) {
  if (!node.unstable) return;
  if (fsync(node.writer.get()) != 0) note_loss();
  node.unstable = false;
}

void HostStore::put_away(HostNode& node) {
  write_out(node);
  for (Fd* fd : {&node.path, &node.reader, &node.writer}) fd->reset();
  node.put_away = true;
  set_pinned(node, false);
  put_away_.splice(put_away_.end(), order_, node.used);
}

void HostStore::forget(HostNode& node) {
  if (node.forgotten) return;
  node.forgotten = true;
  (node.put_away ? put_away_ : order_).erase(node.used);
  if (node.links == 0) {
    locator_.lost(node.fileid);
    // A state may still refer to the node, for example a revoked one. Without descriptors it takes no disk
    // space.
    for (Fd* fd : {&node.path, &node.reader, &node.writer}) fd->reset();
  } else {
    write_out(node);
  }
  nodes_.erase(node.identity);  // the caller may hold the last reference
}

Answer<int> HostStore::path_of(HostNode& node) {
  if (!node.path) {
    if (node.forgotten) return refuse(NFS4ERR_STALE);
    make_room();
    Answer<Fd> fd = locator_.open(node.identity);
    if (!fd) return refuse(fd.error());
    node.path = *std::move(fd);
  }
  // Marked as used, so that it is not the next to be closed.
  if (!node.forgotten) use(node);
  return node.path.get();
}

// The host refuses to execute a file that is open for writing (ETXTBSY).
void HostStore::close_data(HostNode& node) {
  if (node.holds != 0 || node.unstable) return;
  node.reader.reset();
  node.writer.reset();
}

void HostStore::release(Node& node) {
  HostNode& own = of_host(node);
  if (own.holds > 0) --own.holds;
  if (own.holds == 0) own.pinned = false;  // no state is counted for it any more
  // A node without descriptors still had a name when they were closed; a REMOVE through this server would
  // have opened it again.
  if (own.holds > 0 || own.forgotten || own.put_away) return;
  look(own, Seen::kLooking);
  close_data(own);
}

// A restart of the server does not lose what the host's kernel has in memory.
void HostStore::crash(bool) {
  for (const auto& [identity, node] : nodes_) {
    node->holds = 0;
    node->pinned = false;
  }
}

void HostStore::forget_unlinked() {
  std::vector<HostNodePtr> gone;
  for (const auto& [identity, node] : nodes_) {
    if (node->links == 0 && node->holds == 0) gone.push_back(node);
  }
  for (const HostNodePtr& node : gone) forget(*node);
}

void HostStore::forget_removed() {
  std::vector<HostNodePtr> gone;
  const size_t buckets = nodes_.bucket_count();
  for (size_t n = std::min(buckets, std::max(buckets / kRounds, kFewestBuckets)); n > 0; --n) {
    next_bucket_ = (next_bucket_ + 1) % buckets;
    for (auto at = nodes_.cbegin(next_bucket_); at != nodes_.cend(next_bucket_); ++at) {
      const HostNodePtr& node = at->second;
      if (node->path && node->holds == 0 && has_no_name(node->path.get())) gone.push_back(node);
    }
  }
  for (const HostNodePtr& node : gone) {
    node->links = 0;
    forget(*node);
  }
}

}  // namespace nfsrdma::filer::tree
