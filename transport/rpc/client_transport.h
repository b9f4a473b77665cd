// SPDX-License-Identifier: Apache-2.0
// ClientTransport: the RpcTransport for every kind of connection. It keeps calls until they are answered, and
// makes a new connection when one is lost. Its Dialer knows the kind of connection.
//
// calls (client_calls.cc)           call(), replies, the back channel, fail_pending()
// life cycle (client_lifecycle.cc)  start(), attempts, loss, back-off, reconnect(), close(),
//                                  watch for a silent server
// security (client_security.cc)     sealing of calls, verification of replies
// tap (client_tap.cc)               what hooks.tap sees
//
// Resuming a waiter may run any code, also code that calls this object. So resume a waiter last, or check
// afterwards what is still true. close() waits at the gate for every coroutine, connection and handler.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/rpc/connection.h"
#include "transport/rpc/counters.h"
#include "transport/rpc/health.h"
#include "transport/rpc/pending_calls.h"
#include "transport/runtime/gate.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/state_machine.h"

namespace nfsrdma::rpc {

struct ClientTransportOptions {
  std::string host;      // for logs
  std::string protocol;  // while there is no connection: "tcp", "rdma"
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  std::chrono::milliseconds backoff_first{100};  // doubles up to backoff_max
  std::chrono::milliseconds backoff_max{10'000};
};

// The life of the connection.
//
//            start()            hook ok
//   kIdle --------> kConnecting ----> kHandshake ----> kReady       close() from anywhere: kClosed
//     ^   failed        ^   | failed      | failed        | lost
//     +-----------------+   v             v               v
//     (first attempt)   +---------- kBackoff <------------+
//
struct ConnectionStates {
  using State = TransportState;
  static constexpr const char* kName = "connection";
  static constexpr std::array kTransitions{
      Transition{State::kIdle, State::kConnecting},       // start()
      Transition{State::kConnecting, State::kHandshake},  // dialed
      Transition{State::kConnecting, State::kIdle},       // start() could not connect
      Transition{State::kConnecting, State::kBackoff},    // recover() could not connect
      Transition{State::kHandshake, State::kReady},       // the hook agreed, or there is none
      Transition{State::kHandshake, State::kBackoff},     // the hook refused, or the connection was lost
      Transition{State::kReady, State::kBackoff},         // lost
      Transition{State::kBackoff, State::kBackoff},       // recover() enters it again after a loss
      Transition{State::kBackoff, State::kConnecting},    // the delay is over
      Transition{State::kBackoff, State::kIdle},          // lost in start()'s handshake
      Transition{State::kIdle, State::kClosed},           // close(), from here on
      Transition{State::kConnecting, State::kClosed},    Transition{State::kHandshake, State::kClosed},
      Transition{State::kReady, State::kClosed},         Transition{State::kBackoff, State::kClosed},
      Transition{State::kClosed, State::kClosed},
  };
};

class ClientTransport final : public RpcTransport, private ConnectionOwner {
 public:
  // Calls of the server that are answered at the same time; the Linux client has the same limit.
  static constexpr size_t kMaxCallbacks = 32;

  ClientTransport(Loop& loop, std::unique_ptr<Dialer> dialer, ClientTransportOptions options,
                  TransportHooks hooks);
  ~ClientTransport() override;

  Loop& loop() override { return loop_; }
  Task<Result<>> start() override;
  Task<Outcome> call(Call& call) override;
  void fail_pending(const Error& error) override;
  void reconnect(const char* why) override;
  Task<> close() override;
  TransportStatus status() const override;
  uint32_t credits() const override { return dialer_->credits(); }

 private:
  // ConnectionOwner.
  void on_reply(Connection& connection, ReceivedReply reply) override;
  void on_refused(Connection& connection, PendingCall& call, Error why) override;
  void on_call(Connection& connection, uint32_t xid, ByteVector message) override;
  void on_bad_message(Connection& connection, const BadMessage& bad) override;
  void on_bytes_received() override { health_.bytes(Clock::now()); }
  void on_dropped(Connection& connection, Error why) override;

  Task<> answer(std::shared_ptr<Connection> connection, ByteVector message);
  void end_calls(const Error& error, const std::function<bool(const PendingCall&)>& which);
  // Ends calls that nobody waits for and that no connection has.
  void end_abandoned_calls();
  void send_if_possible(PendingCall& p);
  void send(PendingCall& p);
  void answered(PendingCall& p);

  // For calls with a CallSecurity (client_security.cc). False: the call or the reply must go no further.
  bool seal(PendingCall& p);
  bool verify(Connection& connection, PendingCall& p, ReceivedReply& received);

  // For the tap (client_tap.cc). It sees what is on the wire: calls sealed, replies before they are verified.
  bool tapped() const;
  void tap(bool sent, Connection& connection, ByteVector message) const;
  void tap_call(const PendingCall& p) const;
  void tap_reply(Connection& connection, const PendingCall& p, ReceivedReply& received) const;

  Task<Result<>> attempt();
  Task<Result<>> shake_hands(std::shared_ptr<Connection> connection);
  void ready();
  void begin_again(Error why);
  Task<> recover(Duration delay);
  Task<> watch();
  void start_watch();
  TransportState state() const { return state_.get(); }
  bool closed() const { return state() == TransportState::kClosed; }
  // What ends everything after close(). `op` is a static string.
  static Error closed_error(const char* op);
  void note_error(const Error& error);

  Loop& loop_;
  const ClientTransportOptions options_;
  const TransportHooks hooks_;
  Gate gate_;
  const std::unique_ptr<Dialer> dialer_;
  PendingCalls calls_;
  Counters counters_;
  Health health_;
  Backoff backoff_;
  Timer backoff_timer_;
  Timer watch_timer_;
  std::shared_ptr<Connection> connection_;  // in kHandshake and kReady; until on_dropped()
  Completion<bool>* gone_ = nullptr;        // somebody waits for on_dropped()
  bool watching_ = false;
  bool answered_ = false;  // a reply came on this connection after its handshake
  TimePoint ready_since_{};
  log::Throttle bad_messages_;
  log::Throttle losses_;

  // For status(), any thread.
  StateMachine<ConnectionStates> state_{TransportState::kIdle};
  std::atomic<size_t> pending_{0};
  std::atomic<bool> responding_{true};
  std::atomic<TimePoint::rep> stalled_since_{0};
  mutable Mutex text_mutex_;
  std::string protocol_ NFSRDMA_GUARDED_BY(text_mutex_);
  std::string tls_ NFSRDMA_GUARDED_BY(text_mutex_);
  std::string peer_ NFSRDMA_GUARDED_BY(text_mutex_);
  std::string local_ NFSRDMA_GUARDED_BY(text_mutex_);
  std::string last_error_ NFSRDMA_GUARDED_BY(text_mutex_);
};

}  // namespace nfsrdma::rpc
