// SPDX-License-Identifier: Apache-2.0
// Connections: the transports of a session, one per loop, all to one address of the server. Owned by the
// Session. A method runs on loop 0 unless its comment says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/api/options.h"
#include "client/nfs4/protocol_types.h"
#include "transport/net/server_address.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::fabric::verbs {
class Domains;
}

namespace nfsrdma::client::nfs4 {

class Connections {
 public:
  // The handshake of transport `index`, after it has connected and before its calls are sent. Runs on that
  // transport's loop.
  using OnConnected = std::function<Task<Result<>>(unsigned index)>;
  // Answers a call that the server sent over a transport. Runs on that transport's loop.
  using OnCall = std::function<Task<ByteVector>(ByteVector call)>;

  Connections(LoopPool& loops, BufferPool& buffers, const ClientOptions& options,
              const OnConnected& on_connected, const OnCall& on_call);
  ~Connections();

  // Connects all loops, one after the other.
  Task<Result<>> start();
  Task<> close();
  rpc::RpcTransport& at(unsigned index) { return *transports_[index]; }
  // The current loop's transport; any loop.
  rpc::RpcTransport& here() { return *transports_[Loop::current()->index()]; }

  // Ends all calls that have no reply.
  Task<> fail_pending(Error error);
  // Call it after loop 0 has connected. If loop 0 is now at another address than before, the other loops
  // reconnect to that address.
  Task<> follow_address();

  // Any thread.
  bool responding() const;
  // When the server's silence began, on the connection where it is longest; zero while the server responds.
  TimePoint stalled_since() const;
  std::vector<rpc::TransportStatus> status() const;
  uint32_t credits(unsigned index) const { return transports_[index]->credits(); }
  // How many bytes of buffers the RDMA devices in use can register (fabric/verbs/verbs.h).
  uint64_t registrable_bytes() const;

 private:
  std::unique_ptr<rpc::RpcTransport> make_transport(Loop& loop, BufferPool& buffers,
                                                    rpc::TransportHooks hooks);

  LoopPool& loops_;
  const ClientOptions& options_;
  const std::shared_ptr<net::ServerAddress> server_address_ = std::make_shared<net::ServerAddress>();
  const std::shared_ptr<fabric::verbs::Domains> rdma_domains_;
  const std::shared_ptr<rdma::VersionMemory> rdma_memory_;
  std::string address_;  // of loop 0, as text
  std::vector<std::unique_ptr<rpc::RpcTransport>> transports_;
};

}  // namespace nfsrdma::client::nfs4
