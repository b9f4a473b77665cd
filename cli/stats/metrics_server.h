// SPDX-License-Identifier: Apache-2.0
// MetricsServer: answers GET /metrics over HTTP on a TCP address or a UNIX socket, for Prometheus and similar
// programs.
//
// libmicrohttpd implements HTTP. The io_context given to create() watches its sockets; it is the control
// thread's, so no client can delay a request of the mount. Clients' resources are limited: 8 connections at
// once, each with 10 seconds, one request and 16 KiB of memory. The text is generated at most four times a
// second; requests in between get the last one. There is no authentication: everyone who reaches the address
// reads the numbers, which include the names of the export and the mount point. The file of a UNIX socket has
// mode 0600.
//
// Created and destroyed on the thread that runs the context. The destructor closes everything and removes the
// socket file, unless another socket has taken that path.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/options/metrics_place.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

class MetricsServer {
 public:
  static constexpr unsigned kMaxConnections = 8;
  static constexpr std::chrono::milliseconds kConnectionTime{10'000};
  static constexpr std::chrono::milliseconds kTextTime{250};
  static constexpr size_t kConnectionMemory = 16u << 10;

  using MakeText = std::function<std::string()>;

  // `place.port` 0: any free port (tests).
  static Outcome<std::unique_ptr<MetricsServer>> create(
      asio::io_context& context, const MetricsPlace& place, MakeText make_text,
      std::chrono::milliseconds connection_time = kConnectionTime);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;  // 0 for a UNIX socket
  size_t connections() const;

 private:
  class Impl;
  explicit MetricsServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace nfsrdma::cli
