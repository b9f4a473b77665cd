// SPDX-License-Identifier: Apache-2.0
// Which peers the server believes (docs/conformance/filer.md, "Who is believed"): reserved ports, and the
// owner of a local connection's other end.
#include "filer/links/peer_check.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using asio::ip::make_address;
using asio::ip::tcp;

constexpr uint32_t kSomebody = 1002;

links::Peer peer_of(const char* remote, uint16_t port, const char* local = "192.0.2.9") {
  return {{make_address(remote), port}, {make_address(local), 2049}};
}

// A TCP connection on this machine, as its listener sees it.
struct Local {
  explicit Local(const char* address) : acceptor(context, {make_address(address), 0}) {}

  links::Peer accept() {
    accepted = acceptor.accept();
    return {accepted.remote_endpoint(), accepted.local_endpoint()};
  }
  void connect(const char* address) {
    client.emplace(context);
    client->connect({make_address(address), acceptor.local_endpoint().port()});
  }

  asio::io_context context;
  tcp::acceptor acceptor;
  std::optional<tcp::socket> client;
  tcp::socket accepted{context};
};

bool has_ipv6() {
  asio::io_context context;
  asio::error_code ec;
  tcp::acceptor acceptor(context);
  acceptor.open(tcp::v6(), ec);
  acceptor.bind({make_address("::1"), 0}, ec);
  return !ec;
}

TEST(PeerCheck, ReservedPorts_AreThoseBelow1024) {
  for (const uint16_t port : std::to_array<uint16_t>({1, 665, 1023}))
    EXPECT_EQ(links::why_not_believed(links::Believed::kReservedPorts, peer_of("192.0.2.1", port)),
              std::nullopt)
        << port;
  for (const uint16_t port : std::to_array<uint16_t>({0, 1024, 20049, 65535}))
    EXPECT_NE(links::why_not_believed(links::Believed::kReservedPorts, peer_of("192.0.2.1", port)),
              std::nullopt)
        << port;
  EXPECT_EQ(links::why_not_believed(links::Believed::kEverybody, peer_of("192.0.2.1", 20049)), std::nullopt);
}

TEST(PeerCheck, AddressesOfThisMachine_AreKnown) {
  for (const char* address : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(links::is_of_this_machine(make_address(address))) << address;
}

// A connection from this machine to one of its network addresses is local too.
TEST(PeerCheck, AddressesOfItsInterfaces_AreOfThisMachine) {
  ifaddrs* list = nullptr;
  ASSERT_EQ(getifaddrs(&list), 0);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  size_t looked_at = 0;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof(address));
    const asio::ip::address_v4 own(ntohl(address.sin_addr.s_addr));
    EXPECT_TRUE(links::is_of_this_machine(own)) << own.to_string();
    Local local(own.to_string().c_str());
    local.connect(own.to_string().c_str());
    const links::Peer peer = local.accept();
    EXPECT_EQ(links::why_not_believed(links::Believed::kOwnUser, peer), std::nullopt) << own.to_string();
    EXPECT_EQ(links::socket_owner(peer), geteuid());
    ++looked_at;
  }
  if (looked_at == 0) GTEST_SKIP() << "this machine has no interface with an IPv4 address but loopback";
}

TEST(PeerCheck, OwnerOfALocalSocket_IsFoundByEitherWay) {
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1"}) {
    if (std::string_view(address) == "::1" && !has_ipv6()) continue;
    Local local(address);
    local.connect(address);
    const links::Peer peer = local.accept();
    EXPECT_EQ(links::socket_owner(peer), geteuid()) << address;
    EXPECT_EQ(links::socket_owner_in_proc(peer), geteuid()) << address;
    EXPECT_EQ(links::why_not_believed(links::Believed::kOwnUser, peer), std::nullopt) << address;
  }
}

// A listener for both families sees IPv4 addresses as mapped ones; the client's socket may be of either
// family.
TEST(PeerCheck, OwnerBehindAMappedAddress_IsFound) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6";
  for (const char* to : {"127.0.0.1", "::ffff:127.0.0.1"}) {
    Local local("::");
    local.connect(to);
    const links::Peer peer = local.accept();
    EXPECT_EQ(links::socket_owner(peer), geteuid()) << to;
    EXPECT_EQ(links::socket_owner_in_proc(peer), geteuid()) << to;
  }
}

// A connection that its process has closed belongs to nobody, not even to root.
TEST(PeerCheck, SocketThatIsClosed_HasNoOwner) {
  Local local("127.0.0.1");
  local.connect("127.0.0.1");
  const links::Peer peer = local.accept();
  local.client->close();
  EXPECT_EQ(links::socket_owner(peer), std::nullopt);
  EXPECT_EQ(links::socket_owner_in_proc(peer), std::nullopt);
  EXPECT_NE(links::why_not_believed(links::Believed::kOwnUser, peer), std::nullopt);
}

TEST(PeerCheck, AnotherUserOfThisMachine_IsNotTheServersOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  Local local("127.0.0.1");
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    char wait = 0;
    close(done[1]);
    if (setuid(kSomebody) != 0) _exit(1);
    const RawConnection connection(local.acceptor.local_endpoint().port());
    (void)!read(done[0], &wait, 1);
    _exit(0);
  }
  close(done[0]);
  const links::Peer peer = local.accept();
  EXPECT_EQ(links::socket_owner(peer), kSomebody);
  EXPECT_EQ(links::socket_owner_in_proc(peer), kSomebody);
  const auto why = links::why_not_believed(links::Believed::kOwnUser, peer);
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("1002"), std::string::npos) << *why;
  close(done[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

// An RDMA device's connection does not show the user, even if a socket has the same addresses and ports.
TEST(PeerCheck, WithoutASocket_NobodyOfThisMachineIsBelieved) {
  Local local("127.0.0.1");
  local.connect("127.0.0.1");
  links::Peer peer = local.accept();
  peer.has_socket = false;
  EXPECT_NE(links::why_not_believed(links::Believed::kOwnUser, peer), std::nullopt);
}

TEST(PeerCheck, EndpointsAreReadAsTheyAreShown) {
  EXPECT_EQ(links::endpoint_of("10.0.0.1:20049"), tcp::endpoint(make_address("10.0.0.1"), 20049));
  EXPECT_EQ(links::endpoint_of("[::1]:700"), tcp::endpoint(make_address("::1"), 700));
  EXPECT_EQ(links::endpoint_of("[fe80::1%lo]:7")->address().to_v6().scope_id(), 1u);
  for (const char* text : {"", ":1", "host:1", "10.0.0.1", "10.0.0.1:70000"})
    EXPECT_EQ(links::endpoint_of(text), std::nullopt) << text;
}

// RFC 5531 section 9: AUTH_TOOWEAK, "rejected for security reasons". NULL is answered, because it needs no
// user.
TEST(PeerCheck, CallsOfWhoIsNotBelieved_AreTooWeak) {
  nfs::Options options;
  options.believed = links::Believed::kReservedPorts;
  const auto server = start_server(std::move(options));
  RawClient client(*server);
  const auto answer_to = [&](uint32_t procedure, rpc::auth_flavor flavor) {
    rpc::call_header header;
    header.xid = rpc::Xid{7};
    header.prog = NFS4_PROGRAM;
    header.vers = NFS_V4;
    header.proc = procedure;
    const ByteVector credential = rpc::encode_authsys({.stamp = 0, .machinename = "test"});
    if (flavor == rpc::AUTH_SYS) header.cred = {flavor, credential};
    ByteVector message;
    xdr::Encoder out(message);
    EXPECT_TRUE(out(header));
    client.connection->send(message);
    const auto reply = client.connection->receive();
    rpc::reply_header answer;
    if (!reply) return std::string("nothing");
    xdr::Decoder in(*reply);
    EXPECT_TRUE(in(answer));
    return rpc::name_of(rpc::status_of(answer));
  };
  EXPECT_EQ(answer_to(NFSPROC4_COMPOUND, rpc::AUTH_SYS), "AUTH_TOOWEAK");
  EXPECT_EQ(answer_to(NFSPROC4_COMPOUND, rpc::AUTH_NONE), "AUTH_TOOWEAK");
  EXPECT_NE(answer_to(NFSPROC4_NULL, rpc::AUTH_NONE), "AUTH_TOOWEAK");
}

}  // namespace
}  // namespace nfsrdma::filer::test
