// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/windows.h"

#include <cerrno>

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {

Result<ibv_mw*> Windows::take() {
  if (!free_.empty()) {
    ibv_mw* window = free_.front();
    free_.pop_front();
    return window;
  }
  if (all_.size() >= kMost) return fail(rdma_error(ENOBUFS, "expose", "no memory window is free"));
  ibv_mw* window = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  if (window == nullptr) return fail(rdma_error(errno, "expose", "no memory window is to be had"));
  all_.push_back(window);
  return window;
}

void Windows::clear() {
  for (ibv_mw* window : all_) ibv_dealloc_mw(window);
  all_.clear();
  free_.clear();
}

}  // namespace nfsrdma::fabric::verbs
