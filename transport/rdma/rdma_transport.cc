#include "transport/rdma/rdma_transport.h"

#include <cerrno>
#include <utility>

#include "transport/rdma/connection.h"
#include "transport/rdma/endpoint_options.h"
#include "transport/rpc/client_transport.h"

namespace nfsrdma::rdma {
namespace {

Error no_version(const char* cause, Recovery recovery) {
  return {Layer::kTransport, recovery, EPROTONOSUPPORT, 0, "connect", cause};
}

class RdmaDialer final : public rpc::Dialer {
 public:
  RdmaDialer(Loop& loop, std::unique_ptr<fabric::Fabric> fabric, RdmaOptions options,
             std::shared_ptr<VersionMemory> memory, BufferPool& pool)
      : loop_(loop),
        fabric_(std::move(fabric)),
        options_(std::move(options)),
        memory_(std::move(memory)),
        pool_(pool) {}

  Task<Result<std::shared_ptr<rpc::Connection>>> dial(rpc::ConnectionUse use) override {
    bool ask = options_.versions == Versions::kOnly2 ||
               (options_.versions == Versions::kAuto && !memory_->lacks_version2(Clock::now()));
    while (true) {
      fabric::ConnectOptions connect = connect_options();
      Result<std::unique_ptr<fabric::Endpoint>> endpoint = co_await fabric_->connect(std::move(connect));
      if (!endpoint) co_return fail(std::move(endpoint).error());
      auto connection = std::make_shared<RdmaConnection>(loop_, *std::move(endpoint), use.owner, use.calls,
                                                         use.counters, options_, counters_, pool_);
      using Agreement = RdmaConnection::Agreement;
      agreeing_ = connection;
      const Agreement agreement = co_await connection->agree(ask);
      if (agreement == Agreement::kVersion2) memory_->note_has_version2();
      if (ask && agreement != Agreement::kVersion2) memory_->note_lacks_version2(Clock::now());
      const bool wanted = agreement == Agreement::kVersion2 ||
                          (agreement == Agreement::kVersion1 && options_.versions != Versions::kOnly2);
      if (cancelled_)
        co_return fail({Layer::kTransport, Recovery::kInterrupted, EINTR, 0, "connect", "cancelled"});
      if (wanted) {
        connection->hold(std::move(use.pass));
        co_return connection;
      }
      if (agreement == Agreement::kNeither)
        co_return fail(
            no_version("the server speaks neither RPC-over-RDMA version 1 nor 2", Recovery::kPermanent));
      if (agreement == Agreement::kVersion1)
        co_return fail(no_version("the server speaks RPC-over-RDMA version 1 only", Recovery::kPermanent));
      if (options_.versions == Versions::kOnly2)
        co_return fail(no_version("no answer in RPC-over-RDMA version 2", Recovery::kReconnect));
      ask = false;
    }
  }

  void cancel() override {
    cancelled_ = true;
    fabric_->cancel();
    if (const auto connection = agreeing_.lock())
      connection->drop({Layer::kTransport, Recovery::kInterrupted, EINTR, 0, "connect", "cancelled"});
  }

 private:
  fabric::ConnectOptions connect_options() const {
    fabric::ConnectOptions o;
    o.host = options_.host;
    o.port = options_.port;
    o.timeout = options_.connect_timeout;
    rpcrdma::private_data ours;
    ours.send_bytes = ours.receive_bytes = options_.inline_bytes;
    ours.remote_invalidation = fabric_->remote_invalidation();
    // One for each reply, one for each call of the server, one for the properties.
    const unsigned receives = options_.credits + options_.callback_credits + 1;
    o.endpoint = make_endpoint_options(options_.receive_bytes, receives, ours);
    return o;
  }

  Loop& loop_;
  const std::unique_ptr<fabric::Fabric> fabric_;
  const RdmaOptions options_;
  const std::shared_ptr<VersionMemory> memory_;
  BufferPool& pool_;
  RdmaCounters counters_;
  std::weak_ptr<RdmaConnection> agreeing_;
  bool cancelled_ = false;
};

}  // namespace

std::unique_ptr<rpc::RpcTransport> make_rdma_transport(Loop& loop, std::unique_ptr<fabric::Fabric> fabric,
                                                       RdmaOptions options,
                                                       std::shared_ptr<VersionMemory> memory,
                                                       BufferPool& pool, rpc::TransportHooks hooks) {
  rpc::ClientTransportOptions client{.host = options.host,
                                     .protocol = "rdma",
                                     .timeo = options.timeo,
                                     .retrans = options.retrans,
                                     .backoff_first = options.backoff_first,
                                     .backoff_max = options.backoff_max};
  auto dialer =
      std::make_unique<RdmaDialer>(loop, std::move(fabric), std::move(options), std::move(memory), pool);
  return std::make_unique<rpc::ClientTransport>(loop, std::move(dialer), std::move(client), std::move(hooks));
}

}  // namespace nfsrdma::rdma
