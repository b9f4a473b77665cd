// SPDX-License-Identifier: Apache-2.0
// How the verbs fabric handles drivers that refuse requests, lack features or need something special, over a
// fake device (support/fake_device.h).
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/fabric/support/fabric_pair.h"
#include "tests/unit/fabric/support/fake_device.h"
#include "transport/fabric/verbs/cm_id.h"
#include "transport/fabric/verbs/domain.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::test {
namespace {

using fabric::Access;

class VerbsDriver : public testing::Test {
 protected:
  ~VerbsDriver() override {
    call_on(*loop_, [&] {
      side_.endpoint.reset();
      fabric_.reset();
    });
  }
  void make_fabric(fabric::verbs::Options options = {}) {
    call_on(*loop_, [&] { fabric_ = fabric::verbs::make_fabric(*loop_, options, domains_); });
  }
  Result<> connect(fabric::ConnectOptions to = {}) {
    if (!fabric_) make_fabric();
    if (to.host.empty()) to.host = "192.0.2.1";
    auto made = run_on(*loop_, fabric_->connect(to));
    if (!made) return fail(std::move(made).error());
    call_on(*loop_, [&] {
      side_.endpoint = std::move(*made);
      side_.endpoint->start(side_);
    });
    return {};
  }
  // Operations of one turn of the loop are posted at its end.
  template <class F>
  auto in_a_turn(F f) {
    return call_on(*loop_, [&] {
      const Loop::Turn turn(*loop_);
      return f();
    });
  }

  FakeDevice device_;
  BufferPool pool_;
  std::shared_ptr<fabric::verbs::Domains> domains_ = fabric::verbs::make_shared_domains(pool_);
  Side side_;
  LoopThread loop_;
  std::unique_ptr<fabric::Fabric> fabric_;
};

// libcxgb4 reads the list of both requests of a pair, whatever number of entries they give.
TEST_F(VerbsDriver, RequestWithoutMemory_HasAListNonetheless) {
  ASSERT_TRUE(connect());
  const Slice slice = pool_.slice(100'000);
  in_a_turn([&] {
    ASSERT_TRUE(side_->expose(slice.bytes, Access::kRemoteRead));
    side_->send({});
  });
  ASSERT_TRUE(eventually([&] { return call_on(*loop_, [&] { return device_.posted.size(); }) == 2; }));
  EXPECT_EQ(device_.posted[0].opcode, IBV_WR_BIND_MW);
  EXPECT_EQ(device_.posted[1].opcode, IBV_WR_SEND);
  for (const FakeDevice::Posted& p : device_.posted) EXPECT_TRUE(p.has_list) << p.id;
}

// librdmacm closes a removed device with its last identifier; its descriptors may belong to others then.
TEST_F(VerbsDriver, RemovedDevice_IsLetGoBeforeItsLastIdentifier) {
  const int others = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  device_.on_destroy_id = [&] {
    ::dup3(others, device_.context.cmd_fd, O_CLOEXEC);
    ::dup3(others, device_.context.async_fd, O_CLOEXEC);
  };
  call_on(*loop_, [&] {
    auto channel = fabric::verbs::CmChannel::open(*loop_);
    ASSERT_TRUE(channel);
    auto id = fabric::verbs::CmId::create(*channel);
    ASSERT_TRUE(id);
    auto device = std::make_shared<fabric::verbs::OpenDevice>(&device_.context);
    device->set_removed();
    (*id)->set_device(std::move(device));
  });
  for (const int fd : {device_.context.cmd_fd, device_.context.async_fd}) {
    uint64_t count = 1;
    EXPECT_EQ(::write(fd, &count, sizeof(count)), 8);
    EXPECT_EQ(::read(others, &count, sizeof(count)), 8) << "what others had open there is closed";
  }
  ::close(others);
}

TEST_F(VerbsDriver, ConnectionThatCannotBegin_GivesItsDomainBackBeforeItsIdentifier) {
  device_.may_lock = 0;
  unsigned left = 0;
  device_.on_destroy_id = [&] { left += device_.domains; };
  const Result<> made = connect();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().errnum, ENOMEM);
  EXPECT_EQ(left, 0u) << "a protection domain of a device that may be closed";
  device_.on_destroy_id = [] {};
}

// As in bnxt_re: the kernel part of the driver has memory windows, the user-space part has none.
TEST_F(VerbsDriver, WindowsThatTheUsersLibraryLacks_AreDoneWithout) {
  device_.context.ops.alloc_mw = nullptr;
  ASSERT_TRUE(connect());
  EXPECT_FALSE(side_->limits().remote_invalidation);
  const Slice slice = pool_.slice(100'000);
  in_a_turn([&] { EXPECT_TRUE(side_->expose(slice.bytes, Access::kRemoteRead)); });
}

TEST_F(VerbsDriver, WindowsThatThereAre_AreUsed) {
  ASSERT_TRUE(connect());
  EXPECT_TRUE(side_->limits().remote_invalidation);
  EXPECT_EQ(device_.windows, 0u) << "none is kept for nothing";
  const Slice slice = pool_.slice(100'000);
  in_a_turn([&] { EXPECT_TRUE(side_->expose(slice.bytes, Access::kRemoteRead)); });
  EXPECT_EQ(device_.windows, 1u);
}

// As in libcxgb4, which passes on the kernel's values.
TEST_F(VerbsDriver, NegativeErrnos_AreErrnos) {
  device_.post_recv_returns = -ENOMEM;
  const Result<> made = connect();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().errnum, ENOMEM);
  device_.post_recv_returns = 0;
  device_.on_post_send = [](const ibv_send_wr&) { return -ENOMEM; };
  ASSERT_TRUE(connect());
  in_a_turn([&] { side_->send({}); });
  ASSERT_TRUE(side_.disconnects());
  EXPECT_EQ(side_.disconnected()[0].errnum, ENOMEM);
}

// A limit with room for a connection's messages and none for bulk memory: no connection is better than one
// that ends because each call with a chunk waits for memory in vain.
TEST_F(VerbsDriver, LimitWithoutRoomForBulkMemory_IsSaidWhenConnecting) {
  ASSERT_TRUE(connect());
  const size_t messages = call_on(*loop_, [&] { return device_.locked; });
  ASSERT_GT(messages, 0u);
  call_on(*loop_, [&] { side_.endpoint.reset(); });
  device_.may_lock = messages + BufferPool::kSlabBytes - 1;
  const Result<> made = connect();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().errnum, ENOMEM);
  EXPECT_EQ(made.error().layer, Layer::kTransport);
  EXPECT_EQ(call_on(*loop_, [&] { return device_.locked; }), 0u);
  device_.may_lock = messages + BufferPool::kSlabBytes;
  EXPECT_TRUE(connect());
  EXPECT_EQ(call_on(*loop_, [&] { return device_.locked; }), messages) << "nothing is kept for it";
}

// Memory that another connection has registered is available to all: a call waits for it.
TEST_F(VerbsDriver, BulkMemoryThatIsInUse_IsRoomForAnotherConnection) {
  ASSERT_TRUE(connect());
  const size_t messages = call_on(*loop_, [&] { return device_.locked; });
  const Slice slice = pool_.slice(100'000);
  in_a_turn([&] { ASSERT_TRUE(side_->expose(slice.bytes, Access::kRemoteWrite)); });
  device_.may_lock = 2 * messages + BufferPool::kSlabBytes;
  Side other;
  std::swap(other.endpoint, side_.endpoint);
  EXPECT_TRUE(connect());
  call_on(*loop_, [&] { other.endpoint.reset(); });
}

// The registration is also released on a connection that is quiet afterwards, where nothing else would report
// the end of the Write.
TEST_F(VerbsDriver, WriteThatNobodyWaitsFor_GivesItsRegistrationBack) {
  ASSERT_TRUE(connect());
  const size_t messages = call_on(*loop_, [&] { return device_.locked; });
  auto source = std::make_shared<ByteVector>(1u << 20);
  in_a_turn([&] { side_->write({1, 1u << 20, 0}, *source, source, 0, false); });
  ASSERT_TRUE(eventually([&] { return call_on(*loop_, [&] { return device_.posted.size(); }) == 1; }));
  EXPECT_GT(call_on(*loop_, [&] { return device_.locked; }), messages);
  call_on(*loop_, [&] { device_.complete(); });
  EXPECT_TRUE(eventually([&] { return call_on(*loop_, [&] { return device_.locked; }) == messages; }));
}

// The value of registrable_bytes() decides how much data is kept.
TEST_F(VerbsDriver, MemoryThatCanStayRegistered_IsWhatWasWhenMoreWasRefused) {
  auto domain = domains_->of(&device_.context);
  ASSERT_TRUE(domain);
  device_.may_lock = 2 * BufferPool::kSlabBytes;
  std::vector<Slice> slabs;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(fabric::verbs::registrable_bytes(*domains_), UINT64_MAX) << i;
    slabs.push_back(pool_.slice(BufferPool::kSlabBytes));
    EXPECT_TRUE((*domain)->share(slabs.back().bytes)) << i;
  }
  EXPECT_EQ(fabric::verbs::registrable_bytes(*domains_), 2 * BufferPool::kSlabBytes);
  EXPECT_EQ((*domain)->slabs_registered(), 2U);
}

class VerbsDriverBound : public VerbsDriver {
 protected:
  // The ports that were tried for a connection from a reserved port.
  std::vector<uint16_t> tried(const std::string& host) {
    fabric::ConnectOptions to;
    to.host = host;
    to.reserved_port = true;
    const Result<> made = connect(to);
    EXPECT_TRUE(made) << describe(made.error());
    std::vector<uint16_t> ports;
    // Port 0 is the witness'.
    for (const net::Endpoint& e : device_.bound) {
      if (e.port() != 0) ports.push_back(e.port());
    }
    return ports;
  }
  void refuse_first(int errnum) {
    device_.on_bind = [errnum, left = 3](const net::Endpoint& e) mutable {
      return e.port() != 0 && left-- > 0 ? errnum : 0;
    };
  }
};

// Linux reports a used port as EADDRINUSE, or as EADDRNOTAVAIL if one of the addresses is the wildcard
// address.
TEST_F(VerbsDriverBound, ReservedPortThatIsTaken_IsFollowedByTheNext) {
  for (const int errnum : {EADDRINUSE, EADDRNOTAVAIL}) {
    refuse_first(errnum);
    device_.bound.clear();
    const auto ports = tried("192.0.2.1");
    ASSERT_EQ(ports.size(), 4U) << errnum;
    for (const uint16_t port : ports) EXPECT_TRUE(port >= 665 && port <= 1023) << port;
    call_on(*loop_, [&] { side_.endpoint.reset(); });
  }
}

TEST_F(VerbsDriverBound, ReservedPortThatMayNotBeHad_IsDoneWithout) {
  refuse_first(EACCES);
  EXPECT_EQ(tried("192.0.2.1").size(), 1U);
}

// An identifier that is bound to the wildcard address does not take the interface from its destination.
TEST_F(VerbsDriverBound, LinkLocalDestination_GetsNoReservedPort) {
  EXPECT_TRUE(tried("fe80::1%lo").empty());
  call_on(*loop_, [&] { side_.endpoint.reset(); });
  device_.bound.clear();
  EXPECT_EQ(tried("fd00:8::1").size(), 1U);
}

// The passive side: what the fabric sends to peers that ask for a connection, and what it does then.
class VerbsDriverAsked : public VerbsDriver {
 protected:
  // The private data sent to a peer that asks; `side` owns the connection.
  std::string accept(Side& side) {
    listen(side);
    call_on(*loop_, [&] { device_.ask(); });
    EXPECT_TRUE(eventually([&] { return call_on(*loop_, [&] { return side.endpoint != nullptr; }); }));
    return call_on(*loop_, [&] {
      listener_.reset();
      const ByteVector& said = device_.said.back();
      return std::string(reinterpret_cast<const char*>(said.data()), said.size());
    });
  }
  void listen(Side& side) {
    if (!fabric_) make_fabric();
    call_on(*loop_, [&] {
      auto made = fabric_->listen("192.0.2.2", 20049, [&](std::unique_ptr<fabric::Incoming> incoming) {
        loop_->spawn(answer(std::move(incoming), side));
      });
      ASSERT_TRUE(made);
      listener_ = std::move(*made);
    });
  }
  Task<> answer(std::unique_ptr<fabric::Incoming> incoming, Side& side) {
    fabric::EndpointOptions options;
    options.private_data = [](bool invalidates) {
      return ByteVector(1, invalidates ? std::byte{'y'} : std::byte{'n'});
    };
    auto made = co_await incoming->accept(options);
    if (!made) ++failures_;
    if (!made) co_return;
    (*made)->start(side);
    side.endpoint = std::move(*made);
  }
  void drop(Side& side) {
    call_on(*loop_, [&] { side.endpoint.reset(); });
  }
  std::unique_ptr<fabric::Listener> listener_;
  unsigned failures_ = 0;  // of peers that asked
};

// A peer may ask again as often as it likes.
TEST_F(VerbsDriverAsked, PeersThatThereIsNoRoomFor_AreLoggedEverMoreRarely) {
  device_.may_lock = 0;
  Side side;
  listen(side);
  testing::internal::CaptureStdout();
  for (unsigned i = 0; i < 8; ++i) call_on(*loop_, [&] { device_.ask(); });
  const bool all = eventually([&] { return call_on(*loop_, [&] { return failures_; }) == 8; });
  const std::string log = testing::internal::GetCapturedStdout();
  ASSERT_TRUE(all);
  size_t lines = 0;
  for (size_t at = log.find("[warning] RDMA: "); at != std::string::npos;
       at = log.find("[warning] RDMA: ", at + 1))
    ++lines;
  EXPECT_EQ(lines, 4U) << log;  // for the 1st, 2nd, 4th and 8th
  call_on(*loop_, [&] { listener_.reset(); });
}

// Peers that ask and do not go on, however many, do not keep out others: the oldest is cancelled for the next
// one.
TEST_F(VerbsDriverAsked, PeersThatNeverEstablish_KeepNobodyOut) {
  fabric::verbs::Options options;
  options.startup_timeout = std::chrono::seconds(3);
  make_fabric(options);
  Side side;
  listen(side);
  device_.peers_establish = false;
  for (unsigned i = 0; i < 74; ++i) call_on(*loop_, [&] { device_.ask(); });
  const auto failures = [&] { return call_on(*loop_, [&] { return failures_; }); };
  EXPECT_TRUE(eventually([&] { return failures() >= 10; }));
  call_on(*loop_, [&] {
    device_.peers_establish = true;
    device_.ask();
  });
  EXPECT_TRUE(eventually([&] { return call_on(*loop_, [&] { return side.endpoint != nullptr; }); }));
  EXPECT_TRUE(eventually([&] { return failures() == 74; })) << "they end in time";
  call_on(*loop_, [&] { listener_.reset(); });
  drop(side);
}

// As in bnxt_re: the kernel reports Send With Invalidate as a feature of the device, and the user-space
// library does not know the opcode. Only one connection is lost for that.
TEST_F(VerbsDriverAsked, SendWithInvalidateThatIsRefused_IsNotOfferedAgain) {
  device_.on_post_send = [](const ibv_send_wr& wr) { return wr.opcode == IBV_WR_SEND_WITH_INV ? EINVAL : 0; };
  Side first, second;
  EXPECT_EQ(accept(first), "y");
  in_a_turn([&] { first->send({}, 77); });
  ASSERT_TRUE(first.disconnects());
  drop(first);
  EXPECT_EQ(accept(second), "n");
  in_a_turn([&] { second->send({}, 77); });
  ASSERT_TRUE(eventually([&] { return call_on(*loop_, [&] { return device_.posted.size(); }) == 1; }));
  EXPECT_EQ(device_.posted[0].opcode, IBV_WR_SEND);
  EXPECT_TRUE(second.disconnected().empty());
  drop(second);
}

// A queue pair that has ended refuses every request.
TEST_F(VerbsDriverAsked, SendWithInvalidateAfterTheEnd_SaysNothingOfTheDevice) {
  device_.on_post_send = [](const ibv_send_wr&) { return EINVAL; };
  device_.state_of_pairs = IBV_QPS_ERR;
  Side first, second;
  EXPECT_EQ(accept(first), "y");
  in_a_turn([&] { first->send({}, 77); });
  ASSERT_TRUE(first.disconnects());
  drop(first);
  EXPECT_EQ(accept(second), "y");
  drop(second);
}

}  // namespace
}  // namespace nfsrdma::test
