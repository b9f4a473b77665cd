// SPDX-License-Identifier: Apache-2.0
// Connector and Resolver: every address is tried, and errors name the host, the address and the reason.
#include "transport/net/connector.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <cstring>

#include "tests/unit/transport/support/black_hole.h"
#include "tests/unit/transport/support/rig.h"
#include "transport/net/server_address.h"

namespace nfsrdma::test {
namespace {

using net::Connected;
using net::Connector;
using net::Endpoint;
using net::Endpoints;

Endpoint endpoint(const char* address, uint16_t port) {
  Endpoint e;
  auto* a = reinterpret_cast<sockaddr_in*>(&e.address);
  a->sin_family = AF_INET;
  a->sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address, &a->sin_addr), 1);
  e.length = sizeof(*a);
  return e;
}

// A port on which nobody listens: it is bound, so that nobody else can use it.
class ClosedPort {
 public:
  ClosedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(a);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&a), size), 0);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&a), &size);
    port = ntohs(a.sin_port);
  }
  uint16_t port = 0;

 private:
  net::Socket socket_;
};

struct Fixture {
  LoopThread loop;
  tcp::TcpOptions options;
  std::unique_ptr<Connector> connector;

  Connector& make() {
    connector = std::make_unique<Connector>(*loop, options);
    return *connector;
  }
  ~Fixture() {
    call_on(*loop, [this] { connector.reset(); });
  }
};

TEST(Connector, AddressesInOrder_FirstThatAnswersIsTaken) {
  const ClosedPort closed;
  Listener second("127.0.0.2");
  Listener third("127.0.0.3", second.port());
  Fixture f;
  const Endpoints list = {endpoint("127.0.0.1", closed.port), endpoint("127.0.0.2", second.port()),
                          endpoint("127.0.0.3", second.port())};
  const Result<Connected> c = run_on(*f.loop, f.make().connect_any(list));
  ASSERT_TRUE(c) << describe(c.error());
  EXPECT_EQ(c->peer, "127.0.0.2:" + std::to_string(second.port()));
  EXPECT_TRUE(second.accept());
  EXPECT_TRUE(third.quiet());
}

// A session lives on one machine, and a name may stand for several machines.
TEST(Connector, Follower_GoesWhereTheFirstWent) {
  Listener listener("127.0.0.2");
  const auto address = std::make_shared<net::ServerAddress>();
  Fixture first, other;
  first.options.host = "127.0.0.2";
  first.options.port = listener.port();
  other.options.host = "no.such.host.invalid";
  other.options.follows = true;
  first.options.address = other.options.address = address;

  const Result<Connected> early = run_on(*other.loop, other.make().connect());
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().recovery, Recovery::kReconnect);

  ASSERT_TRUE(run_on(*first.loop, first.make().connect()));
  EXPECT_TRUE(listener.accept());
  const Result<Connected> c = run_on(*other.loop, other.connector->connect());
  ASSERT_TRUE(c) << describe(c.error());
  EXPECT_EQ(c->peer, "127.0.0.2:" + std::to_string(listener.port()));
}

TEST(Connector, EveryAddressRefuses_ErrorNamesEachAndWhy) {
  const ClosedPort closed;
  Fixture f;
  const std::string port = std::to_string(closed.port);
  const Result<Connected> c =
      run_on(*f.loop,
             f.make().connect_any({endpoint("127.0.0.1", closed.port), endpoint("127.0.0.2", closed.port)}));
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().layer, Layer::kTransport);
  EXPECT_EQ(c.error().recovery, Recovery::kReconnect);
  EXPECT_EQ(c.error().errnum, ECONNREFUSED);
  EXPECT_EQ(c.error().cause,
            "127.0.0.1:" + port + ": Connection refused; 127.0.0.2:" + port + ": Connection refused");
}

TEST(Connector, AddressThatDoesNotAnswer_TimesOutAndTheNextIsTried) {
  BlackHole hole;
  Listener good("127.0.0.2");
  Fixture f;
  f.options.connect_timeout = std::chrono::milliseconds(50);
  const Result<Connected> c =
      run_on(*f.loop,
             f.make().connect_any({endpoint("127.0.0.1", hole.port()), endpoint("127.0.0.2", good.port())}));
  ASSERT_TRUE(c) << describe(c.error());
  EXPECT_EQ(c->peer, "127.0.0.2:" + std::to_string(good.port()));
  const Result<Connected> only =
      run_on(*f.loop, f.connector->connect_any({endpoint("127.0.0.1", hole.port())}));
  ASSERT_FALSE(only);
  EXPECT_EQ(only.error().errnum, ETIMEDOUT);
}

TEST(Connector, Cancel_EndsAConnectAtOnce) {
  BlackHole hole;
  Fixture f;
  f.options.connect_timeout = std::chrono::hours(1);
  f.make();
  auto connecting = start_on(*f.loop, f.connector->connect_any({endpoint("127.0.0.1", hole.port())}));
  call_on(*f.loop, [&] { f.connector->cancel(); });
  const Result<Connected> c = connecting.get();
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().recovery, Recovery::kInterrupted);
}

TEST(Connector, Socket_HasTheOptionsOfTheMount) {
  Listener l;
  Fixture f;
  f.options.host = "127.0.0.1";
  f.options.port = l.port();
  f.options.timeo = std::chrono::milliseconds(30'500);
  f.options.retrans = 3;
  const Result<Connected> c = run_on(*f.loop, f.make().connect());
  ASSERT_TRUE(c) << describe(c.error());
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    EXPECT_EQ(::getsockopt(c->socket.get(), level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 31);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 31);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 4);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 122'000);
}

TEST(DeadPeerTimes, ExtremeOptions_StayWithinWhatTheKernelTakes) {
  const net::DeadPeerTimes shortest = net::dead_peer_times(std::chrono::milliseconds(1), 0);
  EXPECT_EQ(shortest.keepalive_idle_s, 1);
  EXPECT_EQ(shortest.keepalive_count, 1);
  EXPECT_EQ(shortest.user_timeout_ms, 1u);
  const net::DeadPeerTimes longest = net::dead_peer_times(std::chrono::hours(1000), 4'000'000'000u);
  EXPECT_EQ(longest.keepalive_idle_s, 32767);
  EXPECT_EQ(longest.keepalive_count, 127);
  EXPECT_EQ(longest.user_timeout_ms, static_cast<unsigned>(INT32_MAX));
}

// nfs(5): "resvport: [...] use a privileged source port".
TEST(Connector, ReservedPort_BelowTheLimitWhenPermittedAndAnyPortOtherwise) {
  Listener l;
  Fixture f;
  f.options.host = "127.0.0.1";
  f.options.port = l.port();
  f.options.reserved_port = true;
  std::set<int> ports;
  f.make();
  for (int i = 0; i < 3; ++i) {
    const Result<Connected> c = run_on(*f.loop, f.connector->connect());
    ASSERT_TRUE(c) << describe(c.error());
    ports.insert(std::stoi(c->local.substr(c->local.rfind(':') + 1)));
  }
  const net::Socket probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(665);
  const bool permitted =
      ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0 || errno == EADDRINUSE;
  for (const int port : ports) EXPECT_EQ(port < 1024, permitted) << port;
}

TEST(Resolver, LiteralAddresses_AnsweredWithoutALookup) {
  LoopThread loop;
  net::Resolver r(*loop);
  const Result<Endpoints> v4 = run_on(*loop, r.resolve("192.0.2.7", 2049, net::Family::kAny));
  ASSERT_TRUE(v4);
  ASSERT_EQ(v4->size(), 1u);
  EXPECT_EQ(to_string(v4->front()), "192.0.2.7:2049");
  const Result<Endpoints> v6 = run_on(*loop, r.resolve("2001:db8::1", 20049, net::Family::kIpv6));
  ASSERT_TRUE(v6);
  EXPECT_EQ(to_string(v6->front()), "[2001:db8::1]:20049");
}

TEST(Resolver, LocalHost_IsLookedUpInAThread) {
  LoopThread loop;
  net::Resolver r(*loop);
  const Result<Endpoints> found = run_on(*loop, r.resolve("localhost", 2049, net::Family::kIpv4));
  ASSERT_TRUE(found) << describe(found.error());
  EXPECT_EQ(to_string(found->front()), "127.0.0.1:2049");
}

// RFC 6761 section 6.4: names under .invalid do not exist. Without a name server the lookup fails for another
// reason; the error says which.
TEST(Resolver, UnknownHost_ErrorNamesIt) {
  tcp::TcpOptions options = quick_options(2049);
  options.host = "filer.invalid";
  Rig rig(options);
  const Result<> r = rig.start();
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().errnum, EHOSTUNREACH);
  EXPECT_EQ(std::string(r.error().op), "resolve");
  EXPECT_TRUE(r.error().cause.starts_with("cannot find the address of host 'filer.invalid': "))
      << r.error().cause;
  EXPECT_EQ(rig.status().state, rpc::TransportState::kIdle);
}

TEST(Resolver, CancelledLookup_EndsAtOnceAndItsThreadTouchesNothing) {
  for (int i = 0; i < 50; ++i) {
    LoopThread loop;
    net::Resolver r(*loop);
    auto looking = start_on(*loop, r.resolve("localhost", 2049, net::Family::kAny));
    call_on(*loop, [&] { r.cancel(); });
    const Result<Endpoints> found = looking.get();
    // Either the answer or cancel() may be first; the thread may still be running when the loop is destroyed
    // right afterwards.
    if (!found) {
      EXPECT_EQ(found.error().recovery, Recovery::kInterrupted);
    }
  }
}

TEST(TcpTransport, RefusedPort_StartSaysWhere) {
  const ClosedPort closed;
  Rig rig(quick_options(closed.port));
  const Result<> r = rig.start();
  ASSERT_FALSE(r);
  EXPECT_EQ(describe(r.error()),
            "connect: 127.0.0.1:" + std::to_string(closed.port) + ": Connection refused");
  EXPECT_EQ(rig.status().last_error, describe(r.error()));
}

TEST(TcpTransport, Ipv6Loopback_Connects) {
  net::Socket listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_addr = in6addr_loopback;
  socklen_t size = sizeof(a);
  if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&a), size) != 0) {
    GTEST_SKIP() << "no IPv6 loopback address: " << std::strerror(errno);
  }
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&a), &size);
  tcp::TcpOptions options = quick_options(ntohs(a.sin6_port));
  options.host = "::1";
  Rig rig(options);
  rig.must_start();
  EXPECT_EQ(rig.status().peer, "[::1]:" + std::to_string(options.port));
}

}  // namespace
}  // namespace nfsrdma::test
