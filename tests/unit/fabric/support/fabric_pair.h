// SPDX-License-Identifier: Apache-2.0
// Two endpoints of one fabric, connected to each other, on one loop with its thread, and the events that each
// of them got. Tests run in their own thread and use on_loop() for work on the loop.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "tests/unit/transport/support/peer.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/fabric/fabric.h"

namespace nfsrdma::test {

using fabric::Cookie;

// One end: the endpoint and its events. Any thread may call the functions that report events.
class Side final : public fabric::EndpointEvents {
 public:
  void on_receive(fabric::Received received) override;
  void on_completed(Cookie cookie) override;
  void on_invalidated(Cookie cookie) override;
  void on_disconnected(const Error& why) override;

  fabric::Endpoint* operator->() { return endpoint.get(); }

  size_t received() const;
  ByteVector message(size_t i) const;
  uint32_t invalidated(size_t i) const;
  std::vector<Cookie> completed() const;
  std::vector<Cookie> done_invalidating() const;
  std::vector<Error> disconnected() const;
  // True if no event came after on_disconnected().
  bool silent_after_the_end() const;

  bool receives(size_t n) {
    return eventually([&] { return received() >= n; });
  }
  bool completes(size_t n) {
    return eventually([&] { return completed().size() >= n; });
  }
  bool disconnects() {
    return eventually([&] { return !disconnected().empty(); });
  }

  std::unique_ptr<fabric::Endpoint> endpoint;
  // Called on the loop, during the event. To be set before anything can arrive.
  std::function<void(fabric::Received)> hook;

 private:
  void note();
  mutable std::mutex mutex_;
  std::vector<ByteVector> messages_;
  std::vector<uint32_t> invalidated_;
  std::vector<Cookie> completed_;
  std::vector<Cookie> done_invalidating_;
  std::vector<Error> disconnected_;
  bool after_the_end_ = false;
};

using MakeFabric = std::function<std::unique_ptr<fabric::Fabric>(Loop&)>;

class FabricPair {
 public:
  explicit FabricPair(const MakeFabric& make, std::string address = "127.0.0.1");
  ~FabricPair();

  // Connects and starts both ends, with the options of the active and the passive side.
  void connect(fabric::EndpointOptions active = {}, fabric::EndpointOptions passive = {});
  // Connects both ends and does not start them.
  void connect_only(fabric::EndpointOptions active, fabric::EndpointOptions passive);
  void start();

  template <class F>
  auto on_loop(F f) {
    return call_on(*loop_, std::move(f));
  }
  Loop& loop() { return *loop_; }
  fabric::Fabric& fabric() { return *fabric_; }
  const std::string& address() const { return address_; }

  // Exposes memory of `side` to the other side.
  std::vector<rpcrdma::segment> expose(Side& side, MutableBytes memory, fabric::Access access);
  void send(Side& side, ConstBytes message, uint32_t invalidate = 0);
  // True when it has completed, at once or later, or when the connection has ended.
  bool invalidate(Side& side, const std::vector<rpcrdma::segment>& segments);
  bool revoke(Side& side, const std::vector<rpcrdma::segment>& segments);
  void destroy(Side& side);

  Side active;
  Side passive;

 private:
  static Task<Result<std::unique_ptr<fabric::Endpoint>>> accept(fabric::Incoming* incoming,
                                                                fabric::EndpointOptions options);
  LoopThread loop_;
  const std::string address_;
  std::unique_ptr<fabric::Fabric> fabric_;
};

}  // namespace nfsrdma::test
