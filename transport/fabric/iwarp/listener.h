// SPDX-License-Identifier: Apache-2.0
// The passive side of software RDMA: accepts TCP connections, reads the MPA request of each, and passes it to
// its owner as an Incoming.
//
// At most max_startups connections wait for their MPA request, each for at most startup_timeout. If one more
// arrives, the oldest connection from the address with most of them is closed: so silent peers do not keep
// out others. Loop thread only.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "transport/fabric/iwarp/iwarp.h"
#include "transport/fabric/iwarp/startup.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::iwarp {

using OnIncoming = std::function<void(std::unique_ptr<Incoming>)>;

// Shared by the listener and the coroutines and handlers that it started.
class ListenerCore final : public std::enable_shared_from_this<ListenerCore> {
 public:
  ListenerCore(Loop& loop, const Options& options, net::Socket socket, OnIncoming on_incoming);
  void begin();
  void stop();

 private:
  void wait();
  void on_readable();
  static Task<> start_up(std::shared_ptr<ListenerCore> self, net::Connected connected, std::string address);
  void make_room();

  Loop& loop_;
  const Options options_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer pause_;  // after accept() failed for lack of resources
  OnIncoming on_incoming_;
  log::Throttle failures_;  // of accept()
  const std::shared_ptr<log::Throttle> violations_ = std::make_shared<log::Throttle>();
  struct Startup {
    StartupSocket* socket;
    std::string address;
  };
  std::list<Startup> startups_;  // in the order of their arrival
  bool waiting_ = false;
  bool stopped_ = false;
};

class IwarpListener final : public Listener {
 public:
  IwarpListener(std::shared_ptr<ListenerCore> core, uint16_t port) : core_(std::move(core)), port_(port) {}
  ~IwarpListener() override { core_->stop(); }
  uint16_t port() const override { return port_; }

 private:
  const std::shared_ptr<ListenerCore> core_;
  const uint16_t port_;
};

// Errors: kTransport, op "listen", with the errno of the failed call.
Result<std::unique_ptr<Listener>> make_listener(Loop& loop, const Options& options,
                                                const std::string& address, uint16_t port,
                                                OnIncoming on_incoming);

}  // namespace nfsrdma::fabric::iwarp
