// SPDX-License-Identifier: Apache-2.0
// RpcClient: calls of one RPC program that survive lost connections. One per loop.
//
// A call stays pending until its reply is in: after a loss it is sent again on the next connection, same XID,
// in the order of making. NFSv3 has no sessions: whether the server executes it a second time is up to its
// duplicate request cache (RFC 1813 section 4.5); Outcome.transmissions tells.
//
// "Not responding" and giving up a silent connection follow nfs(5)'s timeo and retrans, as for NFSv4.1
// (transport/rpc/health.h). Loop thread only, unless said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/nfs3/raw_connection.h"
#include "client/options.h"
#include "transport/rpc/health.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/log.h"

namespace nfsrdma::nfs3 {

class RpcClient {
 public:
  struct Hooks {
    // Where the server is now, asked before every connection.
    std::function<Task<Result<tcp::Endpoint>>(Loop&)> find_server;
    // Connected again after a loss, before any call is sent again. The server may have restarted.
    std::function<void()> on_reconnected;
  };
  RpcClient(Loop& loop, const client::ClientOptions& options, Hooks hooks);
  ~RpcClient();

  // One attempt. After the first success it reconnects by itself, for ever.
  Task<Result<>> start();
  // `procedure`, `args`: of the library; see RawCall. Errors: kPermanent when the server or the library
  // refused the call, kInterrupted after close(), and when it was to be sent, or sent again, and nobody waits
  // for it any more.
  struct Outcome {
    Result<> result;
    unsigned transmissions = 0;
    Duration response{};
  };
  Task<Outcome> call(const char* op, RawCall call);
  // Pending calls fail with kInterrupted. Returns when nothing of it runs any more.
  Task<> close();

  Loop& loop() { return loop_; }
  bool closing() const { return closing_.load(std::memory_order_relaxed); }
  // Any thread.
  bool responding() const { return responding_.load(std::memory_order_relaxed); }
  TimePoint stalled_since() const;
  rpc::TransportStatus status() const;

 private:
  struct Pending;
  Task<Result<>> connect();
  void send(Pending& p);
  void ended(RawCall& call, RawEnd end, std::string text);
  void lost(const std::string& why);
  void finish(Pending& p, Result<> result);
  void end_abandoned();
  Task<> reconnect(Duration first_pause);
  Task<> watch();

  Loop& loop_;
  const client::ClientOptions& options_;
  const Hooks hooks_;
  rpc::Health health_;
  rpc::Backoff backoff_;
  log::Throttle losses_;
  Timer pause_, check_;
  std::shared_ptr<RawConnection> connection_;
  std::map<uint32_t, Pending*> pending_;  // by serial: in the order of making
  std::map<RawCall*, Pending*> sent_;
  uint32_t next_serial_ = 0;
  uint32_t next_xid_;
  TimePoint ready_since_{};
  bool answered_ = false;  // by the present connection
  bool started_ = false;
  bool idle_ = false;  // nothing is outstanding, and nobody looks
  bool reconnecting_ = false, watching_ = false;
  std::atomic<bool> closing_{false}, responding_{true};
  WaitQueue stopped_;
  std::mutex stop_mutex_;
  mutable std::mutex status_mutex_;  // a leaf
  rpc::TransportStatus status_;
};

}  // namespace nfsrdma::nfs3
