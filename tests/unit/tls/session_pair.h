// SPDX-License-Identifier: Apache-2.0
// Two ends of a TLS session over a socket pair, in one thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/unit/support/certificates.h"
#include "transport/runtime/fd.h"
#include "transport/tls/stream.h"
#include "xdr/support/error.h"

namespace nfsrdma::test {

// A stream socket pair, both ends non-blocking.
struct SocketPair {
  SocketPair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    client = Fd(ends[0]);
    server = Fd(ends[1]);
  }
  Fd client, server;
};

struct SessionPair {
  SocketPair sockets;
  std::unique_ptr<tls::Stream> client, server;
  std::optional<Error> client_error, server_error;

  SessionPair(const tls::Settings& client_settings, const tls::Settings& server_settings,
              const std::string& host = "filer.example", bool mutual = false) {
    auto client_context = tls::Context::client(client_settings);
    auto server_context = tls::Context::server(server_settings, mutual);
    EXPECT_TRUE(client_context) << describe(client_context.error());
    EXPECT_TRUE(server_context) << describe(server_context.error());
    client = *tls::Stream::connect(*client_context, sockets.client.get(), host);
    server = *tls::Stream::accept(*server_context, sockets.server.get());
  }

  // Until both ends are done, or have failed, or wait for each other.
  bool shake_hands() {
    bool client_done = false, server_done = false;
    for (int i = 0; i < 20 && !(client_done && server_done); ++i) {
      step(*client, client_done, client_error);
      step(*server, server_done, server_error);
    }
    return client_done && server_done;
  }

 private:
  static void step(tls::Stream& end, bool& done, std::optional<Error>& error) {
    if (done || error) return;
    const auto step = end.handshake();
    if (!step) {
      error = step.error();
    } else {
      done = *step == tls::Stream::Step::kDone;
    }
  }
};

}  // namespace nfsrdma::test
