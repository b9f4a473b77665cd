// SPDX-License-Identifier: Apache-2.0
// OpenFiles: the files of a mount that are in use: open, being opened, under a delegation, or with unwritten
// data. It keeps their Nodes alive.
//
// N is a Node with `file`, a shared_ptr<F> guarded by the Node's mutex. F is constructed from its Node and
// counts `pins`. The first pin() creates and registers the file; it goes when F::in_use() is false. Its lock
// has the rank kTable: it is taken before a Node's. Any loop.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "client/api/node.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

template <class N, class F>
class OpenFiles {
 public:
  // The file stays until unpin() was called and F::in_use() is false.
  std::shared_ptr<F> pin(N& node) {
    MutexLock lock(mutex_);
    MutexLock node_lock(node.mutex);
    if (!node.file) {
      node.file = std::make_shared<F>(node);
      files_.emplace(&node, NodeRef(&node));
    }
    ++node.file->pins;
    return node.file;
  }

  void unpin(N& node) {
    {
      MutexLock node_lock(node.mutex);
      --node.file->pins;
    }
    drop_if_unused(node);
  }

  void drop_if_unused(N& node) {
    NodeRef last;  // released after the locks
    std::shared_ptr<F> file;
    MutexLock lock(mutex_);
    MutexLock node_lock(node.mutex);
    if (!node.file || node.file->in_use()) return;
    file = std::move(node.file);
    const auto it = files_.find(&node);
    last = std::move(it->second);
    files_.erase(it);
  }

  // A snapshot.
  std::vector<NodeRef> all() const {
    MutexLock lock(mutex_);
    std::vector<NodeRef> nodes;
    nodes.reserve(files_.size());
    for (const auto& [node, reference] : files_) nodes.push_back(reference);
    return nodes;
  }

 private:
  mutable Mutex mutex_{LockRank::kTable};
  std::unordered_map<N*, NodeRef> files_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client
