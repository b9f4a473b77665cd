// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/connections.h"

#include <algorithm>
#include <utility>

#include "client/nfs4/session/fabrics.h"
#include "client/nfs4/session/transport_options.h"
#include "transport/rdma/rdma_transport.h"
#include "transport/runtime/log.h"
#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::client::nfs4 {

Connections::Connections(LoopPool& loops, BufferPool& buffers, const ClientOptions& options,
                         const OnConnected& on_connected, const OnCall& on_call)
    : loops_(loops),
      options_(options),
      rdma_domains_(fabric::verbs::make_shared_domains(buffers)),
      rdma_memory_(options.rdma_memory ? options.rdma_memory : std::make_shared<rdma::VersionMemory>()) {
  for (unsigned i = 0; i < loops.size(); ++i) {
    rpc::TransportHooks hooks;
    hooks.on_connected = [on_connected, i](rpc::RpcTransport&) { return on_connected(i); };
    hooks.tap = options_.tap;
    hooks.on_call = [on_call](rpc::RpcTransport&, ByteVector call) { return on_call(std::move(call)); };
    transports_.push_back(make_transport(loops[i], buffers, std::move(hooks)));
  }
}

Connections::~Connections() = default;

std::unique_ptr<rpc::RpcTransport> Connections::make_transport(Loop& loop, BufferPool& buffers,
                                                               rpc::TransportHooks hooks) {
  const bool follows = loop.index() != 0;
  if (options_.transport != TransportKind::kTcp) {
    rdma::RdmaOptions rdma = rdma_options(options_);
    rdma.address = server_address_;
    rdma.follows = follows;
    return rdma::make_rdma_transport(loop, make_fabric(loop, options_, rdma_domains_), std::move(rdma),
                                     rdma_memory_, buffers, std::move(hooks));
  }
  tcp::TcpOptions tcp = tcp_options(options_);
  tcp.address = server_address_;
  tcp.follows = follows;
  return tcp::make_tcp_transport(loop, std::move(tcp), std::move(hooks));
}

Task<Result<>> Connections::start() {
  Result<> first = co_await transports_[0]->start();
  if (!first) co_return first;
  for (unsigned i = 1; i < loops_.size(); ++i) {
    co_await loops_[i].resume_here();
    Result<> other = co_await transports_[i]->start();
    co_await loops_[0].resume_here();
    if (!other) co_return other;
  }
  co_return Result<>{};
}

Task<> Connections::close() {
  for (unsigned i = 0; i < loops_.size(); ++i) {
    co_await loops_[i].resume_here();
    co_await transports_[i]->close();
  }
  co_await loops_[0].resume_here();
}

Task<> Connections::fail_pending(Error error) {
  for (unsigned i = 0; i < loops_.size(); ++i) {
    co_await loops_[i].resume_here();
    transports_[i]->fail_pending(error);
  }
  co_await loops_[0].resume_here();
}

Task<> Connections::follow_address() {
  const std::string before = std::exchange(address_, net::to_string(*server_address_->get()));
  if (before.empty() || before == address_) co_return;
  log::info("server {}: now at {}, before at {}", options_.host, address_, before);
  for (unsigned i = 1; i < loops_.size(); ++i) {
    co_await loops_[i].resume_here();
    transports_[i]->reconnect("the server has another address");
  }
  co_await loops_[0].resume_here();
}

bool Connections::responding() const {
  return std::all_of(transports_.begin(), transports_.end(),
                     [](const auto& t) { return t->status().responding; });
}

TimePoint Connections::stalled_since() const {
  TimePoint oldest{};
  for (const auto& transport : transports_) {
    const rpc::TransportStatus s = transport->status();
    if (!s.responding && (oldest == TimePoint{} || s.stalled_since < oldest)) oldest = s.stalled_since;
  }
  return oldest;
}

std::vector<rpc::TransportStatus> Connections::status() const {
  std::vector<rpc::TransportStatus> all;
  for (const auto& transport : transports_) all.push_back(transport->status());
  return all;
}

uint64_t Connections::registrable_bytes() const {
  return fabric::verbs::registrable_bytes(*rdma_domains_);
}

}  // namespace nfsrdma::client::nfs4
