// SPDX-License-Identifier: Apache-2.0
// Registration: our client ID and our session at the server, the requests that make and end them, and what is
// to be done about our state before the session is used (RFC 8881 sections 2.4, 8.4.2, 18.34
// to 18.37, 18.50).
//
// Owned by the Session. Runs on loop 0. Whatever makes or ends the client ID or the session runs with the
// Session's recovery_mutex_ held. bind() runs on the transport's loop; id() and epoch() on any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "client/api/options.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/lease.h"
#include "client/nfs4/session/request_sender.h"
#include "client/nfs4/session/server_identity.h"
#include "client/nfs4/session/stop_flag.h"
#include "transport/runtime/state_machine.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

struct RegistrationStates {
  enum class State : uint8_t {
    kNone,       // no client ID, or the server refused one that was not confirmed
    kNew,        // EXCHANGE_ID gave a client ID; a session will confirm it (section 18.35.3)
    kConfirmed,  // the client ID has no session
    kSession,
    kDoubted,    // the server refused a confirmed client ID; EXCHANGE_ID says whether it knows it
    kDestroyed,  // DESTROY_CLIENTID was answered
    kAbandoned,  // it was not answered
  };
  static constexpr const char* kName = "client ID";
  static constexpr std::array kTransitions{
      Transition{State::kNone, State::kNew},          Transition{State::kNew, State::kSession},
      Transition{State::kNew, State::kNone},          Transition{State::kConfirmed, State::kSession},
      Transition{State::kConfirmed, State::kDoubted}, Transition{State::kSession, State::kConfirmed},
      Transition{State::kDoubted, State::kNew},       Transition{State::kDoubted, State::kConfirmed},
      Transition{State::kNew, State::kDestroyed},     Transition{State::kConfirmed, State::kDestroyed},
      Transition{State::kNew, State::kAbandoned},     Transition{State::kConfirmed, State::kAbandoned},
  };
};

// What is to be done about our state before the session is used.
enum class Owed : uint8_t {
  kNothing,
  kReclaim,  // the server may have lost it: reclaim (in epoch 1 there is nothing), then RECLAIM_COMPLETE
  kLoss,     // the server is another one (section 8.4.2.1): all is lost, then RECLAIM_COMPLETE
};

class Registration {
 public:
  using State = RegistrationStates::State;

  // The references outlive the object.
  Registration(RequestSender& sender, ServerIdentity& identity, Lease& lease, const ClientOptions& options);

  // Makes a session, and before it a client ID if there is none or the server refuses the present one. Ends
  // the previous session. `stopping` outlives the call. Errors: the transport's, the server's, and kPermanent
  // for an answer that cannot be used.
  Task<Result<nfs4::CREATE_SESSION4resok>> make_session(const StopFlag& stopping);
  // `patient`: if the connection is lost, continues over the next one. If not `patient`, a lost connection is
  // an error, and the session must still be destroyed later: a server does not destroy a client ID that has a
  // session.
  Task<Result<>> destroy_session(bool patient);
  // Ends session and client ID, over as many connections as it takes.
  Task<> destroy_all();
  // BIND_CONN_TO_SESSION over transport `index`, on that transport's loop. Returns whether the connection has
  // the back channel, too. Returns nothing if the server does not support the operation: such a server binds
  // by SEQUENCE (section 2.10.3.1: SP4_NONE).
  Task<Result<std::optional<bool>>> bind(unsigned index);

  // The server has a client ID of ours, as far as we know.
  bool exists() const;
  State state() const { return state_.get(); }
  const nfs4::sessionid4& session() const { return session_; }  // the last one made
  nfs4::clientid4 id() const { return id_.load(std::memory_order_acquire); }
  // Counts the client IDs established so far, and the restarts after which the client ID stayed valid. The
  // server has no state of an earlier epoch.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  Owed owed() const { return owed_; }
  // The server has lost our state: a new epoch begins. Call it also if the server kept the session.
  void state_lost();
  // RECLAIM_COMPLETE was answered.
  void reclaimed();

 private:
  Task<Result<>> exchange_id();
  Task<Result<nfs4::CREATE_SESSION4resok>> create_session();

  RequestSender& sender_;
  ServerIdentity& identity_;
  Lease& lease_;
  const ClientOptions& options_;
  const nfs4::verifier4 boot_verifier_;
  StateMachine<RegistrationStates> state_{State::kNone};
  Owed owed_ = Owed::kNothing;
  nfs4::sequenceid4 create_sequence_ = 0;
  nfs4::sessionid4 session_{};
  std::atomic<nfs4::clientid4> id_{0};
  std::atomic<uint64_t> epoch_{0};
};

}  // namespace nfsrdma::client::nfs4
