// SPDX-License-Identifier: Apache-2.0
#include "client/core/nodes/kernel_view.h"

#include "client/core/nodes/cached_node.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

Task<> KernelView::drop_data(NodeRef node) const {
  if (front_end_ != nullptr) co_await front_end_->drop_data(std::move(node));
}

Task<> KernelView::drop_counted(NodeRef node) const {
  if (front_end_ != nullptr) co_await front_end_->drop_data(node);
  MutexLock lock(cached_node(node).mutex);
  cached_node(node).kernel.drop_ended();
}

}  // namespace nfsrdma::client
