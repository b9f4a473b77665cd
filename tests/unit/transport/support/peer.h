// SPDX-License-Identifier: Apache-2.0
// A server for tests: real sockets on loopback, driven by a script that runs in a thread of its own.
//
// The script is ordinary blocking code: accept, read a record, write bytes. Every blocking step ends after
// kPatience with a test failure, so a defect shows as a failed test and not as a hung one; no test passes by
// waiting.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/rpc_bytes.h"
#include "transport/tcp/endpoint.h"

namespace nfsrdma::test {

class PeerSocket {
 public:
  PeerSocket() = default;
  explicit PeerSocket(tcp::Socket socket);

  // The next record, fragments joined; the lengths of its fragments in `fragments`. nullopt: the client
  // closed.
  std::optional<ByteVector> read_record(std::vector<size_t>* fragments = nullptr);
  // Exactly n bytes, or fewer if the client closed.
  ByteVector read_bytes(size_t n);
  // True when the client closes, with or without reset, before anything else arrives.
  bool closed_by_client();
  // False when the client is gone.
  bool write(ConstBytes bytes);
  bool write_record(ConstBytes message, size_t fragment = 0) { return write(record(message, fragment)); }
  void close() { socket_ = tcp::Socket(); }
  // Ends the connection with a RST.
  void reset();
  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

 private:
  tcp::Socket socket_;
};

class Listener {
 public:
  explicit Listener(const char* address = "127.0.0.1", uint16_t port = 0, int backlog = 64);
  uint16_t port() const { return port_; }
  PeerSocket accept();
  // True when no client is waiting to be accepted.
  bool quiet();
  void close() { socket_ = tcp::Socket(); }

 private:
  tcp::Socket socket_;
  uint16_t port_ = 0;
};

// A listener and the thread of its script; joined by the destructor.
class Peer {
 public:
  using Script = std::function<void(Listener&)>;
  explicit Peer(Script script) : thread_([this, script = std::move(script)] { script(listener_); }) {}
  ~Peer() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const { return listener_.port(); }

 private:
  Listener listener_;
  std::thread thread_;
};

}  // namespace nfsrdma::test
