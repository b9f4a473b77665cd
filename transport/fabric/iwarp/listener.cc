// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <map>

#include "transport/fabric/iwarp/endpoint.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::iwarp {
namespace {

// Pause after a failed accept(): when a limit is reached, the next accept() would fail, too.
constexpr std::chrono::milliseconds kPause{100};
constexpr unsigned kMostAtOnce = 64;

Error listen_error(int errnum, std::string cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kPermanent,
          .errnum = errnum,
          .op = "listen",
          .cause = std::move(cause)};
}

class IwarpIncoming final : public Incoming {
 public:
  IwarpIncoming(Loop& loop, const Options& options, net::Connected connected, StartupFrame request,
                std::shared_ptr<log::Throttle> violations)
      : loop_(loop),
        options_(options),
        connected_(std::move(connected)),
        request_(std::move(request)),
        violations_(std::move(violations)) {}
  ~IwarpIncoming() override { refuse(); }

  ConstBytes private_data() const override { return request_.private_data; }
  const std::string& peer() const override { return connected_.peer; }
  Task<Result<std::unique_ptr<Endpoint>>> accept(EndpointOptions options) override;
  void refuse() override;

 private:
  Loop& loop_;
  const Options options_;
  net::Connected connected_;
  const StartupFrame request_;
  const std::shared_ptr<log::Throttle> violations_;
};

Task<Result<std::unique_ptr<Endpoint>>> IwarpIncoming::accept(EndpointOptions options) {
  if (!connected_.socket) co_return fail(startup_error("answered before", EINVAL));
  Established e;
  e.receive_bytes = options.receive_bytes;
  e.private_data = request_.private_data;
  e.violations = violations_;
  const StartupTerms terms{options_.crc, options_.ird, options_.ord, options.say(true)};
  Result<Answer> answer = make_answer(terms, request_);
  if (!answer) {
    refuse();
    co_return fail(std::move(answer).error());
  }
  e.agreed = answer->agreed;
  e.connection.peer = connected_.peer;
  e.connection.local = connected_.local;
  // `this` may be destroyed before the reply is written.
  Loop& loop = loop_;
  const Options mine = options_;
  StartupSocket startup(loop, std::move(connected_.socket), Clock::now() + options_.startup_timeout);
  ByteVector reply = encode(answer->reply);
  NFSRDMA_CO_TRY(co_await startup.write(std::move(reply)));
  e.connection.socket = startup.release();
  std::unique_ptr<Endpoint> endpoint = std::make_unique<IwarpEndpoint>(loop, mine, std::move(e));
  co_return std::move(endpoint);
}

// "the implementation SHOULD return an MPA Reply Frame with the Rejected Connection bit set to '1'" (RFC 5044
// section 7.1.2). The frame fits into any socket's buffer.
void IwarpIncoming::refuse() {
  if (!connected_.socket) return;
  const ByteVector reply = encode(make_rejection(request_));
  (void)::send(connected_.socket.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connected_.socket = net::Socket();
}

Result<net::Socket> open_socket(const std::string& address, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(address.empty() ? nullptr : address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) return fail(listen_error(EADDRNOTAVAIL, address + ": " + ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  net::Socket s(::socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!s) return fail(listen_error(errno, "socket"));
  const int on = 1;
  if (::setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(s.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(s.get(), SOMAXCONN) != 0) {
    return fail(listen_error(errno, address + " port " + std::to_string(port)));
  }
  return s;
}

}  // namespace

ListenerCore::ListenerCore(Loop& loop, const Options& options, net::Socket socket, OnIncoming on_incoming)
    : loop_(loop),
      options_(options),
      descriptor_(loop.context(), socket.release()),
      pause_(loop.context()),
      on_incoming_(std::move(on_incoming)) {}

void ListenerCore::begin() {
  wait();
}

void ListenerCore::stop() {
  if (std::exchange(stopped_, true)) return;
  asio::error_code ignored;
  descriptor_.close(ignored);
  pause_.cancel();
  // cancel() ends the coroutine, which removes itself from startups_: so take the list away first.
  const std::list<Startup> startups = std::exchange(startups_, {});
  for (const Startup& s : startups) s.socket->cancel();
}

void ListenerCore::make_room() {
  if (startups_.size() < options_.max_startups) return;
  std::map<std::string, size_t> addresses;
  for (const Startup& s : startups_) ++addresses[s.address];
  const auto most = std::max_element(addresses.begin(), addresses.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(startups_.begin(), startups_.end(),
                                   [&](const Startup& s) { return s.address == most->first; });
  StartupSocket* socket = oldest->socket;
  startups_.erase(oldest);
  socket->cancel();
}

void ListenerCore::wait() {
  if (stopped_ || std::exchange(waiting_, true)) return;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const asio::error_code& ec) {
                           self->waiting_ = false;
                           if (!ec) self->on_readable();
                         });
}

void ListenerCore::on_readable() {
  for (unsigned taken = 0; !stopped_ && taken < kMostAtOnce; ++taken) {
    net::Endpoint peer;
    peer.length = sizeof(peer.address);
    net::Connected connected;
    connected.socket =
        net::Socket(::accept4(descriptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer.address),
                              &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connected.socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return wait();
      const Error why = system_error(errno, "accept");
      if (const uint64_t n = failures_.hit())
        log::warn("software RDMA: accept: {} (failure {})", describe(why), n);
      pause_.expires_after(kPause);
      pause_.async_wait([self = shared_from_this()](const asio::error_code& ec) {
        if (!ec) self->wait();
      });
      return;
    }
    const auto times = net::dead_peer_times(options_.timeo, options_.retrans);
    const Result<net::Endpoint> local = net::local_endpoint(connected.socket.get());
    if (!net::configure(connected.socket.get(), times) || !local) continue;  // already disconnected
    connected.peer = net::to_string(peer);
    connected.local = net::to_string(*local);
    std::string address = net::address_in(connected.peer);
    loop_.spawn(start_up(shared_from_this(), std::move(connected), std::move(address)));
  }
  wait();  // the loop does its other work first
}

Task<> ListenerCore::start_up(std::shared_ptr<ListenerCore> self, net::Connected connected,
                              std::string address) {
  StartupSocket startup(self->loop_, std::move(connected.socket),
                        Clock::now() + self->options_.startup_timeout);
  self->make_room();
  self->startups_.push_back({&startup, std::move(address)});
  Result<StartupFrame> request = co_await startup.read_request();
  std::erase_if(self->startups_, [&](const Startup& s) { return s.socket == &startup; });
  if (self->stopped_) co_return;
  connected.socket = startup.release();
  if (!request) {
    log::debug("software RDMA: {}: {}", connected.peer, describe(request.error()));
    co_return;
  }
  // "If the MPA receiver cannot interoperate with the received version, then it MUST close the connection."
  if (!known_revision(*request)) co_return;
  const bool markers = request->markers;
  auto incoming = std::make_unique<IwarpIncoming>(self->loop_, self->options_, std::move(connected),
                                                  std::move(*request), self->violations_);
  if (markers) co_return;  // its destructor refuses the peer: it cannot be accepted
  self->on_incoming_(std::move(incoming));
}

Result<std::unique_ptr<Listener>> make_listener(Loop& loop, const Options& options,
                                                const std::string& address, uint16_t port,
                                                OnIncoming on_incoming) {
  Result<net::Socket> socket = open_socket(address, port);
  if (!socket) return fail(std::move(socket).error());
  const Result<net::Endpoint> bound = net::local_endpoint(socket->get());
  if (!bound) return fail(bound.error());
  auto core = std::make_shared<ListenerCore>(loop, options, std::move(*socket), std::move(on_incoming));
  core->begin();
  return std::make_unique<IwarpListener>(std::move(core), bound->port());
}

}  // namespace nfsrdma::fabric::iwarp
