// SPDX-License-Identifier: Apache-2.0
// Windows: the type 2 memory windows of one endpoint, which are reused.
//
// 8 bits of a window's handle change with each binding, so an old handle reaches nothing until the window has
// been bound 256 more times. take() returns the window that was free for longest, and makes a new one if none
// is free. Destroying windows ends every access through them. They are destroyed before the queue pair to
// which they are bound, and before the registrations under them.
#pragma once

#include <infiniband/verbs.h>

#include <deque>
#include <memory>
#include <vector>

#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

class Windows {
 public:
  static constexpr size_t kMost = 4096;

  explicit Windows(ibv_pd* pd) : pd_(pd) {}
  ~Windows() { clear(); }
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  // Returns a window that is not bound. Errors: ENOBUFS, or the device's error.
  Result<ibv_mw*> take();
  // The window must not be bound any more.
  void give_back(ibv_mw* window) { free_.push_back(window); }
  void clear();

  size_t size() const { return all_.size(); }
  size_t free() const { return free_.size(); }

 private:
  ibv_pd* const pd_;
  std::vector<ibv_mw*> all_;
  std::deque<ibv_mw*> free_;
};

}  // namespace nfsrdma::fabric::verbs
