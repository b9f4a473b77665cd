#include "transport/fabric/verbs/listener.h"

#include <fmt/core.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>

#include "transport/fabric/verbs/endpoint.h"
#include "transport/fabric/verbs/errors.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr int kBacklog = 128;

Error listen_error(int errnum, std::string cause) {
  return {Layer::kTransport, Recovery::kPermanent, errnum, 0, "listen", std::move(cause)};
}

class VerbsIncoming final : public Incoming {
 public:
  VerbsIncoming(std::shared_ptr<Context> context, std::unique_ptr<CmId> id, CmEvent request)
      : context_(std::move(context)), id_(std::move(id)), request_(std::move(request)), peer_(id_->peer()) {}
  ~VerbsIncoming() override { refuse(); }

  ConstBytes private_data() const override { return request_.private_data; }
  const std::string& peer() const override { return peer_; }
  Task<Result<std::unique_ptr<Endpoint>>> accept(EndpointOptions options) override;
  void refuse() override;

 private:
  const std::shared_ptr<Context> context_;
  std::unique_ptr<CmId> id_;
  const CmEvent request_;
  const std::string peer_;
};

// `this` may be gone when the peer has answered.
Task<Result<std::unique_ptr<Endpoint>>> VerbsIncoming::accept(EndpointOptions options) {
  if (!id_) co_return fail(rdma_error(EINVAL, "accept", "answered before"));
  const std::shared_ptr<Context> context = context_;
  const TimePoint deadline = Clock::now() + context->options.startup_timeout;
  Result<Established> e = context->prepare(std::move(id_), options);
  if (!e) {
    log::warn("RDMA: {}: {}", peer_, describe(e.error()));
    co_return fail(std::move(e).error());
  }
  const Abilities& can = e->pair->domain().abilities();
  const unsigned most = context->options.reads;
  const ByteVector said = options.say(can.send_with_invalidate);
  // No more than the peer has resources for; and no more for the peer than it wants.
  const unsigned answered = std::min({can.reads_answered, most, request_.reads_answered});
  e->reads_initiated = std::min({can.reads_initiated, most, request_.reads_initiated});
  e->private_data = request_.private_data;
  rdma_conn_param p = connection_parameters(said, answered, e->reads_initiated);
  if (rdma_accept(e->pair->id().get(), &p) != 0) co_return fail(rdma_error(errno, "accept", {}));
  NFSRDMA_CO_TRY(co_await e->pair->id().expect(RDMA_CM_EVENT_ESTABLISHED, deadline));
  std::unique_ptr<Endpoint> endpoint =
      std::make_unique<VerbsEndpoint>(context->loop, context->options, std::move(*e));
  co_return std::move(endpoint);
}

void VerbsIncoming::refuse() {
  if (!id_) return;
  (void)rdma_reject(id_->get(), nullptr, 0);
  id_.reset();
}

class VerbsListener final : public Listener {
 public:
  VerbsListener(std::shared_ptr<Context> context, std::unique_ptr<CmId> id, OnIncoming on_incoming)
      : context_(std::move(context)), id_(std::move(id)), on_incoming_(std::move(on_incoming)) {
    id_->set_handler([this](CmEvent& event) { on_event(event); });
  }
  uint16_t port() const override { return ntohs(rdma_get_src_port(id_->get())); }

 private:
  void on_event(CmEvent& event) {
    if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST)
      return log::warn("RDMA: listening: {}", describe(to_error(event)));
    auto id = std::make_unique<CmId>(id_->channel(), std::exchange(event.asking, nullptr));
    on_incoming_(std::make_unique<VerbsIncoming>(context_, std::move(id), std::move(event)));
  }

  const std::shared_ptr<Context> context_;
  const std::unique_ptr<CmId> id_;
  const OnIncoming on_incoming_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> look_up(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const char* host = address.empty() ? nullptr : address.c_str();
  const int code = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return fail(listen_error(EADDRNOTAVAIL, address + ": " + ::gai_strerror(code)));
  return Addresses(list, &::freeaddrinfo);
}

}  // namespace

Result<std::unique_ptr<Listener>> make_listener(const std::shared_ptr<Context>& context,
                                                const std::string& address, uint16_t port,
                                                OnIncoming on_incoming) {
  if (std::string lacks = missing(context->options); !lacks.empty())
    return fail(listen_error(ENODEV, std::move(lacks)));
  Result<Addresses> to = look_up(address, port);
  if (!to) return fail(std::move(to).error());
  Result<std::shared_ptr<CmChannel>> channel = context->channel();
  if (!channel) return fail(listen_error(channel.error().errnum, channel.error().cause));
  Result<std::unique_ptr<CmId>> id = CmId::create(*channel);
  if (!id) return fail(listen_error(id.error().errnum, id.error().cause));
  if (rdma_bind_addr((*id)->get(), (*to)->ai_addr) != 0 || rdma_listen((*id)->get(), kBacklog) != 0)
    return fail(listen_error(errno, fmt::format("RDMA, {} port {}", address, port)));
  return std::make_unique<VerbsListener>(context, std::move(*id), std::move(on_incoming));
}

}  // namespace nfsrdma::fabric::verbs
