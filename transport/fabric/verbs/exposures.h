// SPDX-License-Identifier: Apache-2.0
// Exposures: the memory of this side that is open to the peer of one endpoint, and how it is fenced.
//
// With memory windows: memory is registered without remote rights. For each exposure a work request binds a
// window. The peer's Send With Invalidate, or a work request of ours, invalidates it. Without memory windows:
// memory is registered for each exposure with the one right it needs, and deregistered to close it, which is
// complete when the call returns. The endpoint posts the work requests; this class is the table.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "transport/fabric/fabric.h"
#include "transport/fabric/verbs/domain.h"
#include "transport/fabric/verbs/windows.h"

namespace nfsrdma::fabric::verbs {

// IBV_ACCESS_*.
inline int right_of(Access access) {
  return access == Access::kRemoteRead ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

class Exposures {
 public:
  Exposures(Domain& domain, bool with_windows)
      : domain_(domain), with_windows_(with_windows), windows_(domain.pd()) {}
  size_t size() const { return open_.size(); }
  bool is_open(uint32_t handle) const { return open_.contains(handle); }

  struct Opened {
    rpcrdma::segment segment;
    // The window to bind, over memory registered as `under`, before the peer hears of the segment; or null.
    ibv_mw* window = nullptr;
    ibv_mr* under = nullptr;
  };
  // `memory` is not empty and not longer than one registration may be. Errors: ENOMEM, ENOBUFS...
  Result<Opened> open(MutableBytes memory, Access access);

  // The peer has invalidated this handle. False: the peer could not invalidate it (not open, or no window).
  bool closed_by_peer(uint32_t handle);

  enum class Closing : uint8_t {
    kUnknown,  // not open
    kDone,
    kAsked,  // a work request must invalidate it; then call closed()
  };
  Closing close(uint32_t handle);
  void closed(uint32_t handle);

  // Closes everything at once: afterwards nothing is reachable through a window. Called before the queue pair
  // is destroyed.
  void fence() { windows_.clear(); }
  // Releases the registrations. Called after the queue pair is destroyed.
  void clear() { open_.clear(); }

 private:
  struct Exposure {
    Registration registration;
    ibv_mw* window = nullptr;
    bool closed_by_peer = false;
    bool closing = false;
  };
  Result<Opened> open_window(MutableBytes memory);
  Result<Opened> open_registration(MutableBytes memory, Access access);

  Domain& domain_;
  const bool with_windows_;
  Windows windows_;
  std::unordered_map<uint32_t, Exposure> open_;
};

}  // namespace nfsrdma::fabric::verbs
