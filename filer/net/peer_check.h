// SPDX-License-Identifier: Apache-2.0
// PeerCheck: whether a connection's calls are believed when they say who their user is
// (docs/FILER.md, "Who is believed").
//
// AUTH_SYS proves nothing: any process that can connect may claim any user. What the kernel of this machine
// vouches for is checked instead: that a port below 1024 takes privilege to bind, and which user made the
// socket at the other end of a connection that does not leave this machine. Asks the kernel by netlink, falls
// back to /proc/net/tcp; does not block. Any thread.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma::filer {

enum class Believed : uint8_t {
  kEverybody,
  kReservedPorts,  // who connects from a port below 1024
  kOwnUser,        // from this machine, processes of the server's own user; from elsewhere everybody
};

struct Peer {
  asio::ip::tcp::endpoint remote;
  asio::ip::tcp::endpoint local;
  bool has_socket = true;  // false: RDMA hardware, where no socket tells whose the other end is
};

// "10.0.0.1:20049", "[fe80::1%eth0]:20049".
std::optional<asio::ip::tcp::endpoint> endpoint_of(const std::string& text);

// Nothing: the peer is believed. Else the reason, for the log.
std::optional<std::string> why_not_believed(Believed whom, const Peer& peer);

// The user who owns the peer's socket. Nothing: this machine's network namespace has no such socket.
std::optional<uint32_t> socket_owner(const Peer& peer);
// The same, as /proc/net/tcp and tcp6 show it.
std::optional<uint32_t> socket_owner_in_proc(const Peer& peer);
// From the text of /proc/net/tcp, or with `v6` of tcp6.
std::optional<uint32_t> socket_owner_in(std::string_view table, bool v6, const Peer& peer);
// Whether the user map, the text of /proc/self/uid_map, gives every user of the machine his own number.
bool is_whole_map(std::string_view map);
// Whether packets to this address stay on this machine.
bool is_of_this_machine(const asio::ip::address& address);

}  // namespace nfsrdma::filer
