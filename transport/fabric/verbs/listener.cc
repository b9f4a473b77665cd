// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/listener.h"

#include <netdb.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "transport/fabric/verbs/endpoint.h"
#include "transport/fabric/verbs/errors.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr int kBacklog = 128;
// Interval of checks whether a device has the address again.
constexpr std::chrono::seconds kPause{1};

// Lists an accepted connection in Context::accepting while this object lives. If the list is full, the oldest
// connection of the address with the most of them is cancelled: so peers that do not complete their
// connections do not keep out others.
class Accepting {
 public:
  Accepting(Context& context, CmId& id) : context_(context), id_(id) {
    std::list<CmId*>& all = context_.accepting;
    if (all.size() >= Context::kMostAccepting) {
      std::map<std::string, size_t> addresses;
      for (const CmId* other : all) ++addresses[address_of(*other)];
      const auto most = std::max_element(addresses.begin(), addresses.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      const auto oldest = std::find_if(all.begin(), all.end(),
                                       [&](const CmId* other) { return address_of(*other) == most->first; });
      CmId* goes = *oldest;
      all.erase(oldest);
      goes->cancel();
    }
    all.push_back(&id);
  }
  ~Accepting() { std::erase(context_.accepting, &id_); }
  Accepting(const Accepting&) = delete;
  Accepting& operator=(const Accepting&) = delete;

 private:
  static std::string address_of(const CmId& id) { return net::address_in(id.peer()); }

  Context& context_;
  CmId& id_;
};

Error listen_error(int errnum, std::string cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kPermanent,
          .errnum = errnum,
          .op = "listen",
          .cause = std::move(cause)};
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

// `this` may be destroyed before the peer answers.
Task<Result<std::unique_ptr<Endpoint>>> VerbsIncoming::accept(EndpointOptions options) {
  if (!id_) co_return fail(rdma_error(EINVAL, "accept", "answered before"));
  const std::shared_ptr<Context> context = context_;
  const TimePoint deadline = Clock::now() + context->options.startup_timeout;
  Result<Established> e = context->prepare(std::move(id_), options);
  if (!e) {
    if (const uint64_t n = context->domains->failures().hit())
      log::warn("RDMA: {}: {} (failure {})", peer_, describe(e.error()), n);
    co_return fail(std::move(e).error());
  }
  const Abilities& can = e->pair->domain().abilities();
  const unsigned most = context->options.reads;
  const ByteVector said = options.say(context->domains->sends_with_invalidate(e->pair->domain()));
  // Not more Reads than the peer has resources for, and not more for the peer than it wants.
  const unsigned answered = std::min({can.reads_answered, most, request_.reads_answered});
  e->reads_initiated = std::min({can.reads_initiated, most, request_.reads_initiated});
  e->private_data = request_.private_data;
  rdma_conn_param p = connection_parameters(said, answered, e->reads_initiated);
  if (rdma_accept(e->pair->id().get(), &p) != 0) co_return fail(rdma_error(errno, "accept", {}));
  {
    const Accepting accepting(*context, e->pair->id());
    NFSRDMA_CO_TRY(co_await e->pair->id().expect(RDMA_CM_EVENT_ESTABLISHED, deadline));
  }
  std::unique_ptr<Endpoint> endpoint =
      std::make_unique<VerbsEndpoint>(context->loop, context->options, std::move(*e));
  co_return std::move(endpoint);
}

void VerbsIncoming::refuse() {
  if (!id_) return;
  (void)rdma_reject(id_->get(), nullptr, 0);
  id_.reset();
}

// A listener, while it listens and while no device has its address. Its VerbsListener owns it; the timer
// holds a weak pointer.
class Listening final : public std::enable_shared_from_this<Listening> {
 public:
  Listening(std::shared_ptr<Context> context, net::Endpoint address, OnIncoming on_incoming)
      : context_(std::move(context)),
        address_(address),
        on_incoming_(std::move(on_incoming)),
        again_(context_->loop.context()) {}

  Result<> begin();
  uint16_t port() const { return address_.port(); }

 private:
  void on_event(CmEvent& event);
  void begin_again_after(std::chrono::milliseconds pause);

  const std::shared_ptr<Context> context_;
  net::Endpoint address_;
  const OnIncoming on_incoming_;
  std::unique_ptr<CmId> id_;  // null: no device has the address
  asio::steady_timer again_;
};

Result<> Listening::begin() {
  Result<std::shared_ptr<CmChannel>> channel = context_->channel();
  if (!channel) return fail(listen_error(channel.error().errnum, channel.error().cause));
  Result<std::unique_ptr<CmId>> id = CmId::create(*channel);
  if (!id) return fail(listen_error(id.error().errnum, id.error().cause));
  auto* to = reinterpret_cast<sockaddr*>(&address_.address);
  if (rdma_bind_addr((*id)->get(), to) != 0 || rdma_listen((*id)->get(), kBacklog) != 0)
    return fail(listen_error(errno, "RDMA, " + net::to_string(address_)));
  context_->note_device(**id);
  address_.set_port(ntohs(rdma_get_src_port((*id)->get())));
  id_ = std::move(*id);
  id_->set_handler([this](CmEvent& event) { on_event(event); });
  return {};
}

void Listening::on_event(CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    auto id = std::make_unique<CmId>(id_->channel(), std::exchange(event.asking, nullptr));
    context_->note_device(*id);
    return on_incoming_(std::make_unique<VerbsIncoming>(context_, std::move(id), std::move(event)));
  }
  log::warn("RDMA: listening at {}: {}", net::to_string(address_), describe(to_error(event)));
  // From the timer, because the identifier is on the stack here.
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) begin_again_after(std::chrono::milliseconds(0));
}

void Listening::begin_again_after(std::chrono::milliseconds pause) {
  again_.expires_after(pause);
  again_.async_wait([weak = weak_from_this()](const asio::error_code& ec) {
    const auto self = weak.lock();
    if (ec || !self) return;
    self->id_.reset();
    if (!self->begin()) return self->begin_again_after(kPause);
    log::info("RDMA: listening at {} again", net::to_string(self->address_));
  });
}

class VerbsListener final : public Listener {
 public:
  explicit VerbsListener(std::shared_ptr<Listening> listening) : listening_(std::move(listening)) {}
  uint16_t port() const override { return listening_->port(); }

 private:
  const std::shared_ptr<Listening> listening_;
};

Result<net::Endpoint> look_up(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const char* host = address.empty() ? nullptr : address.c_str();
  const int code = ::getaddrinfo(host, std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return fail(listen_error(EADDRNOTAVAIL, address + ": " + ::gai_strerror(code)));
  net::Endpoint found;
  std::memcpy(&found.address, list->ai_addr, list->ai_addrlen);
  found.length = list->ai_addrlen;
  ::freeaddrinfo(list);
  return found;
}

}  // namespace

Result<std::unique_ptr<Listener>> make_listener(const std::shared_ptr<Context>& context,
                                                const std::string& address, uint16_t port,
                                                OnIncoming on_incoming) {
  if (std::string lacks = missing(context->options); !lacks.empty())
    return fail(listen_error(ENODEV, std::move(lacks)));
  Result<net::Endpoint> to = look_up(address, port);
  if (!to) return fail(std::move(to).error());
  auto listening = std::make_shared<Listening>(context, *to, std::move(on_incoming));
  NFSRDMA_TRY(listening->begin());
  return std::make_unique<VerbsListener>(std::move(listening));
}

}  // namespace nfsrdma::fabric::verbs
