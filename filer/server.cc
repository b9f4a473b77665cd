// SPDX-License-Identifier: Apache-2.0
#include "filer/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <future>
#include <random>

#include "filer/server_impl.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/net/endpoint.h"
#include "transport/rdma/endpoint_options.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::filer {

using asio::ip::tcp;

namespace {

// A request may exceed the session's limit by up to 256 KiB and is answered NFS4ERR_REQ_TOO_BIG. A larger one
// ends the connection.
size_t max_record(const nfs::Options& options) {
  return size_t{options.limits.max_request_bytes} + (256u << 10);
}

}  // namespace

Server::Impl::Impl(nfs::Options options, Loop* given)
    : own_loop(given == nullptr ? std::make_unique<Loop>() : nullptr),
      loop(given == nullptr ? *own_loop : *given),
      acceptor(loop.context()),
      core(options, {.find_link = [this](links::LinkId id) { return find_link(id); },
                     .after =
                         [this](std::chrono::milliseconds delay, std::function<void()> fn) {
                           after(delay, [this, fn = std::move(fn)] {
                             MutexLock lock(core.mutex);
                             fn();
                           });
                         },
                     .notify = [this] { core.changed.notify_all(); }}),
      dispatcher(core, faults,
                 {.after = [this](std::chrono::milliseconds delay,
                                  std::function<void()> fn) { after(delay, std::move(fn)); },
                  .restart = [this](bool forget) { restart({.forget_reclaims = forget}); },
                  .target_slots = [this](uint32_t slots) { set_target_slots(slots); }}) {
  faults.set_post([this](std::function<void()> fn) {
    loop.post([weak = weak_from_this(), fn = std::move(fn)] {
      if (const auto self = weak.lock(); self && !self->closed) fn();
    });
  });
}

Result<> Server::Impl::open() {
  NFSRDMA_TRY(export_directories());
  if (core.options.kerberos) {
    auto contexts = security::GssContexts::open(core.options.keytab, core.options.accounts);
    if (!contexts) return fail(std::move(contexts).error());
    dispatcher.accept_contexts(*std::move(contexts));
  }
  if (core.options.tls) {
    auto door = links::TlsDoor::open(*core.options.tls, core.options.tls_policy);
    if (!door) return fail(std::move(door).error());
    tls_door = *std::move(door);
  }
  // Connections use at most half of the process's file descriptors, so that accept(2) does not fail for lack
  // of one.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0)
    core.options.max_links = std::clamp<size_t>(files.rlim_cur / 2, 1, core.options.max_links);
  Result<> listening;
  on_loop([&] {
    listening = listen_ol(core.options.port);
    if (listening && core.options.rdma.listen) listening = listen_rdma_ol(core.options.rdma.port);
    look_at_links();
  });
  return listening;
}

Result<> Server::Impl::export_directories() {
  tree::HandleKey key{};
  if (core.options.state_directory.empty()) {
    std::random_device random;
    for (uint64_t& word : key) word = uint64_t{random()} << 32 | random();
  } else {
    auto storage = state::StableStorage::open(core.options.state_directory);
    if (!storage) return fail(std::move(storage).error());
    key = (*storage)->key();
    core.remember_from(*std::move(storage));
  }
  for (tree::HostExport directory : core.options.directories) {
    directory.exports = core.options.directories.size();
    NFSRDMA_TRY(core.tree.add_directory(directory, key));
    core.tree.set_flavors(directory.path, core.flavors_of(directory.path));
  }
  if (!core.options.directories.empty()) forget_removed_later();
  return {};
}

// Runs every second even when no client calls: a file that the host's programs removed takes disk space until
// the server lets go of it.
void Server::Impl::forget_removed_later() {
  after(std::chrono::seconds(1), [this] {
    {
      MutexLock lock(core.mutex);
      core.tree.forget_removed();
    }
    forget_removed_later();
  });
}

void Server::Impl::start_thread() {
  if (own_loop) thread = std::thread([this] { loop.run(); });
}

void Server::Impl::on_loop(const std::function<void()>& fn) {
  if (loop.on_loop()) return fn();
  std::promise<void> done;
  loop.post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

void Server::Impl::after(std::chrono::milliseconds delay, std::function<void()> fn) {
  auto timer = std::make_shared<asio::steady_timer>(loop.context());
  loop.post([weak = weak_from_this(), timer, delay, fn = std::move(fn)] {
    timer->expires_after(delay);
    timer->async_wait([weak, timer, fn](const asio::error_code& ec) {
      if (const auto self = weak.lock(); self && !self->closed && !ec) fn();
    });
  });
}

Result<> Server::Impl::listen_ol(uint16_t wanted) {
  asio::error_code ec;
  const auto address = asio::ip::make_address(core.options.address, ec);
  if (ec) return fail(system_error(EINVAL, "listen", "'" + core.options.address + "' is not an address"));
  const tcp::endpoint endpoint(address, wanted);
  if (!ec) acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    asio::error_code ignored;
    acceptor.close(ignored);
    return fail(system_error(ec.value(), "listen", core.options.address + ":" + std::to_string(wanted)));
  }
  port = acceptor.local_endpoint().port();
  accept_ol();
  return {};
}

void Server::Impl::accept_ol() {
  // A weak pointer: a handler that stays in a stopped loop must not keep the server alive.
  acceptor.async_accept([weak = weak_from_this()](const asio::error_code& ec, tcp::socket socket) {
    const auto self = weak.lock();
    if (!self || ec == asio::error::operation_aborted || self->closed || !self->acceptor.is_open()) return;
    if (!ec) {
      self->accepted_ol(std::move(socket));
      self->accept_ol();
    } else {
      // Most likely no file descriptor is free; an immediate retry would fail again.
      self->after(std::chrono::milliseconds(100), [self = self.get()] { self->accept_ol(); });
    }
  });
}

links::LinkEvents Server::Impl::link_events() {
  links::LinkEvents events;
  events.on_message = [weak = weak_from_this()](const links::LinkPtr& link, ByteVector message) {
    const auto self = weak.lock();
    if (!self || self->closed) return;
    {
      MutexLock lock(self->core.mutex);
      if (!self->links.contains(link->id())) return;
      link->standing.heard = Clock::now();
    }
    self->dispatcher.received(link, std::move(message));
  };
  events.on_header = [weak = weak_from_this()](const links::LinkPtr& link, const rpcrdma::header& header) {
    const auto self = weak.lock();
    return self ? self->dispatcher.header(link, header) : std::nullopt;
  };
  events.on_held = [weak = weak_from_this()](const links::LinkPtr& link) {
    if (const auto self = weak.lock()) self->held_changed(link);
  };
  events.on_closed = [weak = weak_from_this()](const links::LinkPtr& link) {
    const auto self = weak.lock();
    if (!self) return;
    if (const auto at = self->held.find(link->id()); at != self->held.end()) {
      self->held_bytes -= at->second;
      self->held.erase(at);
    }
    {
      MutexLock lock(self->core.mutex);
      self->links.erase(link->id());
      self->closing.erase(link->id());
    }
    self->dispatcher.closed(link->id());
  };
  return events;
}

template <class Make>
void Server::Impl::add_link(std::string address, bool believed, Make make) {
  decltype(make(links::LinkId{})) link;
  {
    MutexLock lock(core.mutex);
    const links::LinkId id = next_link++;
    link = make(id);
    link->standing.address = std::move(address);
    link->standing.accepted = link->standing.heard = Clock::now();
    link->set_believed(believed);
    links.emplace(id, link);
    core.changed.notify_all();
  }
  if (dispatcher.accepted(link)) link->start();
}

void Server::Impl::let_go(const std::vector<links::LinkPtr>& going) {
  for (const links::LinkPtr& link : going) {
    {
      MutexLock lock(core.mutex);
      if (links.erase(link->id()) == 0) continue;
      closing.emplace(link->id(), link);
    }
    link->close(true);
  }
}

bool Server::Impl::make_room() {
  links::LinkPtr goes;
  size_t there = 0;
  {
    MutexLock lock(core.mutex);
    there = links.size();
    if (there < core.options.max_links) return true;
    goes = links::crowd::goes_for_another(links, core.options.max_links);
  }
  if (const uint64_t n = turned_away.hit())
    log::warn("filer: {} connections: for a new one {} goes ({} so far)", there,
              goes ? "one of " + goes->standing.address : "itself", n);
  if (!goes) return false;
  let_go({goes});
  return true;
}

// Ends connections whose peer owes data or does not receive replies for too long, and idle connections that
// have never used a session.
void Server::Impl::look_at_links() {
  const nfs::Options& o = core.options;
  const TimePoint now = Clock::now();
  std::vector<links::LinkPtr> all, idle;
  {
    MutexLock lock(core.mutex);
    for (const auto& [id, link] : links) all.push_back(link);
    idle = links::crowd::idle_since(links, now - o.idle_without_session);
  }
  let_go(idle);
  for (const links::LinkPtr& link : all) {
    link->look(now);
    held_changed(link);
  }
  const auto shortest = std::min({o.idle_without_session, o.patience, o.rdma.responder.read_deadline});
  const std::chrono::milliseconds least(10), most(1000);
  after(std::clamp(shortest / 4, least, most), [this] { look_at_links(); });
}

void Server::Impl::held_changed(const links::LinkPtr& link) {
  const size_t now = link->held_bytes();
  size_t& told = held[link->id()];
  held_bytes += now - std::exchange(told, now);
  if (now == 0) held.erase(link->id());
  if (held_bytes <= core.options.max_held_bytes || std::exchange(relieving, true)) return;
  loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->closed) self->relieve();
  });
}

// Closes connections until the others hold at most three quarters of the limit, so that the next bytes do not
// exceed it again at once.
void Server::Impl::relieve() {
  relieving = false;
  std::vector<links::LinkPtr> going;
  {
    MutexLock lock(core.mutex);
    const size_t most = core.options.max_held_bytes;
    going = links::crowd::hold_too_much(links, most - most / 4);
  }
  if (going.empty()) return;
  if (const uint64_t n = let_go_.hit())
    log::warn("filer: connections hold {} bytes: {} of {} go, which hold most (time {})", held_bytes,
              going.size(), going.front()->standing.address, n);
  let_go(going);
}

void Server::Impl::accepted_ol(tcp::socket socket) {
  if (!make_room()) return;
  asio::error_code ec;
  const tcp::endpoint remote = socket.remote_endpoint(ec);
  const tcp::endpoint local = ec ? tcp::endpoint() : socket.local_endpoint(ec);
  if (ec) return;  // the peer has closed the connection already
  add_link(remote.address().to_string(), is_believed(remote, local, true), [&](links::LinkId id) {
    return std::make_shared<links::TcpLink>(loop, std::move(socket), id, link_events(),
                                            max_record(core.options), fragment_bytes, core.options.patience,
                                            tls_door);
  });
}

bool Server::Impl::is_believed(const std::optional<tcp::endpoint>& remote,
                               const std::optional<tcp::endpoint>& local, bool has_socket) {
  const links::Believed whom = core.options.believed;
  if (whom == links::Believed::kEverybody) return true;
  std::optional<std::string> why = "its address is not known";
  if (remote && local) why = links::why_not_believed(whom, {*remote, *local, has_socket});
  if (!why) return true;
  if (const uint64_t n = not_believed.hit())
    log::warn("filer: a caller from {} is refused, for {}; --insecure takes everybody ({} so far)",
              remote ? remote->address().to_string() : "an unknown address", *why, n);
  return false;
}

void Server::Impl::make_rdma_fabrics() {
  if (!rdma_fabrics.empty()) return;
  const nfs::RdmaListenOptions& rdma = core.options.rdma;
  if (rdma.software) rdma_fabrics.push_back({fabric::iwarp::make_fabric(loop), true});
  if (rdma.devices && (!rdma.software || fabric::verbs::missing({}).empty()))
    rdma_fabrics.push_back(
        {fabric::verbs::make_fabric(loop, {}, fabric::verbs::make_shared_domains(pool)), false});
}

// All fabrics listen on one port. An iWARP device and software RDMA cannot both own a TCP port; the one that
// has it serves both kinds of clients. Listening therefore fails only if no fabric can listen.
Result<> Server::Impl::listen_rdma_ol(uint16_t wanted) {
  make_rdma_fabrics();
  std::optional<Error> failed;
  for (const RdmaFabric& fabric : rdma_fabrics) {
    const uint16_t there = rdma_listeners.empty() ? wanted : rdma_port;
    Result<> listening = listen_over(fabric, there);
    if (!listening) log::info("filer: {}: {}", fabric.fabric->name(), describe(listening.error()));
    if (!listening && !failed) failed = std::move(listening).error();
  }
  if (rdma_listeners.empty()) return fail(*std::move(failed));
  return {};
}

Result<> Server::Impl::listen_over(const RdmaFabric& fabric, uint16_t wanted) {
  const nfs::RdmaListenOptions& rdma = core.options.rdma;
  auto listener =
      fabric.fabric->listen(rdma.address.empty() ? core.options.address : rdma.address, wanted,
                            [weak = weak_from_this(),
                             has_sockets = fabric.has_sockets](std::unique_ptr<fabric::Incoming> incoming) {
                              const auto self = weak.lock();
                              if (self && !self->closed)
                                self->loop.spawn(self->accept_rdma(std::move(incoming), has_sockets));
                            });
  if (!listener) return fail(std::move(listener).error());
  rdma_port = (*listener)->port();
  rdma_listeners.push_back(*std::move(listener));
  return {};
}

Task<> Server::Impl::accept_rdma(std::unique_ptr<fabric::Incoming> incoming, bool has_sockets) {
  const auto self = shared_from_this();
  if (!make_room()) co_return incoming->refuse();
  const rdma::ResponderOptions& responder = core.options.rdma.responder;
  rpcrdma::private_data ours;
  ours.remote_invalidation = responder.invalidate;
  ours.send_bytes = ours.receive_bytes = responder.inline_bytes;
  // Receives: one for each call, one for each reply to a callback, one for the connection properties (version
  // 2).
  const unsigned receives = responder.credits + responder.callback_credits + 1;
  fabric::EndpointOptions options = rdma::make_endpoint_options(responder.receive_bytes, receives, ours);
  Result<std::unique_ptr<fabric::Endpoint>> endpoint = co_await incoming->accept(std::move(options));
  if (!endpoint || closed || rdma_listeners.empty() || !make_room()) co_return;
  const std::string peer = (*endpoint)->peer();
  const bool believed =
      is_believed(links::endpoint_of(peer), links::endpoint_of((*endpoint)->local()), has_sockets);
  add_link(nfsrdma::net::address_in(peer), believed, [&](links::LinkId id) {
    return std::make_shared<links::RdmaLink>(loop, *std::move(endpoint), id, link_events(), responder,
                                             core.options.patience);
  });
}

links::LinkPtr Server::Impl::find_link(links::LinkId id) const {
  const auto at = links.find(id);
  return at == links.end() ? nullptr : at->second;
}

void Server::Impl::close_links(bool abort) {
  std::map<links::LinkId, links::LinkPtr> gone;
  {
    MutexLock lock(core.mutex);
    gone = std::exchange(links, {});
    closing.insert(gone.begin(), gone.end());
  }
  for (const auto& [id, link] : gone) link->close(abort);
}

void Server::Impl::stop_listening() {
  on_loop([this] {
    asio::error_code ignored;
    acceptor.close(ignored);
    rdma_listeners.clear();
  });
}

void Server::Impl::restart(RestartOptions options) {
  {
    MutexLock lock(core.mutex);
    core.restart(options.forget_reclaims);
  }
  close_links(false);
}

void Server::Impl::shut_down() {
  on_loop([this] {
    closed = true;
    asio::error_code ignored;
    acceptor.close(ignored);
    rdma_listeners.clear();
  });
  close_links(true);
  on_loop([] {});  // returns after the loop has carried out the closes above
  if (own_loop) {
    loop.stop();
    thread.join();
  }
}

Result<std::unique_ptr<Server>> Server::start(nfs::Options options, Loop* loop) {
  auto impl = std::make_shared<Impl>(std::move(options), loop);
  impl->start_thread();
  std::unique_ptr<Server> server(new Server(impl));
  NFSRDMA_TRY(impl->open());
  return server;
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() {
  impl_->shut_down();
}

uint16_t Server::port() const {
  return impl_->port;
}
uint16_t Server::rdma_port() const {
  return impl_->rdma_port;
}
FaultPlan& Server::faults() {
  return impl_->faults;
}

void Server::configure(const std::function<void(nfs::Switches&)>& change) {
  MutexLock lock(impl_->core.mutex);
  change(impl_->core.switches);
  impl_->core.apply_switches();
}

void Server::with_core(const std::function<void(nfs::Core&)>& visit) {
  MutexLock lock(impl_->core.mutex);
  visit(impl_->core);
  impl_->core.changed.notify_all();
}

void Server::restart(RestartOptions options) {
  impl_->restart(options);
}

void Server::go_down() {
  impl_->stop_listening();
  impl_->close_links(false);
}

Result<> Server::come_up(RestartOptions options) {
  impl_->restart(options);
  Result<> listening;
  impl_->on_loop([&] {
    listening = impl_->listen_ol(impl_->port);
    if (listening && impl_->rdma_port != 0) listening = impl_->listen_rdma_ol(impl_->rdma_port);
  });
  return listening;
}

void Server::drop_connections(bool abort) {
  impl_->close_links(abort);
}

size_t Server::connections() {
  MutexLock lock(impl_->core.mutex);
  return impl_->links.size();
}

void Server::pause_reading(bool pause) {
  MutexLock lock(impl_->core.mutex);
  for (const auto& [id, link] : impl_->links) link->pause_reading(pause);
}

void Server::fragment_replies(size_t bytes) {
  MutexLock lock(impl_->core.mutex);
  impl_->fragment_bytes = bytes;
}

}  // namespace nfsrdma::filer
