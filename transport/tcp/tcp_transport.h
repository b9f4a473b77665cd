// SPDX-License-Identifier: Apache-2.0
// TcpTransport: RPC over one TCP connection with record marking (RFC 5531 section 11), for one loop.
//
// Send: gathered from the call's inline bytes and from the memory of its bulk items; no copy. Calls made in
// one turn of the loop leave in one sendmsg. Receive: small replies go through a staging buffer. A reply with
// a sink is parsed up to its bulk item, and the rest of the item is received directly into the sink. Every
// length from the peer is checked. A record larger than max_record_bytes, or a broken record mark, ends the
// connection. A reply that cannot be decoded or that answers no call does not.
//
// nfs(5): `timeo` is how long a reply may take before the server counts as not responding. If nothing is
// received for timeo * (retrans + 1), the connection is dropped. NFSv4.1 never sends a request twice on one
// connection (RFC 8881 section 2.9.2). TCP keepalive detects a dead peer on an idle connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/net/connector_options.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/tls/client_options.h"

namespace nfsrdma::tcp {

struct TcpOptions : net::ConnectorOptions {
  std::chrono::milliseconds backoff_first{100};  // doubles up to backoff_max
  std::chrono::milliseconds backoff_max{10'000};
  size_t max_record_bytes = (1u << 20) + (64u << 10);
  size_t send_fragment_bytes = 0;  // 0: one fragment per record
  // Bulk items for smaller destinations are copied from the staging buffer: one system call then receives
  // many. Microseconds of CPU per READ over loopback, 16 outstanding, copied / in place (2026-11-20): 4 KiB
  // 1.6 / 2.5, 16 KiB 2.9 / 3.1, 24 KiB 3.9 / 3.9, 32 KiB 5.2 / 4.4, 64 KiB 12.3 / 11.7, 1 MiB 354 / 221. The
  // last value is 0.22 CPU s per GiB; plain recv() into as many buffers takes 0.19.
  size_t direct_receive_min_bytes = 32768;
  // Set: the connection is used with TLS or not at all (RFC 9289).
  std::optional<tls::ClientOptions> tls;
};

std::unique_ptr<rpc::RpcTransport> make_tcp_transport(Loop& loop, TcpOptions options,
                                                      rpc::TransportHooks hooks);

}  // namespace nfsrdma::tcp
