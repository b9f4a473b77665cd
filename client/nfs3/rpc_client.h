// SPDX-License-Identifier: Apache-2.0
// RpcClient: calls of one RPC program; they survive lost connections. One per loop.
//
// A call stays pending until its reply arrives. After a loss all pending calls are sent again on the next
// connection, in their order and with the same XIDs. NFSv3 has no sessions: the server's duplicate request
// cache decides whether a call is executed twice (RFC 1813 section 4.5). Outcome::transmissions says how
// often it was sent.
//
// The "not responding" message, and the end of a silent connection, follow nfs(5)'s timeo and retrans, as for
// NFSv4.1 (transport/rpc/health.h). Loop thread only, unless noted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/api/options.h"
#include "client/nfs3/raw_connection.h"
#include "transport/rpc/health.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs3 {

class RpcClient {
 public:
  struct Hooks {
    // The server's address; called before every connection.
    std::function<Task<Result<net::Endpoint>>(Loop&)> find_server;
    // Connected again after a loss; called before any call is sent again. The server may have restarted.
    std::function<void()> on_reconnected;
  };
  RpcClient(Loop& loop, const client::ClientOptions& options, Hooks hooks);
  ~RpcClient();

  // Tries once. After the first success it reconnects by itself, without limit.
  Task<Result<>> start();
  // See RawCall. Errors: kPermanent if the server or the library rejected the call; kInterrupted after
  // close(), or if nobody waits for the call any more when it would be sent or sent again.
  struct Outcome {
    Result<> result;
    unsigned transmissions = 0;
    Duration response{};
  };
  Task<Outcome> call(const char* op, RawCall call);
  // Pending calls fail with kInterrupted. Completes when its coroutines have ended.
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
  std::map<uint32_t, Pending*> pending_;  // by serial number, so in order of creation
  std::map<RawCall*, Pending*> sent_;
  uint32_t next_serial_ = 0;
  uint32_t next_xid_;
  TimePoint ready_since_{};
  bool answered_ = false;  // the present connection brought a reply
  bool started_ = false;
  bool idle_ = false;  // no call is pending, and watch() sleeps
  bool reconnecting_ = false, watching_ = false;
  std::atomic<bool> closing_{false}, responding_{true};
  Mutex stop_mutex_;
  WaitQueue stopped_ NFSRDMA_GUARDED_BY(stop_mutex_);
  mutable Mutex status_mutex_;  // a leaf
  rpc::TransportStatus status_ NFSRDMA_GUARDED_BY(status_mutex_);
};

}  // namespace nfsrdma::client::nfs3
