// SPDX-License-Identifier: Apache-2.0
// The Fabric of software RDMA: connect and listen.
#include <cerrno>
#include <optional>

#include "transport/fabric/iwarp/endpoint.h"
#include "transport/fabric/iwarp/listener.h"

namespace nfsrdma::fabric::iwarp {
namespace {

class IwarpFabric final : public Fabric {
 public:
  IwarpFabric(Loop& loop, const Options& options) : loop_(loop), options_(options) {}

  std::string name() const override { return kCarrier; }
  Task<Result<std::unique_ptr<Endpoint>>> connect(ConnectOptions options) override;
  void cancel() override;
  Result<std::unique_ptr<Listener>> listen(std::string address, uint16_t port,
                                           OnIncoming on_incoming) override {
    return make_listener(loop_, options_, address, port, std::move(on_incoming));
  }

 private:
  Task<Result<std::unique_ptr<Endpoint>>> start_up(net::Connected connected, EndpointOptions options,
                                                   TimePoint deadline);

  Loop& loop_;
  const Options options_;
  const std::shared_ptr<log::Throttle> violations_ = std::make_shared<log::Throttle>();
  // For the current connect().
  net::ConnectorOptions tcp_;
  std::optional<net::Connector> connector_;
  StartupSocket* startup_ = nullptr;
};

Task<Result<std::unique_ptr<Endpoint>>> IwarpFabric::connect(ConnectOptions options) {
  tcp_ = {};
  tcp_.host = options.host;
  tcp_.port = options.port;
  tcp_.address = std::move(options.address);
  tcp_.follows = options.follows;
  tcp_.family = options.family;
  tcp_.reserved_port = options.reserved_port;
  tcp_.timeo = options_.timeo;
  tcp_.retrans = options_.retrans;
  tcp_.connect_timeout = options.timeout;
  connector_.emplace(loop_, tcp_);
  Result<net::Connected> connected = co_await connector_->connect();
  connector_.reset();
  if (!connected) co_return fail(std::move(connected).error());
  const TimePoint deadline = Clock::now() + options.timeout;
  co_return co_await start_up(std::move(*connected), std::move(options.endpoint), deadline);
}

Task<Result<std::unique_ptr<Endpoint>>> IwarpFabric::start_up(net::Connected connected,
                                                              EndpointOptions options, TimePoint deadline) {
  StartupSocket startup(loop_, std::move(connected.socket), deadline);
  StartupTerms terms{options_.crc, options_.ird, options_.ord, options.say(true)};
  Established e;
  startup_ = &startup;
  Result<Agreed> agreed = co_await startup.initiate(std::move(terms), &e.private_data);
  startup_ = nullptr;
  if (!agreed) {
    Error why = std::move(agreed).error();
    why.cause = connected.peer + ": " + why.cause;
    co_return fail(std::move(why));
  }
  e.connection = std::move(connected);
  e.connection.socket = startup.release();
  e.agreed = *agreed;
  e.active = true;
  e.receive_bytes = options.receive_bytes;
  e.violations = violations_;
  std::unique_ptr<Endpoint> endpoint = std::make_unique<IwarpEndpoint>(loop_, options_, std::move(e));
  co_return std::move(endpoint);
}

void IwarpFabric::cancel() {
  if (connector_) connector_->cancel();
  if (startup_ != nullptr) startup_->cancel();
}

}  // namespace

std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options) {
  return std::make_unique<IwarpFabric>(loop, options);
}

}  // namespace nfsrdma::fabric::iwarp
