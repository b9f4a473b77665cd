// SPDX-License-Identifier: Apache-2.0
// A TcpTransport on its own loop. Tests use it from their thread, with futures.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/peer.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/tcp/tcp_transport.h"

namespace nfsrdma::test {

// Options for a server on 127.0.0.1, with so short a back-off that a reconnect does not slow down a test.
inline tcp::TcpOptions quick_options(uint16_t port) {
  tcp::TcpOptions o;
  o.host = "127.0.0.1";
  o.port = port;
  o.backoff_first = std::chrono::milliseconds(1);
  o.backoff_max = std::chrono::milliseconds(4);
  return o;
}

class Rig {
 public:
  explicit Rig(tcp::TcpOptions options, rpc::TransportHooks hooks = {})
      : transport_(tcp::make_tcp_transport(*loop_, std::move(options), std::move(hooks))) {}
  ~Rig() { close(); }

  Result<> start() { return run_on(*loop_, transport_->start()); }
  void must_start() {
    const Result<> r = start();
    if (r) return;
    close();  // pending calls end then; they do not wait for a start()
    FAIL() << describe(r.error());
  }
  void close() {
    if (closed_) return;
    closed_ = true;
    run_on(*loop_, transport_->close());
    EXPECT_TRUE(eventually([&] { return loop_->live_tasks() == 0; })) << "close() left a coroutine";
  }

  // Makes a call from the test's thread. The future is ready when the reply has arrived.
  std::future<rpc::Outcome> call(rpc::Call call) {
    return start_on(*loop_, call_on_loop(&*transport_, std::move(call)));
  }
  std::future<rpc::Outcome> call(ConstBytes arguments, bool handshake = false) {
    rpc::Call c;
    c.op = "TEST";
    c.head = call_head(arguments);
    c.handshake = handshake;
    return call(std::move(c));
  }
  // Makes a call whose reply carries read_results() of up to `size` bytes.
  std::future<rpc::Outcome> read(Slice destination, size_t expected_offset = kReadDataOffset,
                                 PipePool* pipes = nullptr) {
    rpc::Call c;
    c.op = "READ";
    c.head = call_head();
    c.sink = {std::move(destination), locate_read, expected_offset, pipes};
    return call(std::move(c));
  }

  Loop& loop() { return *loop_; }
  rpc::RpcTransport& transport() { return *transport_; }
  rpc::TransportStatus status() const { return transport_->status(); }
  bool reaches(rpc::TransportState state) {
    return eventually([&] { return status().state == state; });
  }
  BufferPool& pool() { return pool_; }

  static Task<rpc::Outcome> call_on_loop(rpc::RpcTransport* t, rpc::Call call) {
    co_return co_await t->call(call);
  }

 private:
  BufferPool pool_;
  LoopThread loop_;
  std::unique_ptr<rpc::RpcTransport> transport_;
  bool closed_ = false;
};

inline std::string text(const rpc::Outcome& o) {
  return o.reply ? "a reply" : describe(o.reply.error());
}

// The number of descriptors that this process has open; must be the same before and after a test.
size_t open_descriptors();

}  // namespace nfsrdma::test
