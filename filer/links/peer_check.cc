// SPDX-License-Identifier: Apache-2.0
#include "filer/links/peer_check.h"

#include <fmt/core.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <sstream>
#include <vector>

#include "transport/runtime/fd.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::filer::links {
namespace {

constexpr unsigned kFirstUnreserved = 1024;  // IPPORT_RESERVED
constexpr size_t kAnswerBytes = 4096;

// Converts an IPv4-mapped address, as an IPv6 socket has it, to the IPv4 address. Other addresses stay as
// they are.
asio::ip::address plain(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address;
}

// Sends a netlink request. The kernel queues its answer within send(), so recv() does not block.
template <class Request>
std::optional<std::vector<char>> ask_kernel(int protocol, const Request& request) {
  const Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!fd || ::send(fd.get(), &request, request.header.nlmsg_len, 0) < 0) return std::nullopt;
  std::vector<char> answer(kAnswerBytes);
  ssize_t n = -1;
  do {
    n = ::recv(fd.get(), answer.data(), answer.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n < static_cast<ssize_t>(sizeof(nlmsghdr))) return std::nullopt;
  answer.resize(static_cast<size_t>(n));
  return answer;
}

// The payload of an answer, if the answer has this type.
template <class Payload>
std::optional<Payload> payload_of(const std::optional<std::vector<char>>& answer, uint16_t type) {
  if (!answer || answer->size() < NLMSG_SPACE(sizeof(Payload))) return std::nullopt;
  nlmsghdr header{};
  std::memcpy(&header, answer->data(), sizeof(header));
  if (header.nlmsg_type != type) return std::nullopt;
  Payload payload{};
  std::memcpy(&payload, answer->data() + NLMSG_HDRLEN, sizeof(payload));
  return payload;
}

void put_address(const asio::ip::address& address, void* to) {
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.to_v6().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

struct SocketRequest {
  nlmsghdr header{};
  inet_diag_req_v2 body{};
};

struct RouteRequest {
  nlmsghdr header{};
  rtmsg body{};
  std::array<char, 64> attributes{};

  void add(unsigned short type, const void* data, size_t bytes) {
    rtattr attribute{};
    attribute.rta_type = type;
    attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(bytes));
    char* const at = attributes.data() + (header.nlmsg_len - NLMSG_LENGTH(sizeof(body)));
    std::memcpy(at, &attribute, sizeof(attribute));
    std::memcpy(at + RTA_LENGTH(0), data, bytes);
    header.nlmsg_len += static_cast<uint32_t>(RTA_SPACE(bytes));
  }
};

// The form of /proc/net/tcp and tcp6: 32-bit words as they are in memory, in hexadecimal.
std::string in_proc(const asio::ip::tcp::endpoint& endpoint, bool as_v6) {
  const asio::ip::address address = plain(endpoint.address());
  std::array<uint32_t, 4> words{};
  size_t count = 4;
  if (address.is_v4() && !as_v6) {
    count = 1;
    put_address(address, words.data());
  } else if (address.is_v4()) {
    put_address(asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()), words.data());
  } else {
    put_address(address, words.data());
  }
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{:08X}", words[i]);
  return text + fmt::format(":{:04X}", endpoint.port());
}

std::optional<uint32_t> number_in(const char* file) {
  std::istringstream in(Proc::ours().read(file));
  uint32_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Whether several users may appear as `uid`: a user namespace shows all users without a mapping as
// overflowuid.
bool may_be_many_users(uint32_t uid) {
  if (number_in("sys/kernel/overflowuid").value_or(65534) != uid) return false;
  return !is_whole_map(Proc::ours().read("self/uid_map"));
}

std::optional<std::string> why_not_by_port(const Peer& peer) {
  const unsigned port = peer.remote.port();
  if (port == 0 || port >= kFirstUnreserved)
    return fmt::format("port {} is not below {}, as a privileged process has it", port, kFirstUnreserved);
  // If the administrator allows all users to bind this port, it proves nothing about callers on this machine.
  const uint32_t anybodys = number_in("sys/net/ipv4/ip_unprivileged_port_start").value_or(kFirstUnreserved);
  if (port < anybodys || !is_of_this_machine(peer.remote.address())) return std::nullopt;
  const auto owner = socket_owner(peer);
  if (owner && *owner == 0) return std::nullopt;
  return fmt::format("port {} is one that any user of this machine may have (ip_unprivileged_port_start)",
                     port);
}

std::optional<std::string> why_not_by_owner(const Peer& peer) {
  const uint32_t own = geteuid();
  if (const auto owner = socket_owner(peer)) {
    if (*owner == own && !may_be_many_users(own)) return std::nullopt;
    return fmt::format("its user on this machine is {}, this server's is {}", *owner, own);
  }
  if (!is_of_this_machine(peer.remote.address())) return std::nullopt;
  return peer.has_socket ? "whose process on this machine it is cannot be found out"
                         : "of an RDMA device's callers on this machine nothing tells which user they are";
}

}  // namespace

std::optional<asio::ip::tcp::endpoint> endpoint_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return std::nullopt;
  std::string address = text.substr(0, colon);
  if (address.front() == '[' && address.back() == ']') address = address.substr(1, address.size() - 2);
  asio::error_code ec;
  const auto parsed = asio::ip::make_address(address, ec);
  const unsigned long port = std::strtoul(text.c_str() + colon + 1, nullptr, 10);
  if (ec || port > UINT16_MAX) return std::nullopt;
  return asio::ip::tcp::endpoint(parsed, static_cast<uint16_t>(port));
}

std::optional<uint32_t> socket_owner(const Peer& peer) {
  if (!peer.has_socket) return std::nullopt;
  const asio::ip::address theirs = plain(peer.remote.address());
  const asio::ip::address ours = plain(peer.local.address());
  if (theirs.is_v4() != ours.is_v4()) return std::nullopt;
  SocketRequest request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = theirs.is_v4() ? AF_INET : AF_INET6;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = UINT32_MAX;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(peer.remote.port());
  id.idiag_dport = htons(peer.local.port());
  put_address(theirs, id.idiag_src);
  put_address(ours, id.idiag_dst);
  if (theirs.is_v6()) id.idiag_if = static_cast<uint32_t>(theirs.to_v6().scope_id());
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  const auto found = payload_of<inet_diag_msg>(ask_kernel(NETLINK_SOCK_DIAG, request), SOCK_DIAG_BY_FAMILY);
  // Ignores a listener on that port. A socket that no process has open any more (inode 0) has no owner.
  if (!found || found->idiag_state != TCP_ESTABLISHED || found->id.idiag_sport != id.idiag_sport ||
      found->id.idiag_dport != id.idiag_dport || found->idiag_inode == 0) {
    return socket_owner_in_proc(peer);
  }
  return found->idiag_uid;
}

std::optional<uint32_t> socket_owner_in_proc(const Peer& peer) {
  if (!peer.has_socket || !is_of_this_machine(peer.remote.address())) return std::nullopt;
  for (const bool v6 : {false, true}) {
    if (const auto owner =
            socket_owner_in(Proc::ours().read(v6 ? "self/net/tcp6" : "self/net/tcp"), v6, peer))
      return owner;
  }
  return std::nullopt;
}

std::optional<uint32_t> socket_owner_in(std::string_view table, bool v6, const Peer& peer) {
  if (!v6 && plain(peer.remote.address()).is_v6()) return std::nullopt;
  const std::string remote = in_proc(peer.remote, v6);
  const std::string local = in_proc(peer.local, v6);
  std::istringstream in{std::string(table)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
    // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
    if (words.size() < 10 || words[1] != remote || words[2] != local) continue;
    if (words[3] != "01" || words[9] == "0") continue;
    uint32_t owner = 0;
    const char* const end = words[7].data() + words[7].size();
    if (const auto [stop, error] = std::from_chars(words[7].data(), end, owner);
        error != std::errc{} || stop != end)
      continue;
    return owner;
  }
  return std::nullopt;
}

bool is_whole_map(std::string_view map) {
  std::istringstream in{std::string(map)};
  uint64_t inside = 1, outside = 1, count = 0;
  in >> inside >> outside >> count;
  return inside == 0 && outside == 0 && count == UINT32_MAX;
}

bool is_of_this_machine(const asio::ip::address& given) {
  const asio::ip::address address = plain(given);
  if (address.is_loopback()) return true;
  RouteRequest request;
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof(request.body));
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.rtm_family = address.is_v4() ? AF_INET : AF_INET6;
  std::array<char, 16> bytes{};
  const size_t length = address.is_v4() ? 4 : 16;
  request.body.rtm_dst_len = static_cast<unsigned char>(length * 8);
  put_address(address, bytes.data());
  request.add(RTA_DST, bytes.data(), length);
  if (address.is_v6() && address.to_v6().scope_id() != 0) {
    const auto link = static_cast<uint32_t>(address.to_v6().scope_id());
    request.add(RTA_OIF, &link, sizeof(link));
  }
  const auto route = payload_of<rtmsg>(ask_kernel(NETLINK_ROUTE, request), RTM_NEWROUTE);
  // If the kernel does not answer, the address counts as local.
  return !route || route->rtm_type == RTN_LOCAL;
}

std::optional<std::string> why_not_believed(Believed whom, const Peer& peer) {
  switch (whom) {
    case Believed::kEverybody: return std::nullopt;
    case Believed::kReservedPorts: return why_not_by_port(peer);
    case Believed::kOwnUser: return why_not_by_owner(peer);
  }
  return "of an unknown rule";
}

}  // namespace nfsrdma::filer::links
