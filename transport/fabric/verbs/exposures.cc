// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/exposures.h"

namespace nfsrdma::fabric::verbs {
namespace {

rpcrdma::segment segment_of(uint32_t handle, MutableBytes memory) {
  return {handle, static_cast<uint32_t>(memory.size()), reinterpret_cast<uintptr_t>(memory.data())};
}

}  // namespace

Result<Exposures::Opened> Exposures::open(MutableBytes memory, Access access) {
  return with_windows_ ? open_window(memory) : open_registration(memory, access);
}

Result<Exposures::Opened> Exposures::open_window(MutableBytes memory) {
  Result<Registration> registered = domain_.share(memory);
  if (!registered) return fail(std::move(registered).error());
  Result<ibv_mw*> window = windows_.take();
  if (!window) return fail(std::move(window).error());
  const uint32_t handle = ibv_inc_rkey((*window)->rkey);
  Exposure& e = open_[handle];
  e.window = *window;
  e.registration = std::move(*registered);
  return Opened{segment_of(handle, memory), *window, e.registration.mr()};
}

Result<Exposures::Opened> Exposures::open_registration(MutableBytes memory, Access access) {
  Result<Registration> registered = domain_.own(memory, IBV_ACCESS_LOCAL_WRITE | right_of(access));
  if (!registered) return fail(std::move(registered).error());
  const uint32_t handle = registered->mr()->rkey;
  open_[handle].registration = std::move(*registered);
  return Opened{segment_of(handle, memory), nullptr, nullptr};
}

bool Exposures::closed_by_peer(uint32_t handle) {
  const auto at = open_.find(handle);
  if (at == open_.end() || at->second.window == nullptr) return false;
  at->second.closed_by_peer = true;
  return true;
}

Exposures::Closing Exposures::close(uint32_t handle) {
  const auto at = open_.find(handle);
  if (at == open_.end() || at->second.closing) return Closing::kUnknown;
  if (at->second.window != nullptr && !at->second.closed_by_peer) {
    at->second.closing = true;
    return Closing::kAsked;
  }
  closed(handle);
  return Closing::kDone;
}

void Exposures::closed(uint32_t handle) {
  const auto at = open_.find(handle);
  if (at == open_.end()) return;
  if (at->second.window != nullptr) windows_.give_back(at->second.window);
  open_.erase(at);
}

}  // namespace nfsrdma::fabric::verbs
