// SPDX-License-Identifier: Apache-2.0
// Exposures: what of this side's memory is open to the peer of one endpoint, and how it is fenced.
//
// With memory windows: memory is registered without rights for others, and a window is bound for each
// exposure by a work request, and invalidated by the peer's Send With Invalidate or by a work request of
// ours. Without: memory is registered for each exposure with the one right it needs, and deregistered to
// close it, which is done when it returns. What asks for work requests is the endpoint; here is the table.
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
    // To be bound, over memory that is registered as `under`, before the peer hears of the segment; or null.
    ibv_mw* window = nullptr;
    ibv_mr* under = nullptr;
  };
  // `memory` is not empty, and no longer than one registration. Errors: ENOMEM, ENOBUFS...
  Result<Opened> open(MutableBytes memory, Access access);

  // The peer has invalidated this handle. False: it is none that could be.
  bool closed_by_peer(uint32_t handle);

  enum class Closing : uint8_t {
    kUnknown,  // not open
    kDone,
    kAsked,  // a work request has to invalidate it, and then closed()
  };
  Closing close(uint32_t handle);
  void closed(uint32_t handle);

  // Everything at once: after this nothing is reachable through a window. Before the queue pair goes.
  void fence() { windows_.clear(); }
  // The registrations. After the queue pair is gone.
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
