// SPDX-License-Identifier: Apache-2.0
// RawConnection: one TCP connection of libnfs's raw asynchronous API, driven by a Loop.
//
// libnfs encodes and decodes, queues and matches replies to calls; it is told by us when its socket can be
// read or written (rpc_service) and never waits. It is given one connection only: its own reconnecting stays
// off, and its end is the end of the library's context. Copies are the library's: a call's arguments, WRITE
// data included, are copied into its message, and a reply's data lies in its receive buffer until the
// callback returns.
//
// Owner: shared by who uses it and by the handlers of its socket. Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/nfs3/decoder_guards.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/sync.h"
#include "transport/tcp/endpoint.h"
#include "xdr/support/result.h"

struct rpc_context;

namespace nfsrdma::nfs3 {

// The library's callback for every call.
using RawCallback = void (*)(rpc_context* rpc, int status, void* data, void* tag);

// A call: lives until it has ended, in the frame of the coroutine that makes it.
struct RawCall {
  // Hands the call to the library (one of its rpc_..._async functions); not 0: it could not take it.
  int (*issue)(rpc_context* rpc, RawCallback callback, void* args, void* tag) = nullptr;
  void* args = nullptr;
  // Copies what is wanted of the library's result, which is gone when this returns. May refuse it.
  Result<> (*take)(const void* result, void* into) = nullptr;
  void* into = nullptr;
  rpc::CredentialPtr credential;
  uint32_t xid = 0;
  // Set: nobody waits for it any more. Outlives the call; null: never.
  const std::atomic<bool>* abandoned = nullptr;
  bool is_abandoned() const { return abandoned != nullptr && abandoned->load(std::memory_order_acquire); }
};

enum class RawEnd : uint8_t {
  kAnswered,  // take() has been called
  kRefused,   // the server answered with an RPC error, or with what cannot be decoded
  kLost,      // the connection went first
};

class RawConnection : public std::enable_shared_from_this<RawConnection> {
 public:
  struct Hooks {
    // A call has ended; not called from within send(). Last: `call` may be gone when it returns.
    std::function<void(RawCall& call, RawEnd end, std::string text)> on_end;
    // The connection is lost; every call has ended. Never inside connect() or close().
    std::function<void(std::string why)> on_lost;
  };
  RawConnection(Loop& loop, Hooks hooks);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  // Once. Layer::kTransport, kReconnect with the errno that the library tells in words. As root the library
  // binds a port below 1024 by itself.
  Task<Result<>> connect(tcp::Endpoint server, Duration limit);
  // Calls leave in the order of these.
  void send(RawCall& call);
  // Calls under way end with kLost; nothing is called afterwards.
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
  // False when there is no memory for it.
  bool set_credential(const rpc::CredentialPtr& credential);
  void watch_reads();
  void watch_writes();
  // rpc_service(), and what has ended in it is told.
  void service(int events);
  int call_library(int events);
  void deliver();
  // Hands what is queued to the socket.
  void flush();
  // Ends the library's context; its calls come back as lost.
  void destroy();
  void lost(std::string why);

  Loop& loop_;
  Hooks hooks_;
  rpc_context* rpc_ = nullptr;
  asio::posix::stream_descriptor descriptor_;
  std::unique_ptr<Completion<Result<>>> connecting_;
  rpc::CredentialPtr credential_;  // that the library has
  std::string local_;
  std::vector<Ended> ended_;
  KeptFragments fragments_;  // of the record that is coming in
  bool in_library_ = false;  // its functions are on the stack
  bool delivering_ = false;
  bool connected_ = false;
  bool writing_ = false;  // the wait for the socket to be writable is under way
  bool going_ = false;    // destroy() is at work: what the library calls an error is a lost call
};

}  // namespace nfsrdma::nfs3
