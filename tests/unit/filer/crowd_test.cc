// SPDX-License-Identifier: Apache-2.0
// One peer uses too much: connections, memory, clients, sessions. Other clients are still served.
#include "filer/links/crowd.h"

#include "tests/unit/filer/raw_client.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::filer::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// --- which connection is closed

class FakeLink final : public links::Link {
 public:
  explicit FakeLink(links::LinkId id) : id_(id) {}
  links::LinkId id() const override { return id_; }
  using links::Link::send;
  void send(ByteVector, links::BulkPlaces) override {}
  void send_raw(ByteVector) override {}
  void close(bool) override {}
  void pause_reading(bool) override {}
  size_t held_bytes() const override { return held; }
  size_t held = 0;

 private:
  const links::LinkId id_;
};

class Crowd : public ::testing::Test {
 protected:
  links::crowd::Links links;
  TimePoint now = Clock::now();

  FakeLink& add(const std::string& address, std::optional<uint32_t> uid = {}) {
    const links::LinkId id = links.size() + 1;
    auto link = std::make_shared<FakeLink>(id);
    now += seconds(1);
    link->standing.address = address;
    link->standing.accepted = link->standing.heard = now;
    if (uid) {
      link->standing.has_session = true;
      link->standing.owner.flavor = rpc::AUTH_SYS;
      link->standing.owner.uid = *uid;
    }
    links[id] = link;
    return *link;
  }
  links::LinkId goes(size_t most) {
    const links::LinkPtr link = links::crowd::goes_for_another(links, most);
    return link ? link->id() : 0;
  }
};

TEST_F(Crowd, Strangers_GoFirst_TheOldestOfTheAddressThatHasMost) {
  add("10.0.0.1");
  add("10.0.0.2");
  add("10.0.0.2");
  add("10.0.0.3", 0);
  EXPECT_EQ(goes(4), 2u);
}

TEST_F(Crowd, AFewStrangers_MayStayWhereOneUserHasTooMany) {
  add("127.0.0.1");
  for (int i = 0; i < 3; ++i) add("127.0.0.1", 1000);
  for (int i = 0; i < 12; ++i) add("127.0.0.1", 1001);
  links[6]->standing.heard = now + seconds(10);
  links[5]->standing.heard = now + seconds(10);
  EXPECT_EQ(goes(16), 7u) << "his that was silent for longest";
}

// A peer that claims to be many users has one address.
TEST_F(Crowd, TheAddressWithMost_ComesBeforeThePrincipal) {
  for (uint32_t i = 0; i < 40; ++i) add("10.0.0.1", i / 2);
  for (uint32_t i = 0; i < 24; ++i) add("10.0.0.2", 7);
  const links::LinkId id = goes(16);
  EXPECT_GE(id, 1u);
  EXPECT_LE(id, 40u);
}

TEST_F(Crowd, WhereNobodyHasMoreThanHisShare_TheNewcomerGoes) {
  for (uint32_t i = 0; i < 16; ++i) add("10.0.0.1", i);
  EXPECT_EQ(goes(16), 0u);
}

TEST_F(Crowd, WhoHoldsMost_LosesHisLargest) {
  add("127.0.0.1", 1000).held = 50;
  add("127.0.0.1", 1001).held = 30;
  add("127.0.0.1", 1001).held = 40;
  add("10.0.0.1", 1).held = 100;
  const auto going = links::crowd::hold_too_much(links, 185);
  ASSERT_EQ(going.size(), 1u);
  EXPECT_EQ(going[0]->id(), 3u);
  EXPECT_TRUE(links::crowd::hold_too_much(links, 220).empty());
}

// --- connections

size_t count_ended(std::vector<std::unique_ptr<RawConnection>>& all) {
  size_t ended = 0;
  for (auto& c : all) ended += c->ended(0) ? 1 : 0;
  return ended;
}

TEST(Connections, SilentOnes_KeepNobodyOut) {
  nfs::Options options;
  options.max_links = 16;
  const auto server = start_server(std::move(options));
  std::vector<std::unique_ptr<RawConnection>> silent;
  const auto attack = [&] {
    for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<RawConnection>(server->port()));
  };
  attack();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  attack();
  EXPECT_EQ(client.run({}).status, NFS4_OK) << "over the same connection";
  RawClient late(*server, "late");
  ASSERT_TRUE(late.establish());
  EXPECT_EQ(client.run({}).status, NFS4_OK);
  EXPECT_LE(server->connections(), 16u);
  EXPECT_GE(count_ended(silent), 60u);
}

TEST(Connections, OfOneUserWithTooMany_KeepNobodyElseOut) {
  nfs::Options options;
  options.max_links = 16;
  const auto server = start_server(std::move(options));
  std::vector<std::unique_ptr<RawClient>> his;
  for (int i = 0; i < 40; ++i) {
    his.push_back(std::make_unique<RawClient>(*server, "his" + std::to_string(i), User{1001, 1001}));
    ASSERT_TRUE(his.back()->establish()) << i;
  }
  RawClient honest(*server, "honest", User{1002, 1002});
  ASSERT_TRUE(honest.establish());
  for (int i = 40; i < 60; ++i) {
    his.push_back(std::make_unique<RawClient>(*server, "his" + std::to_string(i), User{1001, 1001}));
    ASSERT_TRUE(his.back()->establish()) << i;
  }
  EXPECT_EQ(honest.run({}).status, NFS4_OK) << "over the same connection";
}

TEST(Connections, IdleOnesWithoutASession_End) {
  nfs::Options options;
  options.idle_without_session = milliseconds(300);
  const auto server = start_server(std::move(options));
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  RawConnection idle(server->port());
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(client.run({}).status, NFS4_OK) << "a session may be idle";
}

TEST(Connections, UnfinishedRecords_End) {
  nfs::Options options;
  options.patience = milliseconds(300);
  const auto server = start_server(std::move(options));
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  ByteVector bytes(4 + 1000);
  store_be32(bytes.data(), 0x80000000u | (1u << 20));
  RawConnection whole(server->port());
  RawConnection slow(server->port());
  ASSERT_TRUE(slow.send_raw(bytes));
  EXPECT_TRUE(slow.ended());
  EXPECT_FALSE(whole.ended(0));
  EXPECT_EQ(client.run({}).status, NFS4_OK);
}

TEST(Connections, WhoTakesNoReplies_Ends) {
  nfs::Options options;
  options.patience = milliseconds(300);
  const auto server = start_server(std::move(options));
  server->make_file("/export/f", std::string(1u << 20, 'x'));
  RawClient client(*server), other(*server, "other");
  ASSERT_TRUE(client.establish() && other.establish());
  const nfs_fh4 file = client.handle_of("/export/f");
  for (unsigned i = 0; i < 100; ++i)
    client.send(ops(client.next_sequence(0, false), PUTFH4args{file}, READ4args{{}, 0, 512u << 10}));
  EXPECT_TRUE(nfsrdma::test::eventually([&] { return server->connections() == 1; }));
  EXPECT_EQ(server->connections(), 1u);
  EXPECT_EQ(other.run({}).status, NFS4_OK);
}

// Each of many connections stays below its own limit; the limit for all of them holds too.
TEST(Connections, TogetherHoldNoMoreThanTheyMay) {
  constexpr unsigned kConnections = 12;
  nfs::Options options;
  options.max_held_bytes = 12u << 20;
  const auto server = start_server(std::move(options));
  server->make_file("/export/f", std::string(1u << 20, 'x'));
  RawClient honest(*server, "honest", User{1002, 1002});
  ASSERT_TRUE(honest.establish());
  std::vector<std::unique_ptr<RawClient>> his;
  for (unsigned i = 0; i < kConnections; ++i) {
    his.push_back(std::make_unique<RawClient>(*server, "his" + std::to_string(i), User{1001, 1001}));
    RawClient& client = *his.back();
    ASSERT_TRUE(client.establish());
    const nfs_fh4 file = client.handle_of("/export/f");
    for (unsigned n = 0; n < 60; ++n)
      client.send(ops(client.next_sequence(0, false), PUTFH4args{file}, READ4args{{}, 0, 512u << 10}));
    EXPECT_EQ(honest.read("/export/f", {}, 0, 1000), std::string(1000, 'x'));
  }
  EXPECT_TRUE(nfsrdma::test::eventually([&] { return server->connections() <= kConnections - 2; }));
  EXPECT_LE(server->connections(), kConnections - 2) << "some of his have gone";
  EXPECT_EQ(honest.run({}).status, NFS4_OK) << "over the same connection";
}

// --- clients and sessions

TEST(Shares, OneUsersClients_LeaveRoomForOthers) {
  const auto server = start_server({.limits = {.max_clients = 200}, .manual_clock = true});
  RawClient his(*server, "his", User{1001, 1001});
  size_t made = 0;
  for (; made < 300; ++made) {
    his.owner = "his" + std::to_string(made);
    const nfsstat4 status = his.exchange_id().status;
    if (status == NFS4ERR_DELAY) break;
    ASSERT_EQ(status, NFS4_OK);
    ASSERT_EQ(his.create_session().status, NFS4_OK);
  }
  EXPECT_EQ(made, 40u) << "a quarter of the 160 that others have left";
  for (uint32_t uid = 2000; uid < 2020; ++uid) {
    RawClient other(*server, "other" + std::to_string(uid), User{uid, uid});
    EXPECT_TRUE(other.establish()) << uid;
  }
  EXPECT_EQ(his.exchange_id().status, NFS4ERR_DELAY);
  server->advance_clock(seconds(100));
  EXPECT_EQ(his.exchange_id().status, NFS4_OK) << "one of his own leases is over";
}

TEST(Shares, OneUsersSessions_LeaveRoomForOthers) {
  const auto server = start_server({.limits = {.max_sessions = 200}, .manual_clock = true});
  RawClient his(*server, "his", User{1001, 1001});
  ASSERT_TRUE(his.establish());
  size_t made = 1;
  for (; made < 300 && his.create_session().status == NFS4_OK; ++made) {
  }
  EXPECT_EQ(made, 40u);
  RawClient other(*server, "other", User{1002, 1002});
  EXPECT_TRUE(other.establish());
}

// A peer on another machine can claim to be many users, so each address has a limit too.
TEST(Shares, AnAddress_HasHalfWhoeverItsUsersAre) {
  state::ClientTable::Limits limits;
  limits.max_clients = 200;
  state::ClientTable table{{}, limits, {[](const state::Client&) { return false; }, [](state::Client&) {}}};
  uint32_t next = 0;
  const auto make = [&](const std::string& address) {
    EXCHANGE_ID4args args;
    args.eia_clientowner.co_ownerid = std::to_string(next);
    tree::Principal who{rpc::AUTH_SYS, next++, 0, {}};
    const EXCHANGE_ID4res res = table.exchange_id(args, who, {}, kLease, address);
    if (res.status == NFS4_OK) table.find(res.resok4.eir_clientid)->confirmed = true;
    return res.status;
  };
  size_t made = 0;
  while (made < 300 && make("192.0.2.1") == NFS4_OK) ++made;
  EXPECT_EQ(made, 100u);
  EXPECT_EQ(make("192.0.2.2"), NFS4_OK);
  EXPECT_EQ(make("127.0.0.1"), NFS4_OK);
  size_t here = 0;
  while (here < 300 && make("127.0.0.1") == NFS4_OK) ++here;
  EXPECT_EQ(here, 98u) << "here principals are known: whoever comes finds room while there is any";
}

}  // namespace
}  // namespace nfsrdma::filer::test
