// SPDX-License-Identifier: Apache-2.0
// Client IDs and sessions with all kinds of arguments (RFC 8881 sections 18.35 to 18.37, 18.46, 18.50): cases
// that are not in session_test.cc and sequence_test.cc.

#include <bit>
#include <random>
#include <thread>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using std::chrono::seconds;

EXCHANGE_ID4args exchange(const RawClient& client) {
  EXCHANGE_ID4args args;
  args.eia_clientowner = {client.verifier, client.owner};
  return args;
}
nfsstat4 status_of(RawClient& client, const EXCHANGE_ID4args& args) {
  return client.call(ops(args)).status;
}

// --- EXCHANGE_ID ---

// "Bits not defined above should not be set in the eia_flags field. If they are, the server MUST reject the
// operation with NFS4ERR_INVAL." CONFIRMED_R "can only be set in eir_flags".
TEST(ExchangeIdArguments, Flags_AreTheDefinedOnes) {
  const auto server = start_server();
  RawClient client(*server);
  for (unsigned bit = 0; bit < 32; ++bit) {
    const uint32_t flag = uint32_t{1} << bit;
    constexpr uint32_t kDefined = EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_SUPP_MOVED_MIGR |
                                  EXCHGID4_FLAG_BIND_PRINC_STATEID | EXCHGID4_FLAG_MASK_PNFS;
    const nfsstat4 expected = (flag & kDefined) != 0                      ? NFS4_OK
                              : flag == EXCHGID4_FLAG_UPD_CONFIRMED_REC_A ? NFS4ERR_NOENT
                                                                          : NFS4ERR_INVAL;
    EXCHANGE_ID4args args = exchange(client);
    args.eia_flags = flag;
    EXPECT_EQ(status_of(client, args), expected) << "bit " << bit;
  }
}

TEST(ExchangeIdArguments, OwnersOfAnyLegalLength_AreTaken) {
  const auto server = start_server();
  RawClient client(*server);
  for (const size_t length : {0u, 1u, 1024u}) {
    client.owner = std::string(length, 'o');
    EXPECT_EQ(client.exchange_id().status, NFS4_OK) << length;
  }
}

// "the server MUST set one of" the roles. The server's identity does not depend on the client or the
// connection (sections 2.10.5, 18.35.3).
TEST(ExchangeIdArguments, ServerIsTheSameToEverybody) {
  const auto server = start_server();
  RawClient one(*server, "one");
  RawClient two(*server, "two", {.uid = 1000, .gid = 1000});
  EXCHANGE_ID4args args = exchange(two);
  args.eia_client_impl_id = nfs_impl_id4{"example.org", "client 1", {1, 2}};
  const EXCHANGE_ID4res first = one.exchange_id();
  const COMPOUND4res reply = two.call(ops(args));
  const EXCHANGE_ID4res& second = at<EXCHANGE_ID4res>(reply, 0);
  ASSERT_EQ(first.status, NFS4_OK);
  ASSERT_EQ(second.status, NFS4_OK);
  EXPECT_EQ(first.resok4.eir_server_owner, second.resok4.eir_server_owner);
  EXPECT_EQ(first.resok4.eir_server_scope, second.resok4.eir_server_scope);
  EXPECT_NE(first.resok4.eir_clientid, second.resok4.eir_clientid);
  for (const EXCHANGE_ID4res& res : {first, second}) {
    EXPECT_NE(res.resok4.eir_flags & EXCHGID4_FLAG_MASK_PNFS, 0u);
    EXPECT_EQ(res.resok4.eir_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, 0u);
    EXPECT_EQ(res.resok4.eir_state_protect.how, SP4_NONE);
  }
}

// This server lacks both. For SP4_MACH_CRED "the client MUST send the EXCHANGE_ID operation with RPCSEC_GSS",
// which this one does not. For SP4_SSV, "if the client's ssp_hash_algs (or
// ssp_encr_algs) is empty the server returns NFS4ERR_INVAL"; the server supports none of the encryption
// algorithms.
TEST(ExchangeIdArguments, StateProtection_IsRefusedForWhatItLacks) {
  const auto server = start_server();
  RawClient client(*server);
  EXCHANGE_ID4args args = exchange(client);
  args.eia_state_protect.how = SP4_MACH_CRED;
  EXPECT_EQ(status_of(client, args), NFS4ERR_INVAL);
  args.eia_state_protect.how = SP4_SSV;
  EXPECT_EQ(status_of(client, args), NFS4ERR_INVAL);
  const std::string sha256("\x60\x86\x48\x01\x65\x03\x04\x02\x01");
  args.eia_state_protect.ssv.ssp_hash_algs.push_back({sha256});
  args.eia_state_protect.ssv.ssp_encr_algs.push_back({"nonsense"});
  args.eia_state_protect.ssv.ssp_window = 4;
  EXPECT_EQ(status_of(client, args), NFS4ERR_ENCR_ALG_UNSUPP);
}

// Section 18.35.4: all combinations of record, update, verifier and principal.
TEST(ExchangeIdCases, Everyone) {
  struct Case {
    bool update, confirmed, same_verifier, same_principal;
    nfsstat4 status;
    bool same_id;
  };
  const Case cases[] = {
      {false, false, false, false, NFS4_OK, false},  // 4: replaced
      {false, false, false, true, NFS4_OK, false},
      {false, false, true, false, NFS4_OK, false},
      {false, false, true, true, NFS4_OK, false},
      {false, true, false, false, NFS4ERR_CLID_INUSE, false},  // 3: it has a session
      {false, true, true, false, NFS4ERR_CLID_INUSE, false},
      {false, true, false, true, NFS4_OK, false},         // 5: restart
      {false, true, true, true, NFS4_OK, true},           // 2
      {true, false, false, false, NFS4ERR_NOENT, false},  // 7
      {true, false, false, true, NFS4ERR_NOENT, false},
      {true, false, true, false, NFS4ERR_NOENT, false},
      {true, false, true, true, NFS4ERR_NOENT, false},
      {true, true, false, false, NFS4ERR_NOT_SAME, false},  // 8, or 9: "or NFS4ERR_PERM"
      {true, true, false, true, NFS4ERR_NOT_SAME, false},   // 8
      {true, true, true, false, NFS4ERR_PERM, false},       // 9
      {true, true, true, true, NFS4_OK, true},              // 6
  };
  const auto server = start_server();
  unsigned number = 0;
  for (const Case& c : cases) {
    const std::string owner = "case " + std::to_string(number++);
    RawClient first(*server, owner, {.uid = 1000, .gid = 1000});
    ASSERT_EQ(first.exchange_id().status, NFS4_OK);
    if (c.confirmed) {
      ASSERT_EQ(first.create_session().status, NFS4_OK);
    }
    RawClient second(*server, owner, {.uid = c.same_principal ? 1000u : 2000u, .gid = 1000});
    if (!c.same_verifier) second.verifier = verifier4::of(2);
    const EXCHANGE_ID4res res =
        second.exchange_id(c.update ? uint32_t{EXCHGID4_FLAG_UPD_CONFIRMED_REC_A} : 0);
    EXPECT_EQ(name_of(res.status), name_of(c.status)) << owner;
    if (res.status != NFS4_OK) continue;
    EXPECT_EQ(res.resok4.eir_clientid == first.clientid, c.same_id) << owner;
    EXPECT_EQ((res.resok4.eir_flags & EXCHGID4_FLAG_CONFIRMED_R) != 0, c.same_id) << owner;
    if (c.confirmed) {
      EXPECT_EQ(first.run({}).status, NFS4_OK) << "the old session lives until the new one is there";
    }
  }
}

// "If old_clientid_ret has no state ... the server ... deletes the old record": a client without sessions has
// no state.
TEST(ExchangeIdCases, OtherPrincipalOfAnIdleClient_ReplacesIt) {
  const auto server = start_server();
  RawClient first(*server, "shared", {.uid = 1000, .gid = 1000});
  ASSERT_TRUE(first.establish());
  ASSERT_EQ(first.call(ops(DESTROY_SESSION4args{first.session})).status, NFS4_OK);
  RawClient second(*server, "shared", {.uid = 2000, .gid = 2000});
  ASSERT_EQ(second.exchange_id().status, NFS4_OK);
  EXPECT_NE(second.clientid, first.clientid);
  EXPECT_EQ(first.create_session().status, NFS4ERR_STALE_CLIENTID);
}

TEST(ExchangeIdCases, BehindSequence_ForAnotherOwner_Works) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  RawClient other(*server, "another");
  EXPECT_EQ(client.run(ops(exchange(other))).status, NFS4_OK);
  EXPECT_EQ(client.call(ops(exchange(other), PUTROOTFH4args{})).status, NFS4ERR_NOT_ONLY_OP);
}

// --- limits ---

// The number of remembered clients is limited. Unconfirmed records are removed first, then clients with
// expired leases; a client with a valid lease stays.
TEST(ClientLimits, AtTheLimit_TheLongestExpiredGoes) {
  const auto server = start_server({.limits = {.max_clients = 3}, .manual_clock = true});
  server->configure([](nfs::Switches& s) { s.expiry = nfs::Expiry::kCourtesy; });
  RawClient one(*server, "one");
  RawClient two(*server, "two");
  RawClient three(*server, "three");
  RawClient four(*server, "four");
  ASSERT_TRUE(one.establish());
  ASSERT_TRUE(two.establish());
  ASSERT_EQ(three.exchange_id().status, NFS4_OK);
  ASSERT_EQ(four.exchange_id().status, NFS4_OK) << "in the place of the unconfirmed one";
  EXPECT_EQ(three.create_session().status, NFS4ERR_STALE_CLIENTID);
  ASSERT_EQ(four.create_session().status, NFS4_OK);
  EXPECT_EQ(three.exchange_id().status, NFS4ERR_DELAY) << "all have a lease";
  server->advance_clock(seconds(80));
  ASSERT_EQ(two.run({}).status, NFS4_OK);
  server->advance_clock(seconds(20));
  ASSERT_TRUE(three.establish());
  EXPECT_EQ(two.run({}).status, NFS4_OK);
  EXPECT_EQ(server->clients().size(), 3u);
}

TEST(ClientLimits, TooManySessions_AreNoSpace) {
  const auto server = start_server({.limits = {.max_sessions = 2}});
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  ASSERT_EQ(client.create_session().status, NFS4_OK);
  EXPECT_EQ(client.create_session().status, NFS4ERR_NOSPC);
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session})).status, NFS4_OK);
  EXPECT_EQ(client.create_session().status, NFS4_OK) << "the refusal did not use the sequence ID up";
}

// --- DESTROY_CLIENTID ---

TEST(DestroyClientidCases, UnconfirmedOnes_GoAloneOrInASessionOfAnother) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  for (const bool in_session : {false, true}) {
    RawClient other(*server, "another");
    ASSERT_EQ(other.exchange_id().status, NFS4_OK);
    const Ops request = ops(DESTROY_CLIENTID4args{other.clientid});
    const auto destroy = [&] { return (in_session ? client.run(request) : client.call(request)).status; };
    EXPECT_EQ(destroy(), NFS4_OK);
    EXPECT_EQ(destroy(), NFS4ERR_STALE_CLIENTID);
  }
  EXPECT_EQ(client.call(ops(DESTROY_CLIENTID4args{0}, RECLAIM_COMPLETE4args{true})).status,
            NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(client.call(ops(DESTROY_SESSION4args{client.session}, PUTROOTFH4args{})).status,
            NFS4ERR_NOT_ONLY_OP);
}

// --- principals ---

// Section 2.10.8.3: an attacker must not "associate a rogue connection with a legitimate session, or
// associate a rogue session with a legitimate client ID in order to maliciously alter the client ID's lock
// state".
struct OtherUsersClient : ::testing::Test {
  std::unique_ptr<Server> server = start_server();
  RawClient owner{*server, "owner", {.uid = 1001, .gid = 1001}};
  RawClient thief{*server, "thief", {.uid = 1002, .gid = 1002}};

  void SetUp() override {
    ASSERT_TRUE(owner.establish());
    ASSERT_TRUE(thief.establish());
  }
};

// "the client has changed principals ... or there has been a chance collision between shorthand client
// identifiers. ... Neither of these cases is permissible. Processing stops and NFS4ERR_CLID_INUSE is
// returned".
TEST_F(OtherUsersClient, CreateSession_IsInUse_AlsoAsAReplay) {
  for (const sequenceid4 ahead : {0u, 1u}) {
    thief.clientid = owner.clientid;
    thief.create_sequence = owner.create_sequence + ahead;
    EXPECT_EQ(thief.create_session().status, NFS4ERR_CLID_INUSE) << ahead;
  }
  EXPECT_EQ(owner.create_session().status, NFS4_OK) << "no changes are made";
}

TEST_F(OtherUsersClient, DestroySession_IsWrongCred) {
  for (const bool in_session : {false, true}) {
    const Ops request = ops(DESTROY_SESSION4args{owner.session});
    EXPECT_EQ((in_session ? thief.run(request) : thief.call(request)).status, NFS4ERR_WRONG_CRED);
  }
  EXPECT_EQ(owner.run({}).status, NFS4_OK);
}

TEST_F(OtherUsersClient, DestroyClientid_IsWrongCred) {
  ASSERT_EQ(owner.call(ops(DESTROY_SESSION4args{owner.session})).status, NFS4_OK);
  EXPECT_EQ(thief.run(ops(DESTROY_CLIENTID4args{owner.clientid})).status, NFS4ERR_WRONG_CRED);
  EXPECT_EQ(owner.call(ops(DESTROY_CLIENTID4args{owner.clientid})).status, NFS4_OK);
}

// Successive counter values differ in few bits; random values differ in about half. The chance that random
// values differ in at most 24 of 96 bits is below one in a million.
TEST_F(OtherUsersClient, SessionIdsAndStateids_TellNothingOfTheNext) {
  const auto differing = [](ConstBytes a, ConstBytes b) {
    int bits = 0;
    for (size_t i = 0; i < a.size(); ++i) bits += std::popcount(std::to_integer<uint8_t>(a[i] ^ b[i]));
    return bits;
  };
  ASSERT_TRUE(server->make_file("/export/f", "x", 0666));
  sessionid4 session = owner.session;
  stateid4 state = owner.open("/export/f");
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(owner.create_session().status, NFS4_OK);
    EXPECT_GT(differing(session.data, owner.session.data), 24);
    const stateid4 next = owner.open("/export/f", OPEN4_SHARE_ACCESS_READ, 0, "owner " + std::to_string(i));
    EXPECT_GT(differing(state.other, next.other), 24);
    session = owner.session;
    state = next;
  }
}

// --- the table ---

struct ClientTableTest : ::testing::Test {
  state::ClientTable table{{}, {}, {[](const state::Client&) { return false; }, [](state::Client&) {}}};
  std::vector<clientid4> ids;

  void add(state::LeaseClock::Duration now) {
    EXCHANGE_ID4args args;
    args.eia_clientowner.co_ownerid = std::to_string(ids.size());
    const EXCHANGE_ID4res res = table.exchange_id(args, {}, now, kLease);
    ASSERT_EQ(res.status, NFS4_OK);
    ids.push_back(res.resok4.eir_clientid);
  }
};

// The server calls overdue() before each COMPOUND.
TEST_F(ClientTableTest, IsSearchedForOverdueClients_OnlyWhenOneMayBe) {
  for (int i = 0; i < 500; ++i) add(seconds(0));
  for (state::LeaseClock::Duration now{0}; now < 10 * kLease; now += std::chrono::milliseconds(100)) {
    table.find(ids[static_cast<size_t>(now.count() / 100'000'000) % ids.size()])->renewed = now;
    EXPECT_TRUE(table.overdue(now, kLease, kLease).empty()) << "each renews after 50 seconds";
  }
  EXPECT_LT(table.looks(), 40u) << "of 9000 times";
}

TEST_F(ClientTableTest, NobodyIsOverdueForLong) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  state::LeaseClock::Duration now{0};
  state::LeaseClock::Duration kept = kLease;
  size_t gone = 0;
  for (int step = 0; step < 20'000; ++step) {
    switch (below(5)) {
      case 0: add(now); break;
      case 1: now += std::chrono::milliseconds(below(20'000)); break;
      case 2: kept = below(50) == 0 ? kLease * (1 + below(3)) : kept; break;
      default:
        if (state::Client* client = ids.empty() ? nullptr : table.find(ids[ids.size() * 9 / 10])) {
          client->confirmed = client->confirmed || below(2) == 0;
          client->renewed = now;
        }
    }
    for (state::Client* client : table.overdue(now, kLease, kept)) {
      EXPECT_GT(now - client->renewed, client->confirmed ? kept : state::LeaseClock::Duration(kLease));
      table.destroy_client(*client);
      ++gone;
    }
    table.each_client([&](const state::Client& client) {
      EXPECT_LE(now - client.renewed, client.confirmed ? kept : state::LeaseClock::Duration(kLease));
    });
  }
  EXPECT_GT(gone, 1000u);
}

TEST(ReplyMemory, IsBounded_AndNobodyIsDeniedASlot) {
  constexpr size_t kBudget = 64u << 20;
  constexpr size_t kSessions = 8192;
  channel_attrs4 asked;
  asked.ca_maxrequests = 64;
  asked.ca_maxresponsesize_cached = 64u << 10;
  state::ReplyMemory memory(kBudget);
  std::vector<channel_attrs4> granted;
  for (size_t i = 0; i < kSessions; ++i) {
    channel_attrs4& fore = granted.emplace_back(asked);
    memory.reserve(fore);
    EXPECT_GE(fore.ca_maxrequests, 1u);
    EXPECT_GE(fore.ca_maxresponsesize_cached, state::ReplyMemory::kSmallestReply);
  }
  EXPECT_EQ(granted.front().ca_maxrequests, 64u);
  EXPECT_EQ(granted.front().ca_maxresponsesize_cached, 64u << 10);
  EXPECT_LE(memory.reserved(), kBudget + kSessions * state::ReplyMemory::kSmallestReply);
  for (const channel_attrs4& fore : granted) memory.release(fore);
  EXPECT_EQ(memory.reserved(), 0u);
  asked.ca_maxresponsesize_cached = 0;
  memory.reserve(asked);
  EXPECT_EQ(asked.ca_maxrequests, 64u) << "who wants nothing cached takes nothing";
}

}  // namespace
}  // namespace nfsrdma::filer::test
