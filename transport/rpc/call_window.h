// SPDX-License-Identifier: Apache-2.0
// CallWindow: the calls under way in one RPCSEC_GSS context. The others wait, in order.
//
// A server drops a call whose sequence number is below its window of seq_window numbers, without an answer
// (RFC 2203 section 5.3.3.1). So no more calls may be under way. Calls that others wait for (those of a
// handshake, the renewal of the lease) never wait: kReserve places are theirs.
//
// Owner: the context. Loop thread only. Whoever took a place leaves it when the call has ended; a call keeps
// it while it is sent again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "transport/runtime/loop.h"
#include "transport/runtime/sync.h"
#include "transport/runtime/task.h"

namespace nfsrdma::rpc {

class CallWindow {
 public:
  static constexpr uint32_t kReserve = 4;

  // `window`: the server's seq_window. At least one call may be under way.
  explicit CallWindow(uint32_t window) : most_(std::max(window, kReserve + 1) - kReserve) {}
  CallWindow(const CallWindow&) = delete;
  CallWindow& operator=(const CallWindow&) = delete;

  // Takes a place, when there is one.
  Task<> enter() {
    if (calls_ < most_) {
      ++calls_;
      co_return;
    }
    Completion<bool> turn;
    waiting_.push_back(&turn);
    (void)co_await turn.wait();  // leave() has handed over its place
  }
  // Takes a place at once.
  void enter_first() { ++calls_; }

  void leave() {
    if (calls_ > most_ || waiting_.empty()) {
      --calls_;
      return;
    }
    Completion<bool>* const next = waiting_.front();
    waiting_.pop_front();
    Loop::current()->post([next] { next->set(true); });
  }

  uint32_t most() const { return most_; }
  size_t waiting() const { return waiting_.size(); }

 private:
  const uint32_t most_;
  uint32_t calls_ = 0;
  std::deque<Completion<bool>*> waiting_;
};

}  // namespace nfsrdma::rpc
