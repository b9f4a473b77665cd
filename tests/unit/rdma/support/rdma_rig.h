// SPDX-License-Identifier: Apache-2.0
// RPC-over-RDMA between two ends in one process, over software RDMA if nothing else is said: a client's
// transport as it is, and as its server either a Responder that a test answers for, or a bare endpoint of
// which a test says every byte.
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

// What both ends are made of.
struct Wires {
  MakeFabric make = [](Loop& loop) { return fabric::iwarp::make_fabric(loop); };
  std::string address = "127.0.0.1";
  BufferPool* pool = nullptr;  // the client's, where the fabric has registered it; null: one of its own
};

// Listens, and hands every endpoint over on the loop.
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

// A server: one Responder a connection; `answer` is called on the loop for each message that comes.
class TestServer {
 public:
  struct Connection final : rdma::ResponderEvents {
    TestServer* server = nullptr;
    std::unique_ptr<rdma::Responder> responder;
    bool closed = false;
    std::string reason;  // why, when it is closed
    void on_message(ByteVector message) override;
    void on_closed(const Error& why) override;
  };
  using Answer = std::function<void(Connection&, ByteVector)>;

  TestServer(Loop& loop, rdma::ResponderOptions options, Answer answer, const Wires& wires = {});
  ~TestServer();
  uint16_t port() const { return acceptor_->port(); }
  // On the loop. Every connection there was, the last one last.
  std::vector<std::unique_ptr<Connection>>& connections() { return connections_; }

 private:
  Loop& loop_;
  const rdma::ResponderOptions options_;
  const Answer answer_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

// A server of which a test says every byte. Connections are counted from 0.
class RawServer {
 public:
  RawServer(Loop& loop, rpcrdma::private_data ours = {true, 4096, 4096});
  ~RawServer();
  uint16_t port() const { return acceptor_->port(); }
  bool connected(size_t n);
  Side& side(size_t i);
  // Called on the loop for every message that comes, with the connection's number.
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
  // `account`: keeps the books of the handles (watched_fabric.h).
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
    co_return co_await t->call(std::move(call));
  }
  Loop& loop_;
  BufferPool own_pool_;
  BufferPool& pool_;
  std::unique_ptr<rpc::RpcTransport> transport_;
  bool closed_ = false;
};

rdma::RdmaOptions quick_rdma(uint16_t port, rdma::Versions versions = rdma::Versions::kAuto);

// A call of `arguments`, the reply to which takes at most `max_results` bytes behind its header.
rpc::Call plain_call(ConstBytes arguments = {}, size_t max_results = 64);

}  // namespace nfsrdma::test
