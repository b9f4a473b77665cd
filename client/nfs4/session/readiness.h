// SPDX-License-Identifier: Apache-2.0
// Readiness: whether the session can be used, for coroutines of other loops that wait for it. Any loop.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/stop_flag.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/state_machine.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

struct ReadinessStates {
  enum class State : uint8_t {
    kNone,    // no session was made yet
    kReady,   // requests are sent
    kBroken,  // it is being recovered; requests wait
  };
  static constexpr const char* kName = "session";
  static constexpr std::array kTransitions{
      Transition{State::kNone, State::kReady},
      Transition{State::kReady, State::kBroken},
      Transition{State::kBroken, State::kReady},
      // Loop 0 recovered the session before the loop that found it broken reported that.
      Transition{State::kReady, State::kReady},
  };
};

class Readiness {
 public:
  using State = ReadinessStates::State;
  // `stopping` is raised before wake(); waiting then ends.
  explicit Readiness(const StopFlag& stopping) : stopping_(stopping) {}

  // The session of that generation (SlotTable) can be used from now on.
  void ready(uint64_t generation) {
    MutexLock lock(mutex_);
    state_.enter(State::kReady);
    generation_ = generation;
    waiters_.notify_all();
  }
  // The session of that generation cannot be used any more. Does nothing if another session was made
  // meanwhile.
  void broken(uint64_t generation) {
    MutexLock lock(mutex_);
    if (state_.get() == State::kReady && generation_ == generation) state_.enter(State::kBroken);
  }
  void wake() {
    MutexLock lock(mutex_);
    waiters_.notify_all();
  }
  // Waits for a session that can be used, and returns its generation. Returns nothing if the session is being
  // stopped.
  Task<std::optional<uint64_t>> wait() {
    for (;;) {
      MutexLock lock(mutex_);
      if (stopping_.raised()) co_return std::nullopt;
      if (state_.get() == State::kReady) co_return generation_;
      co_await waiters_.wait(lock);
    }
  }

 private:
  const StopFlag& stopping_;
  Mutex mutex_;
  WaitQueue waiters_ NFSRDMA_GUARDED_BY(mutex_);
  StateMachine<ReadinessStates> state_ NFSRDMA_GUARDED_BY(mutex_){State::kNone};
  uint64_t generation_ NFSRDMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace nfsrdma::client::nfs4
