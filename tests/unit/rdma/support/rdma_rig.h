// SPDX-License-Identifier: Apache-2.0
// RPC-over-RDMA between two ends in one process, over software RDMA by default. The client's end is the real
// transport. The server's end is a Responder for which a test gives the answers, or a bare endpoint whose
// messages a test writes byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tests/unit/fabric/support/fabric_pair.h"
#include "tests/unit/rdma/support/watched_fabric.h"
#include "tests/unit/transport/support/rpc_bytes.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/rdma/endpoint_options.h"
#include "transport/rdma/rdma_transport.h"
#include "transport/rdma/responder.h"

namespace nfsrdma::test {

// What both ends are made with.
struct Wires {
  MakeFabric make = [](Loop& loop) { return fabric::iwarp::make_fabric(loop); };
  std::string address = "127.0.0.1";
  BufferPool* pool = nullptr;  // the client's, if the fabric has it registered; null: its own
};

// Listens, and passes on every endpoint, on the loop.
class Acceptor {
 public:
  using OnEndpoint = std::function<void(std::unique_ptr<fabric::Endpoint>)>;
  Acceptor(Loop& loop, fabric::EndpointOptions options, OnEndpoint on_endpoint, const Wires& wires = {});
  ~Acceptor();
  uint16_t port() const { return port_; }

 private:
  Task<> accept(std::unique_ptr<fabric::Incoming> incoming);
  Loop& loop_;
  const fabric::EndpointOptions options_;
  const OnEndpoint on_endpoint_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<fabric::Listener> listener_;
  uint16_t port_ = 0;
};

fabric::EndpointOptions server_endpoint(rpcrdma::private_data ours);

// A server with one Responder for each connection; `answer` is called on the loop for each received message.
class TestServer {
 public:
  struct Connection final : rdma::ResponderEvents {
    TestServer* server = nullptr;
    std::unique_ptr<rdma::Responder> responder;
    bool closed = false;
    std::string reason;  // why it was closed
    void on_message(ByteVector message) override;
    void on_closed(const Error& why) override;
  };
  using Answer = std::function<void(Connection&, ByteVector)>;

  TestServer(Loop& loop, rdma::ResponderOptions options, Answer answer, const Wires& wires = {});
  ~TestServer();
  uint16_t port() const { return acceptor_->port(); }
  // Use on the loop only. All connections so far, the latest last.
  std::vector<std::unique_ptr<Connection>>& connections() { return connections_; }

 private:
  Loop& loop_;
  const rdma::ResponderOptions options_;
  const Answer answer_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

// A server whose messages a test writes byte by byte. Connections are counted from 0.
class RawServer {
 public:
  RawServer(Loop& loop, rpcrdma::private_data ours = {true, 4096, 4096});
  ~RawServer();
  uint16_t port() const { return acceptor_->port(); }
  bool connected(size_t n);
  Side& side(size_t i);
  // Called on the loop for every received message, with the connection's number.
  std::function<void(size_t, fabric::Received)> hook;
  void send(size_t i, ConstBytes message, uint32_t invalidate = 0);

 private:
  Loop& loop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Side>> sides_;
  std::unique_ptr<Acceptor> acceptor_;
};

// The client's transport.
class Client {
 public:
  // `account`: records what happens to the handles (watched_fabric.h).
  Client(Loop& loop, rdma::RdmaOptions options, rpc::TransportHooks hooks = {},
         std::shared_ptr<HandleAccount> account = nullptr, const Wires& wires = {});
  ~Client();
  Result<> start() { return run_on(loop_, transport_->start()); }
  void close();
  std::future<rpc::Outcome> call(rpc::Call call) {
    return start_on(loop_, call_on_loop(&*transport_, std::move(call)));
  }
  rpc::TransportStatus status() { return transport_->status(); }
  rpc::RpcTransport& transport() { return *transport_; }
  BufferPool& pool() { return pool_; }

 private:
  static Task<rpc::Outcome> call_on_loop(rpc::RpcTransport* t, rpc::Call call) {
    co_return co_await t->call(call);
  }
  Loop& loop_;
  BufferPool own_pool_;
  BufferPool& pool_;
  std::unique_ptr<rpc::RpcTransport> transport_;
  bool closed_ = false;
};

rdma::RdmaOptions quick_rdma(uint16_t port, rdma::Versions versions = rdma::Versions::kAuto);

// A call with `arguments` whose reply has at most `max_results` bytes behind its header.
rpc::Call plain_call(ConstBytes arguments = {}, size_t max_results = 64);

}  // namespace nfsrdma::test
