// SPDX-License-Identifier: Apache-2.0
// A fabric around another one. It records for every handle that it was opened once and closed once, and by
// which side. It can expose memory in several segments, close it later than requested (as hardware with
// memory windows does), and refuse to expose memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/fabric/fabric.h"

namespace nfsrdma::test {

// For all endpoints of a fabric. Any thread.
class HandleAccount {
 public:
  // Settings of a test; to be set before connections are made, or on the loop.
  std::atomic<size_t> segment_bytes{SIZE_MAX};  // maximum length of each segment
  std::atomic<bool> closes_later{false};
  std::atomic<size_t> exposes_left{SIZE_MAX};  // then expose() fails for lack of memory

  std::atomic<unsigned> receives{0};  // receives option of the last connection

  size_t open() const;
  size_t opened() const;
  size_t closed_by_peer() const;
  // Errors: a handle was closed twice, or was never open.
  std::vector<std::string> offences() const;

  void on_exposed(uint32_t handle);
  void on_closed(uint32_t handle, uint32_t remotely);
  void on_closed_by_peer(uint32_t handle);
  void on_ended(const std::vector<uint32_t>& handles);

 private:
  enum class State : uint8_t { kOpen, kClosedByPeer };
  mutable std::mutex mutex_;
  std::map<uint32_t, State> handles_;
  size_t opened_ = 0;
  size_t closed_by_peer_ = 0;
  std::vector<std::string> offences_;
};

std::unique_ptr<fabric::Fabric> make_watched_fabric(Loop& loop, std::unique_ptr<fabric::Fabric> inner,
                                                    std::shared_ptr<HandleAccount> account);

}  // namespace nfsrdma::test
