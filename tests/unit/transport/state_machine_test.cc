// SPDX-License-Identifier: Apache-2.0
// StateMachine and NFSRDMA_CHECK: what is declared happens, and nothing else happens unseen.
#include "transport/runtime/state_machine.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "transport/rpc/client_transport.h"
#include "transport/runtime/check.h"

namespace nfsrdma::test {
namespace {

struct DoorStates {
  enum class State : uint8_t { kOpen, kShut, kLocked };
  static constexpr const char* kName = "door";
  static constexpr std::array kTransitions{Transition{State::kOpen, State::kShut},
                                           Transition{State::kShut, State::kOpen},
                                           Transition{State::kShut, State::kLocked}};
};
using Door = DoorStates::State;

TEST(StateMachine, DeclaredTransitions_AreTaken) {
  StateMachine<DoorStates> door{Door::kOpen};
  door.enter(Door::kShut);
  door.enter(Door::kLocked);
  EXPECT_EQ(door.get(), Door::kLocked);
}

TEST(StateMachineDeathTest, AnotherTransition_IsAnInternalError) {
  StateMachine<DoorStates> door{Door::kOpen};
  EXPECT_DEATH(door.enter(Door::kLocked), "internal error: the door went from state 0 to state 2");
  EXPECT_DEATH(door.enter(Door::kOpen), "internal error: the door went from state 0 to state 0");
}

TEST(StateMachineDeathTest, CheckThatDoesNotHold_EndsTheProgram) {
  NFSRDMA_CHECK(1 + 1 == 2);
  EXPECT_DEATH(NFSRDMA_CHECK(1 + 1 == 3), "internal error: 1 \\+ 1 == 3 does not hold");
}

// A closed transport stays closed, and close() is possible from everywhere.
TEST(ConnectionStates, Closed_IsTheEnd) {
  using Machine = StateMachine<rpc::ConnectionStates>;
  using State = rpc::TransportState;
  constexpr std::array all{State::kIdle,  State::kConnecting, State::kHandshake,
                           State::kReady, State::kBackoff,    State::kClosed};
  for (const State state : all) {
    EXPECT_TRUE(Machine::may(state, State::kClosed));
    EXPECT_EQ(Machine::may(State::kClosed, state), state == State::kClosed);
  }
}

}  // namespace
}  // namespace nfsrdma::test
