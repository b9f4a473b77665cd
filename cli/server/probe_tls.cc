// SPDX-License-Identifier: Apache-2.0
#include "cli/server/probe_tls.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <future>
#include <memory>
#include <utility>

#include "transport/tls/client.h"
#include "transport/tls/failure.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::cli {
namespace {

using Secured = Result<std::unique_ptr<tls::Stream>>;

Task<> secure(tls::Client& client, int fd, std::shared_ptr<std::promise<Secured>> out) {
  auto securing = client.secure(fd);
  out->set_value(co_await std::move(securing));
}

}  // namespace

std::string probe_tls(const client::ClientOptions& options, const Fd& connection) {
  const int flags = fcntl(connection.get(), F_GETFL);
  if (flags < 0 || fcntl(connection.get(), F_SETFL, flags | O_NONBLOCK) != 0) return {};
  LoopPool loops{1};
  loops.start();
  tls::Client client(loops[0], {.settings = options.tls.value_or(tls::Settings{}),
                                .host = options.host,
                                .program = nfs4::NFS4_PROGRAM,
                                .version = nfs4::NFS_V4});
  const auto promise = std::make_shared<std::promise<Secured>>();
  auto answer = promise->get_future();
  loops[0].spawn(secure(client, connection.get(), promise));
  const Secured secured = answer.get();  // the client has a limit of its own
  loops.stop_and_join();
  if (secured) return fmt::format("{}, server {}", (*secured)->description(), (*secured)->peer());
  const Error& why = secured.error();
  if (why.layer != Layer::kSecurity || why.status == tls::kNoTlsOffered) return {};
  return "offered; " + why.cause;
}

}  // namespace nfsrdma::cli
