// SPDX-License-Identifier: Apache-2.0
// The start-up with peers that do it wrongly, differently, slowly or not at all.
#include <atomic>

#include "tests/unit/fabric/support/raw_peer.h"

namespace nfsrdma::test {
namespace {

using iwarp::StartupFrame;
using Kind = StartupFrame::Kind;

using Connected = Result<std::unique_ptr<fabric::Endpoint>>;

// Our active side, and a script as its peer.
struct Active {
  Active() {
    call_on(*loop, [&] { fabric = iwarp::make_fabric(*loop, {}); });
  }
  ~Active() {
    call_on(*loop, [&] { fabric.reset(); });
  }
  std::future<Connected> connect(uint16_t port,
                                 std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    fabric::ConnectOptions to;
    to.host = "127.0.0.1";
    to.port = port;
    to.timeout = timeout;
    to.endpoint.private_data = [](bool) { return pattern(8, 1); };
    return start_on(*loop, fabric->connect(std::move(to)));
  }
  LoopThread loop;
  std::unique_ptr<fabric::Fabric> fabric;
};

StartupFrame good_reply() {
  StartupFrame f;
  f.kind = Kind::kReply;
  f.enhanced.emplace();
  f.enhanced->ird = f.enhanced->ord = 8;
  f.private_data = pattern(8, 2);
  return f;
}

// Connects to a peer that answers with `bytes` and closes. Returns the error, if connecting failed.
std::optional<Error> answered_with(ByteVector bytes) {
  Active ours;
  Peer peer([&](Listener& l) {
    RawPeer raw(l.accept());
    const StartupFrame request = raw.read_startup(Kind::kRequest);
    EXPECT_EQ(request.private_data, pattern(8, 1));
    EXPECT_EQ(request.revision, 2);
    EXPECT_GE(request.enhanced->ird, 1);
    raw.write(bytes);
    raw.socket().close();
  });
  Connected c = ours.connect(peer.port()).get();
  if (!c) return c.error();
  call_on(*ours.loop, [&] { c->reset(); });
  return std::nullopt;
}

TEST(IwarpActive, ReplyCutAtEveryByte_IsAnError) {
  const ByteVector whole = iwarp::encode(good_reply());
  EXPECT_FALSE(answered_with(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto e = answered_with({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)});
    ASSERT_TRUE(e) << n;
    EXPECT_EQ(e->recovery, Recovery::kReconnect);
    EXPECT_EQ(e->errnum, ECONNRESET) << describe(*e);
  }
}

TEST(IwarpActive, WhatIsNoReply_IsAnError) {
  StartupFrame f = good_reply();
  f.markers = true;
  EXPECT_EQ(answered_with(iwarp::encode(f))->errnum, EPROTO);
  f = good_reply();
  f.rejected = true;
  EXPECT_EQ(answered_with(iwarp::encode(f))->errnum, ECONNREFUSED);
  f = good_reply();
  f.revision = 9;
  EXPECT_EQ(answered_with(iwarp::encode(f))->errnum, EPROTO);
  f = good_reply();
  f.kind = Kind::kRequest;  // "Initiator/Initiator"
  EXPECT_EQ(answered_with(iwarp::encode(f))->errnum, EPROTO);
  f = good_reply();
  f.private_data.resize(600);
  EXPECT_EQ(answered_with(iwarp::encode(f))->errnum, EPROTO);
  const ConstBytes http = as_const_bytes("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(answered_with({http.begin(), http.end()})->errnum, EPROTO);
}

TEST(IwarpActive, Revision1Reply_IsAccepted) {
  StartupFrame f;
  f.kind = Kind::kReply;
  f.revision = 1;
  EXPECT_FALSE(answered_with(iwarp::encode(f)));
}

// "If the initiator does not have sufficient resources for the required IRD, it MUST send a TERM message to
// the responder" (RFC 6581 section 9.1).
TEST(IwarpActive, PeerWantsMoreReadsThanOffered_IsTerminated) {
  Active ours;
  Peer peer([&](Listener& l) {
    RawPeer raw(l.accept());
    raw.read_startup(Kind::kRequest);
    StartupFrame f = good_reply();
    f.enhanced->ord = 1000;
    raw.write(iwarp::encode(f));
    const auto t = raw.read_terminate();
    ASSERT_TRUE(t);
    EXPECT_EQ(t->code, iwarp::term::kInsufficientIrd);
  });
  EXPECT_FALSE(ours.connect(peer.port()).get());
}

TEST(IwarpActive, SilentPeer_EndsInTime) {
  Active ours;
  Listener silent;
  const auto begin = Clock::now();
  const Connected c = ours.connect(silent.port(), std::chrono::milliseconds(100)).get();
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().errnum, ETIMEDOUT);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

// A peer that sends one byte from time to time does not extend the deadline.
TEST(IwarpActive, SlowPeer_EndsInTime) {
  Active ours;
  Peer peer([&](Listener& l) {
    RawPeer raw(l.accept());
    raw.read_startup(Kind::kRequest);
    for (const std::byte b : iwarp::encode(good_reply())) {
      if (!raw.write({&b, 1})) return;
      let_pass(*ours.loop, std::chrono::milliseconds(30));  // by the clock that our timeout goes by
    }
  });
  const Connected c = ours.connect(peer.port(), std::chrono::milliseconds(150)).get();
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().errnum, ETIMEDOUT);
}

TEST(IwarpActive, Cancel_EndsIt) {
  Active ours;
  Peer peer([&](Listener& l) {
    RawPeer raw(l.accept());
    raw.read_startup(Kind::kRequest);
    call_on(*ours.loop, [&] { ours.fabric->cancel(); });
    EXPECT_TRUE(raw.closed());
  });
  const Connected c = ours.connect(peer.port()).get();
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().recovery, Recovery::kInterrupted);
}

// Our passive side.
struct Passive {
  explicit Passive(iwarp::Options options = {}) {
    call_on(*loop, [&] {
      fabric = iwarp::make_fabric(*loop, options);
      listener = std::move(*fabric->listen("127.0.0.1", 0, [this](std::unique_ptr<fabric::Incoming> i) {
        private_data.assign(i->private_data().begin(), i->private_data().end());
        incoming.push_back(std::move(i));
        ++asked;
      }));
    });
  }
  ~Passive() {
    call_on(*loop, [&] {
      incoming.clear();
      listener.reset();
      fabric.reset();
    });
    EXPECT_TRUE(eventually([&] { return loop->live_tasks() == 0; }));
  }
  LoopThread loop;
  std::unique_ptr<fabric::Fabric> fabric;
  std::unique_ptr<fabric::Listener> listener;
  std::vector<std::unique_ptr<fabric::Incoming>> incoming;
  ByteVector private_data;
  std::atomic<int> asked{0};
};

TEST(IwarpPassive, RequestCutAtEveryByte_IsNotHandedOut) {
  Passive ours;
  const ByteVector whole = iwarp::encode(iwarp::make_request({false, 8, 8, pattern(56, 1)}));
  for (size_t n = 0; n < whole.size(); ++n) {
    RawPeer raw = RawPeer::connect(ours.listener->port());
    raw.write(ConstBytes(whole).first(n));
    ::shutdown(raw.socket().fd(), SHUT_WR);
    ASSERT_TRUE(raw.closed()) << n;
  }
  EXPECT_EQ(ours.asked, 0);
  RawPeer raw = RawPeer::connect(ours.listener->port());
  for (const std::byte b : whole) raw.write({&b, 1});
  EXPECT_TRUE(eventually([&] { return ours.asked == 1; }));
  EXPECT_EQ(ours.private_data, pattern(56, 1));
}

TEST(IwarpPassive, WhatIsNoRequest_IsClosed) {
  Passive ours;
  StartupFrame f = iwarp::make_request({false, 8, 8, {}});
  f.kind = Kind::kReply;
  StartupFrame future = iwarp::make_request({false, 8, 8, {}});
  future.revision = 3;
  StartupFrame old = future;
  old.revision = 0;
  StartupFrame fat = iwarp::make_request({false, 8, 8, {}});
  fat.private_data.resize(510);
  for (const StartupFrame& bad : {f, future, old, fat}) {
    RawPeer raw = RawPeer::connect(ours.listener->port());
    raw.write(iwarp::encode(bad));
    EXPECT_TRUE(raw.closed());
  }
  EXPECT_EQ(ours.asked, 0);
}

// "set by the Responders ULP to indicate acceptance '0', or rejection '1'" (RFC 5044 section 7.1.1).
TEST(IwarpPassive, Markers_AreRejected) {
  Passive ours;
  RawPeer raw = RawPeer::connect(ours.listener->port());
  StartupFrame f = iwarp::make_request({false, 8, 8, {}});
  f.markers = true;
  raw.write(iwarp::encode(f));
  EXPECT_TRUE(raw.read_startup(Kind::kReply).rejected);
  EXPECT_TRUE(raw.closed());
  EXPECT_EQ(ours.asked, 0);
}

// "SHOULD put a timeout on waiting for the MPA Request Frame when started in Responder mode".
TEST(IwarpPassive, SilentPeers_AreClosedInTime) {
  iwarp::Options options;
  options.startup_timeout = std::chrono::milliseconds(200);
  Passive ours(options);
  RawPeer one = RawPeer::connect(ours.listener->port());
  EXPECT_TRUE(one.closed());
}

// Silent peers, however many, do not keep out others before that: the oldest is closed for the next one.
TEST(IwarpPassive, SilentPeers_KeepNobodyOut) {
  iwarp::Options options;
  options.startup_timeout = std::chrono::hours(1);
  options.max_startups = 8;
  Passive ours(options);
  std::vector<RawPeer> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(RawPeer::connect(ours.listener->port()));
  RawPeer honest = RawPeer::connect(ours.listener->port());
  honest.write(iwarp::encode(iwarp::make_request({false, 8, 8, {}})));
  EXPECT_TRUE(eventually([&] { return ours.asked == 1; }));
  EXPECT_TRUE(silent[0].closed());
  EXPECT_EQ(::recv(silent[49].socket().fd(), nullptr, 0, MSG_PEEK | MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN) << "the youngest are waited for";
}

TEST(IwarpPassive, ListenerGoesWhilePeersStartUp) {
  auto ours = std::make_unique<Passive>();
  RawPeer raw = RawPeer::connect(ours->listener->port());
  raw.write(pattern(3, 1));
  EXPECT_TRUE(eventually([&] { return ours->loop->live_tasks() == 1; })) << "the start-up";
  for (int turns = 0; turns < 3; ++turns) call_on(*ours->loop, [] {});  // it reads what is there
  ours.reset();
  EXPECT_TRUE(raw.closed());
}

TEST(IwarpPassive, AddressOfNobody_IsAnError) {
  LoopThread loop;
  call_on(*loop, [&] {
    const auto fabric = iwarp::make_fabric(*loop, {});
    const auto l = fabric->listen("192.0.2.1", 0, [](std::unique_ptr<fabric::Incoming>) {});
    ASSERT_FALSE(l);
    EXPECT_EQ(l.error().errnum, EADDRNOTAVAIL);
    EXPECT_FALSE(fabric->listen("not an address", 0, [](std::unique_ptr<fabric::Incoming>) {}));
  });
}

}  // namespace
}  // namespace nfsrdma::test
