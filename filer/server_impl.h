// SPDX-License-Identifier: Apache-2.0
// Server::Impl: the sockets of a Server, connected to Core and Dispatcher. Private to server*.cc.
//
// Handlers of acceptors and timers hold weak references, so they do nothing after the Server is gone. While
// the object exists, `closed` tells them to stop. `links` is guarded by the server's lock; messages of a link
// that is not in it are ignored.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <thread>

#include "filer/dispatcher.h"
#include "filer/links/crowd.h"
#include "filer/links/peer_check.h"
#include "filer/links/rdma_link.h"
#include "filer/links/tcp_link.h"
#include "filer/server.h"
#include "transport/runtime/log.h"

namespace nfsrdma::filer {

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  Impl(nfs::Options options, Loop* loop);

  Result<> open();
  Result<> export_directories();
  void forget_removed_later();
  void start_thread();
  void shut_down();

  // Runs `fn` on the loop and returns when it is done. On the loop's own thread it runs `fn` directly.
  void on_loop(const std::function<void()>& fn);
  Result<> listen_ol(uint16_t port);
  void accept_ol();
  // Returns whether one more connection is possible. At the limit another connection is closed for it
  // (links/crowd.h).
  bool make_room();
  void look_at_links();
  void held_changed(const links::LinkPtr& link);
  void relieve();
  void let_go(const std::vector<links::LinkPtr>& going);
  void accepted_ol(asio::ip::tcp::socket socket);
  Result<> listen_rdma_ol(uint16_t port);
  void make_rdma_fabrics();
  // A fabric; `has_sockets`: its connections are sockets of this machine's kernel.
  struct RdmaFabric {
    std::unique_ptr<fabric::Fabric> fabric;
    bool has_sockets;
  };
  Result<> listen_over(const RdmaFabric& fabric, uint16_t port);
  Task<> accept_rdma(std::unique_ptr<fabric::Incoming> incoming, bool has_sockets);
  links::LinkEvents link_events();
  template <class Make>
  void add_link(std::string address, bool believed, Make make);
  // Returns whether calls of this peer are executed; logs the reason if not.
  bool is_believed(const std::optional<asio::ip::tcp::endpoint>& remote,
                   const std::optional<asio::ip::tcp::endpoint>& local, bool has_socket);
  void after(std::chrono::milliseconds delay, std::function<void()> fn);

  void stop_listening();
  void restart(RestartOptions options);
  void set_target_slots(uint32_t slots);
  void close_links(bool abort);
  links::LinkPtr find_link(links::LinkId id) const;
  void for_path(std::string_view path, const std::function<void(tree::Node&)>& visit);

  std::unique_ptr<Loop> own_loop;
  Loop& loop;
  std::thread thread;
  asio::ip::tcp::acceptor acceptor;
  uint16_t port = 0;
  BufferPool pool;  // the buffers that RDMA devices copy from and to
  std::vector<RdmaFabric> rdma_fabrics;
  std::vector<std::unique_ptr<fabric::Listener>> rdma_listeners;
  uint16_t rdma_port = 0;
  size_t fragment_bytes = 0;
  std::shared_ptr<links::TlsDoor> tls_door;  // null: no TLS
  bool closed = false;                       // loop thread

  FaultPlan faults;
  nfs::Core core;
  Dispatcher dispatcher;
  std::map<links::LinkId, links::LinkPtr> links;
  std::map<links::LinkId, links::LinkPtr> closing;  // told to close; kept until their on_closed event
  links::LinkId next_link = 1;
  // Loop thread: the bytes that each link last reported as held, and their sum.
  std::map<links::LinkId, size_t> held;
  size_t held_bytes = 0;
  bool relieving = false;
  log::Throttle turned_away;
  log::Throttle let_go_;
  log::Throttle not_believed;
};

}  // namespace nfsrdma::filer
