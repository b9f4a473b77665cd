// SPDX-License-Identifier: Apache-2.0
// StateMachine: a state that moves only along a declared table of transitions.
//
//   struct DoorStates {
//     enum class State : uint8_t { kOpen, kShut };
//     static constexpr const char* kName = "door";
//     static constexpr std::array kTransitions{Transition{State::kOpen, State::kShut}, ...};
//   };
//   StateMachine<DoorStates> door{DoorStates::State::kOpen};
//   door.enter(DoorStates::State::kShut);
//
// A transition that is not in the table is a defect of this program. It is logged as an internal error and
// still carried out, because ending a user's mount would lose more. In a unit test the log line ends the
// program (tests/unit/strict.cc). Entering the present state again is legal only if the table says so.
//
// One owner moves it, on one loop or under one lock; any thread may read it.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include "transport/runtime/log.h"

namespace nfsrdma {

template <class State>
struct Transition {
  State from, to;
  bool operator==(const Transition&) const = default;
};
// clang 14 deduces nothing for aggregates.
template <class State>
Transition(State, State) -> Transition<State>;

template <class Table>
class StateMachine {
 public:
  using State = typename Table::State;

  explicit StateMachine(State first) : state_(first) {}
  StateMachine(const StateMachine& other) : state_(other.get()) {}
  // Copies the state of another object. This is no transition, so the table is not consulted.
  StateMachine& operator=(const StateMachine& other) {
    state_.store(other.get(), std::memory_order_relaxed);
    return *this;
  }

  State get() const { return state_.load(std::memory_order_relaxed); }
  static constexpr bool may(State from, State to) {
    return std::ranges::find(Table::kTransitions, Transition<State>{from, to}) != Table::kTransitions.end();
  }
  void enter(State next) {
    const State from = get();
    if (!may(from, next))
      log::error("internal error: the {} went from state {} to state {}, which it must not", Table::kName,
                 static_cast<int>(from), static_cast<int>(next));
    state_.store(next, std::memory_order_relaxed);
  }

 private:
  std::atomic<State> state_;
};

}  // namespace nfsrdma
