// SPDX-License-Identifier: Apache-2.0
// A server for tests: real sockets on loopback, driven by a script in its own thread.
//
// The script is ordinary blocking code: accept, read a record, write bytes. Every blocking step ends after
// kPatience with a test failure. So a defect gives a failed test and not a hanging one, and no test passes by
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
#include "transport/net/endpoint.h"

namespace nfsrdma::test {

class PeerSocket {
 public:
  PeerSocket() = default;
  explicit PeerSocket(net::Socket socket);

  // The next record, with its fragments joined; `fragments` receives their lengths. nullopt: the client
  // closed the connection.
  std::optional<ByteVector> read_record(std::vector<size_t>* fragments = nullptr);
  // Exactly n bytes, or fewer if the client closed the connection.
  ByteVector read_bytes(size_t n);
  // True if the client closes the connection, with or without reset, before anything else arrives.
  bool closed_by_client();
  // False if the client has closed the connection.
  bool write(ConstBytes bytes);
  bool write_record(ConstBytes message, size_t fragment = 0) { return write(record(message, fragment)); }
  void close() { socket_ = net::Socket(); }
  // Ends the connection with an RST.
  void reset();
  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

 private:
  net::Socket socket_;
};

// Reads a call and replies with its arguments.
void answer_one(PeerSocket& s);

class Listener {
 public:
  explicit Listener(const char* address = "127.0.0.1", uint16_t port = 0, int backlog = 64);
  uint16_t port() const { return port_; }
  PeerSocket accept();
  // True if no client is waiting to be accepted.
  bool quiet();
  void close() { socket_ = net::Socket(); }

 private:
  net::Socket socket_;
  uint16_t port_ = 0;
};

// A listener and the thread of its script. The destructor joins the thread.
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
