// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_transport.h"

#include <optional>
#include <utility>

#include "transport/net/connector.h"
#include "transport/rpc/client_transport.h"
#include "transport/tcp/connection.h"
#include "transport/tls/client.h"

namespace nfsrdma::tcp {
namespace {

class TcpDialer final : public rpc::Dialer {
 public:
  TcpDialer(Loop& loop, TcpOptions options)
      : loop_(loop), options_(std::move(options)), connector_(loop, options_) {
    if (options_.tls) tls_.emplace(loop_, *options_.tls);
  }

  Task<Result<std::shared_ptr<rpc::Connection>>> dial(rpc::ConnectionUse use) override {
    Result<net::Connected> connected = co_await connector_.connect();
    if (!connected) co_return fail(std::move(connected).error());
    const TcpConnection::Limits limits{{options_.max_record_bytes, options_.direct_receive_min_bytes},
                                       options_.send_fragment_bytes};
    std::unique_ptr<tls::Stream> stream;
    if (tls_) {
      auto securing = tls_->secure(connected->socket.get());
      Result<std::unique_ptr<tls::Stream>> secured = co_await std::move(securing);
      if (!secured) co_return fail(std::move(secured).error());
      stream = *std::move(secured);
    }
    co_return std::make_shared<TcpConnection>(loop_, *std::move(connected), std::move(stream), std::move(use),
                                              limits);
  }
  void cancel() override {
    connector_.cancel();
    if (tls_) tls_->cancel();
  }

 private:
  Loop& loop_;
  const TcpOptions options_;
  net::Connector connector_;
  std::optional<tls::Client> tls_;
};

}  // namespace

std::unique_ptr<rpc::RpcTransport> make_tcp_transport(Loop& loop, TcpOptions options,
                                                      rpc::TransportHooks hooks) {
  rpc::ClientTransportOptions client{.host = options.host,
                                     .protocol = "tcp",
                                     .timeo = options.timeo,
                                     .retrans = options.retrans,
                                     .backoff_first = options.backoff_first,
                                     .backoff_max = options.backoff_max};
  auto dialer = std::make_unique<TcpDialer>(loop, std::move(options));
  return std::make_unique<rpc::ClientTransport>(loop, std::move(dialer), std::move(client), std::move(hooks));
}

}  // namespace nfsrdma::tcp
