// SPDX-License-Identifier: Apache-2.0
// PeerCheck: decides whether the AUTH_SYS credentials of a connection are accepted
// (docs/conformance/filer.md, "Who is believed").
//
// AUTH_SYS proves nothing: any process that can connect can claim any user. The server checks instead what
// this machine's kernel knows. Binding a port below 1024 needs privilege. For a connection within this
// machine the kernel tells which user owns the peer's socket. The check asks by netlink and falls back to
// /proc/net/tcp. It does not block. Any thread.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "filer/links/believed.h"

namespace nfsrdma::filer::links {

struct Peer {
  asio::ip::tcp::endpoint remote;
  asio::ip::tcp::endpoint local;
  bool has_socket = true;  // false: an RDMA device, where no socket shows the peer's user
};

// Parses "10.0.0.1:20049" or "[fe80::1%eth0]:20049".
std::optional<asio::ip::tcp::endpoint> endpoint_of(const std::string& text);

// nullopt: the peer is believed. Otherwise the reason, for the log.
std::optional<std::string> why_not_believed(Believed whom, const Peer& peer);

// The user that owns the peer's socket. nullopt: this machine's network namespace has no such socket.
std::optional<uint32_t> socket_owner(const Peer& peer);
// As socket_owner(), from /proc/net/tcp and tcp6.
std::optional<uint32_t> socket_owner_in_proc(const Peer& peer);
// As socket_owner(), from the text of /proc/net/tcp, or of tcp6 if `v6` is set.
std::optional<uint32_t> socket_owner_in(std::string_view table, bool v6, const Peer& peer);
// Whether the user map (the text of /proc/self/uid_map) maps every user of the machine to a different user.
bool is_whole_map(std::string_view map);
// Whether packets to this address stay on this machine.
bool is_of_this_machine(const asio::ip::address& address);

}  // namespace nfsrdma::filer::links
