// SPDX-License-Identifier: Apache-2.0
// The filer over RPCSEC_GSS: sessions, data, retries, and whose everything is.
#include <algorithm>
#include <string>

#include "tests/unit/filer/gss_fixture.h"
#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

using tree::Flavor;
using tree::Flavors;

// A context's calls over a RawClient's connection.
class KerberosCalls : public CallProtection {
 public:
  explicit KerberosCalls(GssPeer of) : peer(std::move(of)) {}

  ByteVector seal(uint32_t xid, ByteVector arguments) override {
    GssCall call = peer.data(NFSPROC4_COMPOUND, std::move(arguments));
    call.xid = xid;
    sent_[xid] = call;
    return peer.encode(call);
  }
  std::optional<ByteVector> open(uint32_t xid, ByteVector reply) override {
    longest_reply = std::max(longest_reply, reply.size());
    return peer.open(sent_[xid], std::move(reply));
  }

  GssPeer peer;
  size_t longest_reply = 0;

 private:
  std::map<uint32_t, GssCall> sent_;
};

class GssServerTest : public GssTest {
 protected:
  void serve(Flavors flavors = {Flavor::kKrb5p, Flavor::kKrb5i, Flavor::kKrb5, Flavor::kSys}) {
    nfs::Options options;
    options.kerberos = true;
    options.keytab = keytab();
    options.flavors = flavors;
    options.accounts = [](const std::string& name) -> Result<std::optional<security::Account>> {
      if (name == "alice") return security::Account{1001, 1001, {}};
      if (name == "bob") return security::Account{1002, 1002, {}};
      return std::optional<security::Account>();
    };
    served = start_server(std::move(options));
    ASSERT_NE(served, nullptr);
    served->make_file("/export/f", std::string(300'000, 'x'), 0666);
  }

  // The data of a READ whose reply need not fit the reply cache; empty if it does not fit the session.
  static std::string read_uncached(RawClient& client, stateid4 stateid, uint64_t offset, uint32_t count) {
    const COMPOUND4res reply =
        client.run(path_ops("/export/f") + ops(READ4args{stateid, offset, count}), 0, false);
    if (reply.status != NFS4_OK) return {};
    return std::string(as_string_view(at<READ4res>(reply, reply.resarray.size() - 1).resok4.data));
  }

  static GssPeer::Exchange over(RawConnection& connection) {
    return [&connection](ByteVector call) -> std::optional<ByteVector> {
      connection.send(call);
      return connection.receive();
    };
  }
  // Gives the client a context of its own.
  std::shared_ptr<KerberosCalls> protect(RawClient& client, const std::string& ccache,
                                         rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none) {
    auto calls = std::make_shared<KerberosCalls>(peer_of(ccache, service));
    EXPECT_TRUE(calls->peer.establish(over(*client.connection)));
    client.protection = calls;
    return calls;
  }
  std::unique_ptr<RawClient> client_of(const std::string& ccache, const std::string& owner = "client",
                                       rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none) {
    auto client = std::make_unique<RawClient>(*served, owner);
    protect(*client, ccache, service);
    return client;
  }

  std::unique_ptr<Server> served;
};

TEST_F(GssServerTest, EveryService_CarriesFiles) {
  serve();
  for (const auto service : kServices) {
    const auto client = client_of(alice(), "client" + std::to_string(service), service);
    ASSERT_TRUE(client->establish());
    const stateid4 opened = client->open("/export/f");
    const std::string data(200'000, static_cast<char>('a' + service));
    EXPECT_EQ(client->write("/export/f", opened, 10, data).status, NFS4_OK);
    EXPECT_TRUE(read_uncached(*client, opened, 10, 200'000) == data) << service;
    EXPECT_EQ(served->journal().back().who.name, "alice@NFSRDMA.TEST");
    EXPECT_EQ(served->journal().back().who.uid, 1001u);
  }
}

// ca_maxresponsesize includes what protects a reply.
TEST_F(GssServerTest, Replies_AreNoLongerThanTheSessionAllows) {
  serve();
  for (const auto service : kServices) {
    RawClient client(*served, "client" + std::to_string(service));
    const auto calls = protect(client, alice(), service);
    client.session_request.csa_fore_chan_attrs.ca_maxresponsesize = 4096;
    ASSERT_TRUE(client.establish());
    size_t longest_data = 0;
    for (uint32_t count = 3400; count <= 4096; count += 4)
      longest_data = std::max(longest_data, read_uncached(client, {}, 0, count).size());
    EXPECT_LE(calls->longest_reply, 4096u);
    EXPECT_GT(calls->longest_reply, 4000u);
    EXPECT_GT(longest_data, 3500u) << service;
    EXPECT_LT(longest_data, 4096u) << service;
  }
}

// A reply in the cache is not protected; it is for the retry, which may come with another service.
TEST_F(GssServerTest, Retry_MayHaveAnotherService) {
  serve();
  RawClient client(*served, "client");
  const auto calls = protect(client, alice());
  ASSERT_TRUE(client.establish());
  const Ops request = ops(client.next_sequence()) + path_ops("/export/f") + ops(READ4args{{}, 0, 1000});
  const COMPOUND4res first = client.call(request);
  ASSERT_EQ(first.status, NFS4_OK);
  const std::string data(as_string_view(at<READ4res>(first, first.resarray.size() - 1).resok4.data));
  EXPECT_EQ(data, std::string(1000, 'x'));
  const uint64_t before = served->replays();
  for (const auto service : kServices) {
    calls->peer.service = service;
    const COMPOUND4res again = client.call(request);
    ASSERT_EQ(again.resarray.size(), first.resarray.size()) << service;
    EXPECT_EQ(as_string_view(at<READ4res>(again, again.resarray.size() - 1).resok4.data), data) << service;
  }
  EXPECT_EQ(served->replays(), before + 3);
}

// "the client has changed principals after the previous EXCHANGE_ID request ... NFS4ERR_CLID_INUSE is
// returned" (RFC 8881 section 18.36.4). Neither machine nor user has an account here: both are nobody.
TEST_F(GssServerTest, SessionsOfAnotherPrincipal_CannotBeEnded) {
  serve();
  for (const char* machine : {"host/one.test", "host/two.test"}) kdc().add(machine);
  const auto one = client_of(kdc().kinit("host/one.test"), "one");
  ASSERT_TRUE(one->establish());
  const auto two = client_of(kdc().kinit("host/two.test"), "two");
  ASSERT_TRUE(two->establish());

  EXPECT_EQ(two->call(ops(DESTROY_SESSION4args{one->session})).status, NFS4ERR_WRONG_CRED);
  EXPECT_EQ(two->run(ops(DESTROY_CLIENTID4args{one->clientid})).status, NFS4ERR_WRONG_CRED);
  CREATE_SESSION4args create = one->session_request;
  create.csa_clientid = one->clientid;
  create.csa_sequence = one->create_sequence;
  EXPECT_EQ(two->call(ops(create)).status, NFS4ERR_CLID_INUSE);
  EXCHANGE_ID4args same_owner;
  same_owner.eia_clientowner = {verifier4::of(77), "one"};
  EXPECT_EQ(two->call(ops(same_owner)).status, NFS4ERR_CLID_INUSE);
  // The retry of another principal's request gets nothing of its reply.
  const Ops request = ops(one->next_sequence()) + ops(PUTROOTFH4args{}, GETFH4args{});
  ASSERT_EQ(one->call(request).status, NFS4_OK);
  EXPECT_EQ(two->call(request).status, NFS4ERR_SEQ_FALSE_RETRY);

  EXPECT_EQ(one->run(ops(PUTROOTFH4args{})).status, NFS4_OK);
  EXPECT_EQ(one->call(ops(DESTROY_SESSION4args{one->session})).status, NFS4_OK);
}

TEST_F(GssServerTest, AuthSysOfTheSameUser_IsAnotherPrincipal) {
  serve();
  const auto kerberos = client_of(alice(), "client");
  ASSERT_TRUE(kerberos->establish());
  RawClient sys(*served, "other", {1001, 1001});
  ASSERT_TRUE(sys.establish());
  EXPECT_EQ(sys.call(ops(DESTROY_SESSION4args{kerberos->session})).status, NFS4ERR_WRONG_CRED);
}

// One session for all users of a machine: each call is its user's.
TEST_F(GssServerTest, UsersOfOneClient_HaveTheirOwnFiles) {
  serve();
  const auto client = client_of(alice(), "client", rpc::rpc_gss_svc_integrity);
  ASSERT_TRUE(client->establish());
  served->make_file("/export/alices", "hers", 0600, 1001, 1001);
  const stateid4 opened = client->open("/export/alices");
  const auto alices = client->protection;
  protect(*client, bob());
  EXPECT_EQ(client->run_at("/export/alices", ops(READ4args{opened, 0, 10})).status, NFS4ERR_ACCESS);
  EXPECT_EQ(client->run_at("/export", ops(client->open_args("alices"))).status, NFS4ERR_ACCESS);
  client->protection = alices;
  EXPECT_EQ(client->read("/export/alices", opened), "hers");
}

// --- what exports accept

// "Integrity where privacy is required": the tuple is wrong, though the call verifies.
TEST_F(GssServerTest, WeakerThanTheExportAsksFor_IsWrongsec) {
  serve();
  served->set_flavors("/export", {Flavor::kKrb5p});
  RawClient client(*served, "client");
  const auto calls = protect(client, alice(), rpc::rpc_gss_svc_integrity);
  ASSERT_TRUE(client.establish());
  const nfs_fh4 file = served->stat("/export/f")->handle;
  const Ops read = ops(PUTFH4args{file}, READ4args{{}, 0, 10});
  EXPECT_EQ(client.run(read).status, NFS4ERR_WRONGSEC);
  calls->peer.service = rpc::rpc_gss_svc_none;
  EXPECT_EQ(client.run(read).status, NFS4ERR_WRONGSEC);
  calls->peer.service = rpc::rpc_gss_svc_privacy;
  EXPECT_EQ(client.run(read).status, NFS4_OK);
  // And stronger is not what it asks for, either: clients choose from the list.
  served->set_flavors("/export", {Flavor::kKrb5});
  EXPECT_EQ(client.run(read).status, NFS4ERR_WRONGSEC);
}

TEST_F(GssServerTest, AuthSysWhereKerberosIsRequired_IsWrongsec) {
  serve({Flavor::kKrb5i});
  RawClient client(*served, "client");
  ASSERT_TRUE(client.establish()) << "calls that name no file are taken";
  EXPECT_EQ(client.run(ops(PUTROOTFH4args{}, GETATTR4args{})).status, NFS4ERR_WRONGSEC);
  const COMPOUND4res reply = client.run(ops(PUTROOTFH4args{}, SECINFO_NO_NAME4args{}));
  EXPECT_EQ(at<SECINFO_NO_NAME4res>(reply, 1).resok4.at(0).flavor_info.service, RPC_GSS_SVC_INTEGRITY);
}

// --- connections and instances

// Which port and whose process it is does not matter to a call that proves who calls.
TEST_F(GssServerTest, PeersThatAreNotBelieved_MayProveWhoTheyAre) {
  nfs::Options options;
  options.kerberos = true;
  options.keytab = keytab();
  options.flavors = {Flavor::kKrb5, Flavor::kSys};
  options.believed = links::Believed::kReservedPorts;
  served = start_server(std::move(options));
  const auto client = client_of(alice());
  EXPECT_TRUE(client->establish());
  client->protection = nullptr;
  const uint32_t xid = client->send(ops(PUTROOTFH4args{}));
  EXPECT_EQ(denied_by(client->receive_message(xid).value_or(ByteVector())), rpc::AUTH_TOOWEAK);
}

TEST_F(GssServerTest, WithoutAKeytab_TheCredentialIsRejected) {
  served = start_server();
  RawConnection connection(served->port());
  connection.send(GssPeer::init_call(first_token(alice())));
  EXPECT_EQ(denied_by(connection.receive().value_or(ByteVector())), rpc::AUTH_REJECTEDCRED);
}

TEST_F(GssServerTest, KeytabThatIsNotThere_IsAnErrorOfTheStart) {
  nfs::Options options;
  options.kerberos = true;
  options.keytab = "FILE:" + (kdc().directory() / "absent").string();
  EXPECT_FALSE(Server::start(options));
}

TEST_F(GssServerTest, RestartedServer_KnowsNoContext) {
  serve();
  const auto client = client_of(alice());
  ASSERT_TRUE(client->establish());
  served->restart();
  client->reconnect();
  const uint32_t xid = client->send(ops(client->next_sequence()));
  EXPECT_EQ(denied_by(client->receive_message(xid).value_or(ByteVector())), rpc::RPCSEC_GSS_CREDPROBLEM);
  protect(*client, alice());
  EXPECT_EQ(client->call(ops(client->next_sequence())).status, NFS4ERR_BADSESSION);
}

TEST_F(GssServerTest, ReplayedCall_IsNotExecutedAndNotAnswered) {
  serve();
  RawClient client(*served, "client");
  const auto calls = protect(client, alice(), rpc::rpc_gss_svc_privacy);
  ASSERT_TRUE(client.establish());
  COMPOUND4args args;
  args.argarray = ops(client.next_sequence()) + ops(PUTROOTFH4args{}, GETFH4args{});
  const ByteVector call = client.encode_call(1000, args);
  client.connection->send(call);
  ASSERT_TRUE(client.receive(1000));
  const uint64_t before = served->executed(OP_GETFH).executed + served->replays();
  client.connection->send(call);
  EXPECT_EQ(client.run(ops(PUTROOTFH4args{})).status, NFS4_OK) << "its reply is the next to come";
  EXPECT_EQ(served->executed(OP_GETFH).executed + served->replays(), before);
}

// Faults play an attacker on the network: they see what is sent.
TEST_F(GssServerTest, ChangedReply_DoesNotVerify) {
  serve();
  for (const auto service : {rpc::rpc_gss_svc_integrity, rpc::rpc_gss_svc_privacy}) {
    RawClient client(*served, "client" + std::to_string(service));
    const auto calls = protect(client, alice(), service);
    ASSERT_TRUE(client.establish());
    served->faults().add(on::reply_to(OP_READ),
                         fault::Mangle{[](ByteVector& reply) { reply[reply.size() / 2] ^= std::byte{1}; }});
    const GssCall call = [&] {
      COMPOUND4args args;
      args.argarray = ops(client.next_sequence()) + path_ops("/export/f") + ops(READ4args{{}, 0, 1000});
      ByteVector arguments;
      xdr::Encoder x(arguments);
      EXPECT_TRUE(x(args));
      return calls->peer.data(NFSPROC4_COMPOUND, arguments);
    }();
    client.connection->send(calls->peer.encode(call));
    const auto reply = client.connection->receive();
    ASSERT_TRUE(reply);
    EXPECT_FALSE(calls->peer.open(call, *reply));
  }
}

TEST_F(GssServerTest, OtherProgramsAndProcedures_AreAnsweredUnderTheContext) {
  serve();
  RawConnection connection(served->port());
  for (const auto service : kServices) {
    GssPeer peer = peer_of(alice(), service);
    ASSERT_TRUE(peer.establish(over(connection)));
    const auto answered = [&](GssCall call) {
      const auto reply = over(connection)(peer.encode(call));
      const auto plain = reply ? peer.open(call, *reply) : std::nullopt;
      EXPECT_TRUE(plain);
      return plain ? accepted_as(*plain) : std::nullopt;
    };
    EXPECT_EQ(answered(peer.data()), rpc::SUCCESS);  // NULL
    GssCall call = peer.data(7);
    EXPECT_EQ(answered(call), rpc::PROC_UNAVAIL);
    call = peer.data();
    call.prog = 100'005;
    EXPECT_EQ(answered(call), rpc::PROG_UNAVAIL);
    call = peer.data();
    call.vers = 3;
    EXPECT_EQ(answered(call), rpc::PROG_MISMATCH);
    EXPECT_EQ(answered(peer.data(NFSPROC4_COMPOUND, ByteVector(4, std::byte{0xff}))), rpc::GARBAGE_ARGS);
  }
}

}  // namespace
}  // namespace nfsrdma::filer::test
