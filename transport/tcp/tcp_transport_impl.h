// TcpTransport: the parts put together (see tcp_transport.h for what it does).
//
// calls (tcp_calls.cc)           call(), replies, the back channel, fail_pending()
// life cycle (tcp_lifecycle.cc)  start(), attempts, loss, back-off, reconnect(), close(), the watch over
// silence
//
//            start()            hook ok
//   kIdle --------> kConnecting ----> kHandshake ----> kReady       close() from anywhere: kClosed
//     ^   failed        ^   | failed      | failed        | lost
//     +-----------------+   v             v               v
//     (first attempt)   +---------- kBackoff <------------+
//
// Resuming a waiter may run any code, also code that calls back here: whoever resumes does it last, or checks
// afterwards what still holds. close() waits at the gate for every coroutine, connection and handler.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "transport/runtime/gate.h"
#include "transport/runtime/log.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/connector.h"
#include "transport/tcp/counters.h"
#include "transport/tcp/health.h"
#include "transport/tcp/pending_calls.h"
#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::tcp {

class TcpTransport final : public rpc::RpcTransport, private ConnectionOwner {
 public:
  // Calls of the server answered at once; the Linux client draws the line there as well.
  static constexpr size_t kMaxCallbacks = 32;

  TcpTransport(Loop& loop, TcpOptions options, rpc::TransportHooks hooks);
  ~TcpTransport() override;

  Loop& loop() override { return loop_; }
  Task<Result<>> start() override;
  Task<rpc::Outcome> call(rpc::Call call) override;
  void fail_pending(const Error& error) override;
  void reconnect(const char* why) override;
  Task<> close() override;
  rpc::TransportStatus status() const override;

 private:
  // ConnectionOwner.
  void on_reply(Connection& connection, RecordReader::Message message) override;
  void on_call(Connection& connection, RecordReader::Message message) override;
  void on_bad_message(Connection& connection, const char* violation) override;
  void on_bytes_received() override { health_.bytes(Clock::now()); }
  void on_dropped(Connection& connection, Error why) override;

  Task<> answer(std::shared_ptr<Connection> connection, ByteVector message);
  void end_calls(const Error& error, bool handshake, bool others);
  void send_if_possible(PendingCall& p);

  Task<Result<>> attempt();
  void ready();
  Task<> recover(Duration delay);
  Task<> watch();
  void start_watch();
  void set_state(rpc::TransportState state);
  rpc::TransportState state() const { return state_.load(std::memory_order_relaxed); }
  bool closed() const { return state() == rpc::TransportState::kClosed; }
  void note_error(const Error& error);

  Loop& loop_;
  const TcpOptions options_;
  const rpc::TransportHooks hooks_;
  Gate gate_;
  Connector connector_;
  PendingCalls calls_;
  Counters counters_;
  Health health_;
  Backoff backoff_;
  Timer backoff_timer_;
  Timer watch_timer_;
  std::shared_ptr<Connection> connection_;  // kHandshake, kReady
  bool watching_ = false;
  bool answered_ = false;  // the present connection brought a reply after its handshake
  TimePoint ready_since_{};
  log::Throttle bad_messages_;
  log::Throttle losses_;

  // For status(), any thread.
  std::atomic<rpc::TransportState> state_{rpc::TransportState::kIdle};
  std::atomic<size_t> pending_{0};
  std::atomic<bool> responding_{true};
  std::atomic<TimePoint::rep> stalled_since_{0};
  mutable std::mutex text_mutex_;
  std::string peer_;
  std::string local_;
  std::string last_error_;
};

}  // namespace nfsrdma::tcp
