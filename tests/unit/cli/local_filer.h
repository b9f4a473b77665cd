// SPDX-License-Identifier: Apache-2.0
// A filer at the default ports of a mount without port=, on a loopback address that only this process uses.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "cli/server/translate.h"
#include "filer/server.h"

namespace nfsrdma::cli {

// Every address in 127.0.0.0/8 is this machine (RFC 1122 section 3.2.1.3).
inline std::string local_address() {
  const auto id = static_cast<unsigned>(getpid());
  return fmt::format("127.{}.{}.{}", 64 + id / 254 / 256 % 64, id / 254 % 256, 1 + id % 254);
}

// Returns null if a server of this machine already listens at that port of every address.
inline std::unique_ptr<filer::Server> start_local_filer(bool rdma, rdma::ResponderOptions responder = {}) {
  filer::nfs::Options options{.manual_clock = true};
  options.address = local_address();
  options.port = kNfsPort;
  options.rdma.listen = rdma;
  options.rdma.port = kNfsRdmaPort;
  options.rdma.responder = responder;
  auto server = filer::Server::start(std::move(options));
  if (!server) return nullptr;
  (*server)->with_core([](filer::nfs::Core& core) { core.tree.walk("/export")->mode = 0777; });
  return *std::move(server);
}

}  // namespace nfsrdma::cli
