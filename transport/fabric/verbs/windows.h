// SPDX-License-Identifier: Apache-2.0
// Windows: the type 2 memory windows of one endpoint, used again and again.
//
// A window's handle has 8 bits that change with each binding, so an old handle reaches nothing until the
// window has been bound 256 times more; the one that was free for longest is taken. Made when needed.
// Destroying them ends every access through them; that comes before the end of the queue pair they are bound
// to, and of the registrations under them.
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

  // Not bound. Errors: ENOBUFS, or what the device says.
  Result<ibv_mw*> take();
  // Not bound any more.
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
