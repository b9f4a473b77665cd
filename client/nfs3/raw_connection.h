// SPDX-License-Identifier: Apache-2.0
// RawConnection: one TCP connection of libnfs's raw asynchronous API, driven by a Loop.
//
// libnfs encodes and decodes messages, queues calls and matches replies. We tell it when its socket is
// readable or writable (rpc_service), and it never waits. An object has one connection: the library's own
// reconnect is off, and the end of the connection ends the library's context. The library copies a call's
// arguments, WRITE data included, into its message. A reply's data stays in the library's receive buffer
// until the callback returns.
//
// Owned jointly by its users and by its socket's handlers. Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/nfs3/decoder_guards.h"
#include "transport/net/endpoint.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/sync.h"
#include "xdr/support/result.h"

struct rpc_context;

namespace nfsrdma::client::nfs3 {

// The time limit of connect(), for every service.
inline constexpr Duration kConnectLimit = std::chrono::seconds(10);

// The library calls this at the end of every call.
using RawCallback = void (*)(rpc_context* rpc, int status, void* data, void* tag);

// A call. It is in the frame of the coroutine that makes it, and must live until it ends.
struct RawCall {
  // Gives the call to the library (one of its rpc_..._async functions). Returns nonzero if the library did
  // not take it.
  int (*issue)(rpc_context* rpc, RawCallback callback, void* args, void* tag) = nullptr;
  void* args = nullptr;
  // Copies the needed parts of the library's result, which is invalid after the callback. May return an
  // error. Null: the result has no content.
  Result<> (*take)(const void* result, void* into) = nullptr;
  void* into = nullptr;
  rpc::CredentialPtr credential;
  uint32_t xid = 0;
  // True: nobody waits for the call any more. Outlives the call; null: never.
  const std::atomic<bool>* abandoned = nullptr;
  bool is_abandoned() const { return abandoned != nullptr && abandoned->load(std::memory_order_acquire); }
};

enum class RawEnd : uint8_t {
  kAnswered,  // take() was called
  kRefused,   // an RPC error, or a reply that cannot be decoded
  kLost,      // the connection was lost first
};

class RawConnection : public std::enable_shared_from_this<RawConnection> {
 public:
  struct Hooks {
    // A call ended. Never called within send(). `call` may be destroyed when this returns.
    std::function<void(RawCall& call, RawEnd end, std::string text)> on_end;
    // The connection is lost; every call has ended. Never called within connect() or close().
    std::function<void(std::string why)> on_lost;
  };
  RawConnection(Loop& loop, Hooks hooks);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Call once. Errors: Layer::kTransport, kReconnect, with the errno from the library's error text. If the
  // process is root, the library itself binds a port below 1024.
  Task<Result<>> connect(net::Endpoint server, Duration limit);
  // RPC calls go out in the order of the calls of send().
  void send(RawCall& call);
  // Pending calls end with kLost; no hook is called afterwards.
  void close(const char* why);
  bool connected() const { return connected_; }
  const std::string& local() const { return local_; }

 private:
  struct Ended {
    RawCall* call;
    RawEnd end;
    std::string text;
  };
  static void on_connect(rpc_context* rpc, int status, void* data, void* tag);
  static void on_reply(rpc_context* rpc, int status, void* data, void* tag);
  void end_connecting(Result<> done);
  // Returns false if there is no memory.
  bool set_credential(const rpc::CredentialPtr& credential);
  void watch_reads();
  void watch_writes();
  // Calls rpc_service() and delivers the calls that ended in it.
  void service(int events);
  int call_library(int events);
  void deliver();
  // Writes queued calls to the socket.
  void flush();
  // Destroys the library's context. Its calls end as lost.
  void destroy();
  void lost(std::string why);

  Loop& loop_;
  Hooks hooks_;
  rpc_context* rpc_ = nullptr;
  asio::posix::stream_descriptor descriptor_;
  std::unique_ptr<Completion<Result<>>> connecting_;
  rpc::CredentialPtr credential_;  // the library's current one
  std::string local_;
  std::vector<Ended> ended_;
  KeptFragments fragments_;  // of the record being received
  bool in_library_ = false;  // a library function is on the stack
  bool delivering_ = false;
  bool connected_ = false;
  bool writing_ = false;  // waiting for the socket to be writable
  bool going_ = false;    // in destroy(): the library's errors mean lost calls
};

}  // namespace nfsrdma::client::nfs3
