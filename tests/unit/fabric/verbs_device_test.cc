// SPDX-License-Identifier: Apache-2.0
// What only a fabric of RDMA devices has: memory windows and their replacement, the limit of locked memory, a
// device that is removed. Needs a machine with an RDMA device; tests/interop has one.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "tests/unit/fabric/support/fabric_pair.h"
#include "tests/unit/fabric/support/rdma_device.h"
#include "transport/fabric/verbs/domain.h"
#include "transport/fabric/verbs/verbs.h"

namespace nfsrdma::test {
namespace {

using fabric::Access;

class VerbsDevice : public testing::Test {
 protected:
  void SetUp() override {
    device_ = find_rdma_device(AF_INET);
    if (!device_.lacking.empty()) GTEST_SKIP() << device_.lacking;
  }
  std::unique_ptr<FabricPair> connect(fabric::verbs::Options options = {}) {
    return connect(options, fabric::verbs::make_shared_domains(pool_));
  }
  std::unique_ptr<FabricPair> connect(fabric::verbs::Options options,
                                      std::shared_ptr<fabric::verbs::Domains> domains) {
    auto pair = std::make_unique<FabricPair>(
        [=](Loop& loop) { return fabric::verbs::make_fabric(loop, options, domains); }, device_.address);
    pair->connect();
    return pair;
  }
  RdmaDevice device_;
  BufferPool pool_;
};

TEST_F(VerbsDevice, Carrier_NamesTheDevice) {
  const auto pair = connect();
  EXPECT_EQ(pair->active->carrier().rfind(device_.name + " port ", 0), 0u) << pair->active->carrier();
  EXPECT_EQ(std::string_view(pair->active->limits().exposure).rfind("fenced by ", 0), 0u);
}

// Memory of the pool is registered once. Its window determines what is exposed, and late Writes are refused.
TEST_F(VerbsDevice, LateWriteToPooledMemory_IsRefused_WithWindowsAndWithout) {
  for (const bool windows : {true, false}) {
    SCOPED_TRACE(windows);
    fabric::verbs::Options options;
    options.windows = windows;
    const auto pair = connect(options);
    const Slice slice = pool_.slice(100'000);
    std::fill(slice.bytes.begin(), slice.bytes.end(), std::byte{0xa5});
    const auto segments = pair->expose(pair->active, slice.bytes, Access::kRemoteWrite);
    ASSERT_EQ(segments.size(), 1u);
    pair->send(pair->active, {});
    ASSERT_TRUE(pair->passive.receives(1));
    const ByteVector data = pattern(1000, 3);
    pair->on_loop([&] { pair->passive->write(segments[0], data, nullptr, 1, true); });
    ASSERT_TRUE(pair->passive.completes(1));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), slice.bytes.begin()));
    EXPECT_TRUE(pair->invalidate(pair->active, segments));
    const ByteVector late = pattern(1000, 4);
    pair->on_loop([&] { pair->passive->write(segments[0], late, nullptr, 2, true); });
    EXPECT_TRUE(pair->active.disconnects());
    EXPECT_TRUE(pair->passive.disconnects());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), slice.bytes.begin()));
    EXPECT_EQ(pair->passive.completed().size(), 1u);
  }
}

// The domain that the connections of `domains` use.
std::shared_ptr<fabric::verbs::Domain> domain_of(fabric::verbs::Domains& domains, const RdmaDevice& device) {
  int count = 0;
  const std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> contexts(rdma_get_devices(&count),
                                                                             &rdma_free_devices);
  for (int i = 0; i < count; ++i) {
    if (device.name != ibv_get_device_name(contexts.get()[i]->device)) continue;
    auto domain = domains.of(contexts.get()[i]);
    return domain ? *domain : nullptr;
  }
  return nullptr;
}

// Writes from one part of a slab into another part, which the peer has exposed.
void write_within(FabricPair& pair, MutableBytes slab, size_t turn) {
  constexpr size_t kPart = 100'000;
  const MutableBytes from = slab.subspan(turn * kPart, kPart), to = slab.subspan((turn + 1) * kPart, kPart);
  const ByteVector data = pattern(kPart, static_cast<unsigned>(turn));
  std::copy(data.begin(), data.end(), from.begin());
  const auto segments = pair.expose(pair.active, to, Access::kRemoteWrite);
  ASSERT_EQ(segments.size(), 1u);
  pair.send(pair.active, {});
  ASSERT_TRUE(pair.passive.receives(turn + 1));
  pair.on_loop([&] { pair.passive->write(segments[0], from, nullptr, turn, true); });
  ASSERT_TRUE(pair.passive.completes(turn + 1));
  EXPECT_TRUE(std::equal(data.begin(), data.end(), to.begin()));
  EXPECT_TRUE(pair.invalidate(pair.active, segments));
}

// docs/dev/rdma.md: the pool's memory is registered once per protection domain, whichever loop's
// connection uses it and however often.
TEST_F(VerbsDevice, ASlab_IsRegisteredOnceForAllConnections_UntilThePoolGivesItBack) {
  BufferPool pool(0);  // unused memory goes back to the system
  const auto domains = fabric::verbs::make_shared_domains(pool);
  const auto one = connect({}, domains), two = connect({}, domains);
  const auto domain = domain_of(*domains, device_);
  ASSERT_TRUE(domain);
  const size_t before = domain->slabs_registered();  // the memory of their Receives
  Slice slab = pool.slice(BufferPool::kSlabBytes);
  EXPECT_EQ(domain->slabs_registered(), before) << "registered with its first use";
  for (size_t turn = 0; turn < 10; ++turn) {
    for (FabricPair* pair : {one.get(), two.get()}) {
      write_within(*pair, slab.bytes, turn);
      EXPECT_EQ(domain->slabs_registered(), before + 1) << turn;
    }
  }
  slab = {};
  EXPECT_EQ(domain->slabs_registered(), before);
}

// Memory that the peer may be using is revoked by ending the connection, and closed after that.
TEST_F(VerbsDevice, RevokedMemory_EndsTheConnection_WithWindowsAndWithout) {
  for (const bool windows : {true, false}) {
    SCOPED_TRACE(windows);
    fabric::verbs::Options options;
    options.windows = windows;
    const auto pair = connect(options);
    const Slice slice = pool_.slice(100'000);
    const auto done_with = pair->expose(pair->active, slice.bytes.first(50'000), Access::kRemoteWrite);
    const auto in_use = pair->expose(pair->active, slice.bytes.subspan(50'000), Access::kRemoteWrite);
    pair->send(pair->active, {});
    ASSERT_TRUE(pair->passive.receives(1));
    EXPECT_TRUE(pair->invalidate(pair->active, done_with));
    EXPECT_TRUE(pair->on_loop([&] { return pair->active->revoke(done_with); })) << "nothing of it is open";
    pair->send(pair->active, {});
    ASSERT_TRUE(pair->passive.receives(2));
    EXPECT_FALSE(pair->on_loop([&] { return pair->active->revoke(in_use); }));
    ASSERT_TRUE(pair->active.disconnects());
    EXPECT_EQ(pair->active.disconnected()[0].errnum, ECANCELED);
    EXPECT_TRUE(pair->passive.disconnects());
  }
}

// Packets that rxe has sent; nullopt if the device does not report them.
std::optional<uint64_t> packets_sent(const RdmaDevice& device) {
  std::ifstream counter("/sys/class/infiniband/" + device.name + "/ports/1/hw_counters/sent_pkts");
  uint64_t packets = 0;
  if (counter >> packets) return packets;
  return std::nullopt;
}

TEST_F(VerbsDevice, QuietPeer_IsAskedAndAnswers) {
  if (!packets_sent(device_)) GTEST_SKIP() << "the device does not count packets";
  fabric::verbs::Options options;
  options.keepalive = std::chrono::milliseconds(5);
  const auto pair = connect(options);
  const uint64_t before = *packets_sent(device_);
  EXPECT_TRUE(eventually([&] { return *packets_sent(device_) >= before + 20; })) << "nobody was asked";
  pair->send(pair->active, pattern(10, 1));
  EXPECT_TRUE(pair->passive.receives(1));
  EXPECT_TRUE(pair->active.disconnected().empty());
}

// Work requests that were posted and not executed complete as flushed, and nothing is left.
TEST_F(VerbsDevice, EndWithAFullQueue_FlushesAll) {
  const auto pair = connect();
  auto data = std::make_shared<ByteVector>(1u << 20);
  const std::weak_ptr<ByteVector> used = data;
  const auto segments = pair->expose(pair->active, *data, Access::kRemoteWrite);
  pair->send(pair->active, {});
  ASSERT_TRUE(pair->passive.receives(1));
  auto source = std::make_shared<ByteVector>(1u << 20);
  const std::weak_ptr<ByteVector> sent = source;
  pair->on_loop([&] {
    for (Cookie i = 0; i < 600; ++i) pair->passive->write(segments[0], *source, source, i, true);
    source.reset();
    pair->passive->disconnect({.layer = Layer::kTransport,
                               .recovery = Recovery::kReconnect,
                               .errnum = ECONNABORTED,
                               .op = "test",
                               .cause = "enough"});
  });
  ASSERT_TRUE(pair->passive.disconnects());
  EXPECT_TRUE(sent.expired());
  EXPECT_TRUE(pair->active.disconnects());
}

// As an ordinary user: some drivers let root lock any amount of memory.
TEST_F(VerbsDevice, LimitOfLockedMemory_MakesRegistrationsGoAndNotFail) {
  if (geteuid() == 0)
    GTEST_SKIP() << "root is not held to RLIMIT_MEMLOCK by every driver: run it as another user";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8u << 20);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const auto pair = connect();
  std::vector<Slice> many;
  for (int i = 0; i < 16; ++i) {
    many.push_back(pool_.slice(BufferPool::kMaxBytes));
    const auto segments = pair->expose(pair->active, many.back().bytes, Access::kRemoteRead);
    ASSERT_EQ(segments.size(), 1u) << i;
    EXPECT_TRUE(pair->invalidate(pair->active, segments));
  }
}

class VerbsSource : public VerbsDevice {
 protected:
  using Gids = std::vector<ibv_gid_entry>;

  Gids gids() {
    int count = 0;
    const std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> contexts(rdma_get_devices(&count),
                                                                               &rdma_free_devices);
    Gids found(256);
    for (int i = 0; i < count; ++i) {
      if (device_.name != ibv_get_device_name(contexts.get()[i]->device)) continue;
      const ssize_t n = ibv_query_gid_table(contexts.get()[i], found.data(), found.size(), 0);
      found.resize(n > 0 ? static_cast<size_t>(n) : 0);
      return found;
    }
    return {};
  }
  static bool is_ipv4(const ibv_gid_entry& gid) {
    in6_addr address{};
    std::memcpy(&address, gid.gid.raw, sizeof(address));
    return IN6_IS_ADDR_V4MAPPED(&address);
  }
  static std::string text(const ibv_gid_entry& gid) {
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, gid.gid.raw + 12, text, sizeof(text));
    return text;
  }
  fabric::verbs::Options options(unsigned port, std::optional<unsigned> gid = {}) {
    fabric::verbs::Options o;
    o.device = device_.name;
    o.port = port;
    o.gid_index = gid;
    return o;
  }
  // The error of connecting to a port on which nobody listens.
  Error refused(const fabric::verbs::Options& options) {
    LoopThread loop;
    std::unique_ptr<fabric::Fabric> made;
    call_on(*loop, [&] {
      made = fabric::verbs::make_fabric(*loop, options, fabric::verbs::make_shared_domains(pool_));
    });
    fabric::ConnectOptions to;
    to.host = device_.address;
    to.port = 9;
    auto connected = run_on(*loop, made->connect(to));
    call_on(*loop, [&] { made.reset(); });
    EXPECT_FALSE(connected);
    return connected ? Error{} : connected.error();
  }
};

TEST_F(VerbsSource, GidOfAnAddress_IsWhereConnectionsComeFrom) {
  size_t tried = 0;
  for (const ibv_gid_entry& gid : gids()) {
    if (!is_ipv4(gid) || gid.gid_type == IBV_GID_TYPE_IB) continue;
    const auto pair = connect(options(gid.port_num, gid.gid_index));
    ASSERT_TRUE(pair->active.endpoint) << text(gid);
    EXPECT_EQ(pair->active->local().rfind(text(gid) + ":", 0), 0u) << pair->active->local();
    EXPECT_EQ(pair->active->carrier().rfind(device_.name + " port " + std::to_string(gid.port_num), 0), 0u);
    pair->send(pair->active, pattern(10, 1));
    EXPECT_TRUE(pair->passive.receives(1));
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << device_.name << " has no GID that is an IPv4 address";
}

TEST_F(VerbsSource, GidThatLeadsNowhere_IsSaid) {
  const Error missing = refused(options(0, 4000));
  EXPECT_EQ(missing.errnum, ENODEV);
  EXPECT_NE(missing.cause.find("GID 4000 of " + device_.name + " is not there"), std::string::npos)
      << missing.cause;
  for (const ibv_gid_entry& gid : gids()) {
    if (is_ipv4(gid)) continue;
    const Error other = refused(options(gid.port_num, gid.gid_index));
    EXPECT_EQ(other.errnum, ENODEV);
    EXPECT_NE(other.cause.find("is no address of the server's family"), std::string::npos) << other.cause;
    return;
  }
}

TEST_F(VerbsSource, PortThatDoesNotLeadThere_IsSaid) {
  const Error why = refused(options(200));
  EXPECT_EQ(why.errnum, ENODEV);
  EXPECT_NE(why.cause.find(device_.name + " port 1 leads there"), std::string::npos) << why.cause;
}

}  // namespace
}  // namespace nfsrdma::test
