// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rdma/support/rdma_rig.h"

#include <utility>

namespace nfsrdma::test {

using fabric::Endpoint;

Acceptor::Acceptor(Loop& loop, fabric::EndpointOptions options, OnEndpoint on_endpoint, const Wires& wires)
    : loop_(loop), options_(std::move(options)), on_endpoint_(std::move(on_endpoint)) {
  call_on(loop_, [&] {
    fabric_ = wires.make(loop_);
    auto listener = fabric_->listen(wires.address, 0, [this](std::unique_ptr<fabric::Incoming> incoming) {
      loop_.spawn(accept(std::move(incoming)));
    });
    EXPECT_TRUE(listener);
    listener_ = *std::move(listener);
    port_ = listener_->port();
  });
}

Acceptor::~Acceptor() {
  call_on(loop_, [this] {
    listener_.reset();
    fabric_.reset();
  });
}

Task<> Acceptor::accept(std::unique_ptr<fabric::Incoming> incoming) {
  fabric::EndpointOptions options = options_;
  Result<std::unique_ptr<Endpoint>> endpoint = co_await incoming->accept(std::move(options));
  if (endpoint) on_endpoint_(*std::move(endpoint));
}

fabric::EndpointOptions server_endpoint(rpcrdma::private_data ours) {
  return rdma::make_endpoint_options(16384, 64, ours);
}

// ---------------------------------------------------------------------------------------------------------

void TestServer::Connection::on_message(ByteVector message) {
  server->answer_(*this, std::move(message));
}

void TestServer::Connection::on_closed(const Error& why) {
  reason = describe(why);
  closed = true;
}

TestServer::TestServer(Loop& loop, rdma::ResponderOptions options, Answer answer, const Wires& wires)
    : loop_(loop), options_(options), answer_(std::move(answer)) {
  const rpcrdma::private_data ours{true, options.inline_bytes, options.receive_bytes};
  acceptor_ = std::make_unique<Acceptor>(
      loop, server_endpoint(ours),
      [this](std::unique_ptr<Endpoint> endpoint) {
        Connection& c = *connections_.emplace_back(std::make_unique<Connection>());
        c.server = this;
        c.responder = std::make_unique<rdma::Responder>(std::move(endpoint), options_, c);
        c.responder->start();
      },
      wires);
}

TestServer::~TestServer() {
  acceptor_.reset();
  call_on(loop_, [this] { connections_.clear(); });
}

// ---------------------------------------------------------------------------------------------------------

RawServer::RawServer(Loop& loop, rpcrdma::private_data ours) : loop_(loop) {
  acceptor_ =
      std::make_unique<Acceptor>(loop, server_endpoint(ours), [this](std::unique_ptr<Endpoint> endpoint) {
        Side* side = nullptr;
        {
          std::lock_guard lock(mutex_);
          const size_t n = sides_.size();
          side = sides_.emplace_back(std::make_unique<Side>()).get();
          side->endpoint = std::move(endpoint);
          side->hook = [this, n](fabric::Received received) {
            if (hook) hook(n, received);
          };
        }
        side->endpoint->start(*side);
      });
}

RawServer::~RawServer() {
  acceptor_.reset();
  call_on(loop_, [this] { sides_.clear(); });
}

bool RawServer::connected(size_t n) {
  return eventually([&] {
    std::lock_guard lock(mutex_);
    return sides_.size() >= n;
  });
}

Side& RawServer::side(size_t i) {
  std::lock_guard lock(mutex_);
  return *sides_.at(i);
}

void RawServer::send(size_t i, ConstBytes message, uint32_t invalidate) {
  Side& s = side(i);
  const auto post = [&] {
    const ConstBytes parts[] = {message};
    s->send(parts, invalidate);
  };
  if (loop_.on_loop()) return post();
  call_on(loop_, post);
}

// ---------------------------------------------------------------------------------------------------------

Client::Client(Loop& loop, rdma::RdmaOptions options, rpc::TransportHooks hooks,
               std::shared_ptr<HandleAccount> account, const Wires& wires)
    : loop_(loop), pool_(wires.pool != nullptr ? *wires.pool : own_pool_) {
  call_on(loop_, [&] {
    auto fabric = wires.make(loop_);
    if (account != nullptr) fabric = make_watched_fabric(loop_, std::move(fabric), std::move(account));
    transport_ = rdma::make_rdma_transport(loop_, std::move(fabric), std::move(options),
                                           std::make_shared<rdma::VersionMemory>(), pool_, std::move(hooks));
  });
}

Client::~Client() {
  close();
  call_on(loop_, [this] { transport_.reset(); });
}

void Client::close() {
  if (!std::exchange(closed_, true)) run_on(loop_, transport_->close());
}

rdma::RdmaOptions quick_rdma(uint16_t port, rdma::Versions versions) {
  rdma::RdmaOptions o;
  o.host = "127.0.0.1";
  o.port = port;
  o.versions = versions;
  o.backoff_first = std::chrono::milliseconds(1);
  o.backoff_max = std::chrono::milliseconds(4);
  return o;
}

rpc::Call plain_call(ConstBytes arguments, size_t max_results) {
  rpc::Call c;
  c.op = "TEST";
  c.head = call_head(arguments);
  c.max_reply_bytes = kReplyHeaderBytes + max_results;
  return c;
}

}  // namespace nfsrdma::test
