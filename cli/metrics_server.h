// SPDX-License-Identifier: Apache-2.0
// MetricsServer: GET /metrics over HTTP, on a TCP address or a UNIX socket, for Prometheus and the like.
//
// libmicrohttpd speaks HTTP; its sockets are watched by the io_context that it is given, the control
// thread's, so that no client can delay a request of the mount. What a client can take is bounded: 8
// connections at once, each for 10 seconds and one request, 16 KiB of memory each; and the text is made at
// most four times a second, those who ask in between get the last one. There is no authentication: whoever
// reaches the address reads the numbers, which carry the names of the export and the mount point. The file of
// a UNIX socket has the mode 0600.
//
// Created and destroyed on the thread that runs the context. The destructor closes everything and removes the
// socket's file, unless another socket stands there by now.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/metrics_place.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

class MetricsServer {
 public:
  static constexpr unsigned kMaxConnections = 8;
  static constexpr std::chrono::milliseconds kConnectionTime{10'000};
  static constexpr std::chrono::milliseconds kTextTime{250};
  static constexpr size_t kConnectionMemory = 16u << 10;

  using MakeText = std::function<std::string()>;

  // `place.port` 0: any that is free (tests).
  static Outcome<std::unique_ptr<MetricsServer>> create(
      asio::io_context& context, const MetricsPlace& place, MakeText make_text,
      std::chrono::milliseconds connection_time = kConnectionTime);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;  // 0 of a UNIX socket
  size_t connections() const;

 private:
  class Impl;
  explicit MetricsServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::cli
