// SPDX-License-Identifier: Apache-2.0
// The Fabric of RDMA devices: connect and listen.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "transport/fabric/verbs/devices.h"
#include "transport/fabric/verbs/endpoint.h"
#include "transport/fabric/verbs/errors.h"
#include "transport/fabric/verbs/listener.h"
#include "transport/net/server_address.h"

namespace nfsrdma::fabric::verbs {
namespace {

using Made = Result<std::unique_ptr<Endpoint>>;

// As in the TCP transport: the range that the kernel's client uses.
constexpr unsigned kFirstReservedPort = 665;
constexpr unsigned kLastReservedPort = 1023;

class VerbsFabric final : public Fabric {
 public:
  VerbsFabric(Loop& loop, const Options& options, std::shared_ptr<Domains> domains)
      : context_(std::make_shared<Context>(loop, options, std::move(domains))), resolver_(loop) {}

  std::string name() const override { return "RDMA device"; }
  Task<Made> connect(ConnectOptions options) override;
  void cancel() override;
  Result<std::unique_ptr<Listener>> listen(std::string address, uint16_t port,
                                           OnIncoming on_incoming) override {
    return make_listener(context_, address, port, std::move(on_incoming));
  }

 private:
  Task<Result<net::Endpoints>> addresses(const ConnectOptions& options);
  Task<Made> connect_any(const ConnectOptions& options, net::Endpoints endpoints);
  Task<Made> connect_one(const ConnectOptions& options, net::Endpoint endpoint);
  Task<Made> connect_from(const ConnectOptions& options, net::Endpoint endpoint,
                          std::optional<net::Endpoint> source);
  Task<Result<>> find_path(CmId& id, net::Endpoint endpoint, TimePoint deadline);
  Task<Made> establish(const ConnectOptions& options, std::unique_ptr<CmId> id, TimePoint deadline);
  Result<> bind(CmId& id, const ConnectOptions& options, const net::Endpoint& to,
                const std::optional<net::Endpoint>& source);
  Result<> check_device(const CmId& id) const;

  const std::shared_ptr<Context> context_;
  net::Resolver resolver_;
  CmId* under_way_ = nullptr;
  bool cancelled_ = false;
};

int left_ms(TimePoint deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 1));
}

bool is_link_local(const net::Endpoint& e) {
  if (e.family() != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(e.address).sin6_addr);
}

Task<Result<net::Endpoints>> VerbsFabric::addresses(const ConnectOptions& options) {
  if (options.follows) {
    const std::optional<net::Endpoint> taken = options.address->get();
    if (!taken) co_return fail(rdma_error(EHOSTUNREACH, "connect", "the first connection is not made yet"));
    co_return net::Endpoints{*taken};
  }
  co_return co_await resolver_.resolve(options.host, options.port, options.family);
}

Task<Made> VerbsFabric::connect(ConnectOptions options) {
  cancelled_ = false;
  Result<net::Endpoints> endpoints = co_await addresses(options);
  if (!endpoints) co_return fail(std::move(endpoints).error());
  co_return co_await connect_any(options, std::move(*endpoints));
}

Task<Made> VerbsFabric::connect_any(const ConnectOptions& options, net::Endpoints endpoints) {
  int errnum = EHOSTUNREACH;
  std::string cause;
  for (const net::Endpoint& endpoint : endpoints) {
    if (cancelled_) break;
    Made made = co_await connect_one(options, endpoint);
    if (made && options.address && !options.follows) options.address->set(endpoint);
    if (made || made.error().recovery == Recovery::kInterrupted) co_return made;
    errnum = made.error().errnum;
    if (!cause.empty()) cause += "; ";
    cause += fmt::format("{}: {}", net::to_string(endpoint), std::strerror(errnum));
    if (!made.error().cause.empty()) cause += fmt::format(" ({})", made.error().cause);
  }
  if (cancelled_)
    co_return fail({.layer = Layer::kTransport,
                    .recovery = Recovery::kInterrupted,
                    .errnum = EINTR,
                    .op = "connect",
                    .cause = "cancelled"});
  co_return fail(rdma_error(errnum, "connect", std::move(cause)));
}

Task<Made> VerbsFabric::connect_one(const ConnectOptions& options, net::Endpoint endpoint) {
  Result<net::Endpoints> sources = source_addresses(context_->options, endpoint.family());
  if (!sources) co_return fail(std::move(sources).error());
  if (sources->empty()) co_return co_await connect_from(options, endpoint, std::nullopt);
  Made made = fail(rdma_error(ENODEV, "connect", {}));
  for (const net::Endpoint& source : *sources) {
    made = co_await connect_from(options, endpoint, source);
    if (made || cancelled_) break;
  }
  co_return made;
}

Task<Made> VerbsFabric::connect_from(const ConnectOptions& options, net::Endpoint endpoint,
                                     std::optional<net::Endpoint> source) {
  const TimePoint deadline = Clock::now() + options.timeout;
  Result<std::shared_ptr<CmChannel>> channel = context_->channel();
  if (!channel) co_return fail(std::move(channel).error());
  Result<std::unique_ptr<CmId>> id = CmId::create(*channel);
  if (!id) co_return fail(std::move(id).error());
  NFSRDMA_CO_TRY(bind(**id, options, endpoint, source));
  context_->note_device(**id);
  under_way_ = id->get();
  Result<> found = co_await find_path(**id, endpoint, deadline);
  under_way_ = nullptr;
  if (!found) co_return fail(std::move(found).error());
  NFSRDMA_CO_TRY(check_device(**id));
  co_return co_await establish(options, std::move(*id), deadline);
}

// Binds the local address and port if they matter. A used port gives EADDRINUSE, or EADDRNOTAVAIL if one of
// the two addresses is the wildcard address. If no reserved port is available, goes on without: most servers
// do not require one, and over RDMA hardly any does. Without a given source address, a link-local destination
// gets no reserved port either: a bound identifier does not take the interface from its destination.
Result<> VerbsFabric::bind(CmId& id, const ConnectOptions& options, const net::Endpoint& to,
                           const std::optional<net::Endpoint>& source) {
  net::Endpoint from = source.value_or(net::Endpoint{});
  if (!source) {
    from.address.ss_family = static_cast<sa_family_t>(to.family());
    from.length = to.family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  const auto try_port = [&](unsigned port) {
    from.set_port(static_cast<uint16_t>(port));
    return rdma_bind_addr(id.get(), reinterpret_cast<sockaddr*>(&from.address)) == 0;
  };
  if (options.reserved_port && (source || !is_link_local(to))) {
    constexpr unsigned kPorts = kLastReservedPort - kFirstReservedPort + 1;
    const unsigned begin = std::random_device{}() % kPorts;
    for (unsigned i = 0; i < kPorts; ++i) {
      if (try_port(kFirstReservedPort + (begin + i) % kPorts)) return {};
      if (errno != EADDRINUSE && errno != EADDRNOTAVAIL) break;
    }
  }
  if (!source || try_port(0)) return {};
  return fail(rdma_error(errno, "connect", "from " + net::to_string(from)));
}

Task<Result<>> VerbsFabric::find_path(CmId& id, net::Endpoint endpoint, TimePoint deadline) {
  auto* to = reinterpret_cast<sockaddr*>(&endpoint.address);
  if (rdma_resolve_addr(id.get(), nullptr, to, left_ms(deadline)) != 0)
    co_return fail(
        rdma_error(errno, "connect", errno == ENODEV ? "no RDMA device leads there" : "address resolution"));
  NFSRDMA_CO_TRY(co_await id.expect(RDMA_CM_EVENT_ADDR_RESOLVED, deadline));
  context_->note_device(id);
  if (rdma_resolve_route(id.get(), left_ms(deadline)) != 0)
    co_return fail(rdma_error(errno, "connect", "route resolution"));
  NFSRDMA_CO_TRY(co_await id.expect(RDMA_CM_EVENT_ROUTE_RESOLVED, deadline));
  co_return Result<>{};
}

Result<> VerbsFabric::check_device(const CmId& id) const {
  const Options& o = context_->options;
  const std::string name = ibv_get_device_name(id->verbs->device);
  if ((o.device.empty() || o.device == name) && (o.port == 0 || o.port == id->port_num)) return {};
  return fail(rdma_error(ENODEV, "connect", fmt::format("{} port {} leads there", name, id->port_num)));
}

Task<Made> VerbsFabric::establish(const ConnectOptions& options, std::unique_ptr<CmId> id,
                                  TimePoint deadline) {
  Result<Established> e = context_->prepare(std::move(id), options.endpoint);
  if (!e) co_return fail(std::move(e).error());
  // Without room, each call with a chunk would wait for memory in vain and end the connection, again and
  // again.
  NFSRDMA_CO_TRY(e->pair->domain().check_room());
  const Abilities& can = e->pair->domain().abilities();
  const unsigned most = context_->options.reads;
  const ByteVector said = options.endpoint.say(uses_windows(context_->options, e->pair->domain()));
  rdma_conn_param p =
      connection_parameters(said, std::min(can.reads_answered, most), std::min(can.reads_initiated, most));
  CmId& asking = e->pair->id();
  if (rdma_connect(asking.get(), &p) != 0) co_return fail(rdma_error(errno, "connect", {}));
  under_way_ = &asking;
  Result<CmEvent> answer = co_await asking.expect(RDMA_CM_EVENT_ESTABLISHED, deadline);
  under_way_ = nullptr;
  if (!answer) co_return fail(std::move(answer).error());
  e->active = true;
  e->private_data = std::move(answer->private_data);
  e->reads_initiated = std::min<unsigned>(p.initiator_depth, answer->reads_initiated);
  std::unique_ptr<Endpoint> endpoint =
      std::make_unique<VerbsEndpoint>(context_->loop, context_->options, std::move(*e));
  co_return std::move(endpoint);
}

void VerbsFabric::cancel() {
  cancelled_ = true;
  resolver_.cancel();
  if (under_way_ != nullptr) under_way_->cancel();
}

}  // namespace

std::unique_ptr<Fabric> make_fabric(Loop& loop, Options options, std::shared_ptr<Domains> domains) {
  return std::make_unique<VerbsFabric>(loop, options, std::move(domains));
}

}  // namespace nfsrdma::fabric::verbs
