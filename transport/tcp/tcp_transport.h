// SPDX-License-Identifier: Apache-2.0
// TcpTransport: RPC over one TCP connection with record marking (RFC 5531 section 11), for one loop.
//
// Send: gathered from the call's inline bytes and from where its bulk items lie; no copy. Calls made in one
// turn of the loop leave in one sendmsg. Receive: small replies through a staging buffer; a reply with a sink
// is parsed up to its bulk item, and the rest of the item is received straight into the sink. Every length of
// the peer is checked: a record larger than max_record_bytes, or a broken record mark, costs the connection;
// an undecodable or unknown reply costs itself.
//
// nfs(5): `timeo` is how long a reply may take before the server counts as not responding; with nothing
// received for timeo * (retrans + 1) the connection is given up. NFSv4.1 never sends a request twice on one
// connection (RFC 8881 section 2.9.2). TCP keepalive finds a dead peer of an idle connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/rpc/rpc_transport.h"

namespace nfsrdma::tcp {

enum class Family : uint8_t { kAny, kIpv4, kIpv6 };

class ServerAddress;

struct TcpOptions {
  std::string host;  // name or literal address; looked up afresh for every connect
  // Null, or where it is noted which address of the host was taken; with `follows` that one is connected to.
  std::shared_ptr<ServerAddress> address;
  bool follows = false;
  uint16_t port = 2049;
  Family family = Family::kAny;
  bool reserved_port = false;  // bind a local port below 1024 when permitted (nfs(5) resvport)
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  std::chrono::milliseconds connect_timeout{10'000};  // one address
  std::chrono::milliseconds backoff_first{100};       // doubles up to
  std::chrono::milliseconds backoff_max{10'000};
  size_t max_record_bytes = (1u << 20) + (64u << 10);
  size_t send_fragment_bytes = 0;  // 0: one fragment per record
  // Bulk items for smaller destinations are copied from the staging buffer: many come with one system call.
  // Microseconds of CPU per READ over loopback, 16 outstanding, copied / in place (2026-11-20): 4 KiB 1.6
  // / 2.5, 16 KiB 2.9 / 3.1, 24 KiB 3.9 / 3.9, 32 KiB 5.2 / 4.4, 64 KiB 12.3 / 11.7, 1 MiB 354 / 221. That
  // last is 0.22 CPU s per GiB; plain recv() into as many buffers takes 0.19.
  size_t direct_receive_min_bytes = 32768;
};

std::unique_ptr<rpc::RpcTransport> make_tcp_transport(Loop& loop, TcpOptions options,
                                                      rpc::TransportHooks hooks);

}  // namespace nfsrdma::tcp
