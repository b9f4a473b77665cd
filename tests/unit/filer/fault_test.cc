// SPDX-License-Identifier: Apache-2.0
// The fault plan, the journal, RPC and record marking, which the client's tests rely on.

#include <thread>

#include "tests/unit/filer/raw_client.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer::test {
namespace {

class FaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server();
    server->make_file("/export/a", "content");
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }
  Ops rename_request() {
    return ops(client->next_sequence()) + path_ops("/export") + ops(SAVEFH4args{}, RENAME4args{"a", "b"});
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

// Executed exactly once: the reply is lost with the connection, and the retry on the next one is answered
// from the reply cache.
TEST_F(FaultTest, CutAfterExecution_IsAnsweredFromTheCacheOnRetry) {
  server->faults().add(on::reply_to(OP_RENAME), fault::Cut{});
  const Ops request = rename_request();
  EXPECT_FALSE(client->receive(client->send(request)));
  EXPECT_EQ(server->executed(OP_RENAME).succeeded, 1u);
  client->reconnect();
  EXPECT_EQ(client->call(request).status, NFS4_OK);
  EXPECT_EQ(server->executed(OP_RENAME).executed, 1u);
  EXPECT_TRUE(server->stat("/export/b"));
  const std::vector<nfs::ExecutedCompound> log = server->journal();
  EXPECT_TRUE(log.back().replay);
  EXPECT_EQ(log[log.size() - 2].ops.back().name, "a -> b");
}

TEST_F(FaultTest, CutBeforeExecution_LeavesEverythingAsItWas) {
  const auto rule = server->faults().add(on::request_with(OP_RENAME), fault::Cut{.abort = true});
  const Ops request = rename_request();
  EXPECT_FALSE(client->receive(client->send(request)));
  EXPECT_EQ(server->faults().fired(rule), 1u);
  EXPECT_EQ(server->executed(OP_RENAME).executed, 0u);
  client->reconnect();
  EXPECT_EQ(client->call(request).status, NFS4_OK);
  EXPECT_EQ(server->executed(OP_RENAME).executed, 1u);
}

TEST_F(FaultTest, NthAndTimes_CountMatches) {
  const auto rule = server->faults().add(on::request_with(OP_GETATTR).nth(2).times(2),
                                         fault::Answer{OP_GETATTR, NFS4ERR_IO});
  std::vector<nfsstat4> seen;
  for (int i = 0; i < 5; ++i) {
    seen.push_back(client->run_at("/export/a", ops(GETATTR4args{bitmap4::of({FATTR4_SIZE})})).status);
    client->run({});
  }
  EXPECT_EQ(seen, (std::vector<nfsstat4>{NFS4_OK, NFS4ERR_IO, NFS4ERR_IO, NFS4_OK, NFS4_OK}));
  EXPECT_EQ(server->faults().fired(rule), 2u);
}

TEST_F(FaultTest, EveryNth_GoesOn) {
  const auto rule = server->faults().add(on::request_with(OP_GETATTR).nth(2).every_nth(3).always(),
                                         fault::Answer{OP_GETATTR, NFS4ERR_IO});
  std::string seen;
  for (int i = 0; i < 9; ++i) {
    const auto size = ops(GETATTR4args{bitmap4::of({FATTR4_SIZE})});
    seen += client->run_at("/export/a", size).status == NFS4_OK ? '.' : 'X';
  }
  EXPECT_EQ(seen, ".X..X..X.");
  EXPECT_EQ(server->faults().fired(rule), 3u);
}

TEST_F(FaultTest, WhatIsToldOfChangeAttributes_MayBeALie) {
  const auto told = [&] {
    const auto res = client->run_at("/export/a", ops(GETATTR4args{bitmap4::of({FATTR4_CHANGE})}));
    return at<GETATTR4res>(res, 0).resok4.obj_attributes.change;
  };
  const auto tell = [&](tree::ChangeTold what) {
    server->faults().add(on::any_request(), fault::TellChange{what});
    client->run({});
  };
  const auto move = [&] { server->write_file("/export/a", 0, "other"); };
  const changeid4 first = told();
  EXPECT_EQ(told(), first);

  tell(tree::ChangeTold::kFrozen);
  const changeid4 frozen = told();
  move();
  EXPECT_EQ(told(), frozen);

  tell(tree::ChangeTold::kRestless);
  const changeid4 restless = told();
  EXPECT_NE(told(), restless);

  tell(tree::ChangeTold::kBackwards);
  const changeid4 backwards = told();
  EXPECT_EQ(told(), backwards);
  move();
  EXPECT_LT(told(), backwards);

  tell(tree::ChangeTold::kTrue);
  EXPECT_GT(told(), first);
}

TEST_F(FaultTest, AnswerOnAnOperation_IsNotExecutedAndIsCached) {
  server->faults().add(on::request_with(OP_RENAME), fault::Answer{OP_RENAME, NFS4ERR_DELAY});
  const Ops request = rename_request();
  EXPECT_EQ(client->call(request).status, NFS4ERR_DELAY);
  EXPECT_EQ(client->call(request).status, NFS4ERR_DELAY) << "the slot has moved; the reply is the cached one";
  EXPECT_EQ(server->executed(OP_RENAME).executed, 0u);
  EXPECT_EQ(client->call(rename_request()).status, NFS4_OK);
}

TEST_F(FaultTest, AnswerOnSequence_LeavesTheSlot) {
  server->faults().add(on::request_with(OP_RENAME), fault::Answer{OP_SEQUENCE, NFS4ERR_DELAY});
  const Ops request = rename_request();
  const COMPOUND4res refused = client->call(request);
  EXPECT_EQ(refused.resarray.size(), 1u);
  EXPECT_EQ(refused.status, NFS4ERR_DELAY);
  EXPECT_EQ(client->call(request).status, NFS4_OK) << "same slot, same sequence ID";
}

TEST_F(FaultTest, InjectedResults_CarryWhatTheirOperationNeeds) {
  server->faults().add(on::request_with(OP_SETATTR), fault::Answer{OP_SETATTR, NFS4ERR_DQUOT});
  server->faults().add(on::request_with(OP_LOCKT), fault::Answer{OP_LOCKT, NFS4ERR_DENIED});
  EXPECT_EQ(client->run_at("/export/a", ops(SETATTR4args{})).status, NFS4ERR_DQUOT);
  EXPECT_EQ(client->run_at("/export/a", ops(LOCKT4args{READ_LT, 0, 1, {}})).status, NFS4ERR_DENIED);
}

TEST_F(FaultTest, Stall_HoldsUntilReleased) {
  const auto rule = server->faults().add(on::request_with(OP_RENAME), fault::Stall{});
  const uint32_t xid = client->send(rename_request());
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(client->run({}, 1).status, NFS4_OK) << "the connection is not blocked";
  EXPECT_EQ(server->executed(OP_RENAME).executed, 0u);
  server->faults().release(rule);
  const auto reply = client->receive(xid);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, NFS4_OK);
}

TEST_F(FaultTest, StalledReply_IsExecutedAndKeptBack) {
  const auto rule = server->faults().add(on::reply_to(OP_RENAME), fault::Stall{});
  const uint32_t xid = client->send(rename_request());
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(server->executed(OP_RENAME).succeeded, 1u);
  server->faults().release(rule);
  EXPECT_TRUE(client->receive(xid));
}

// A request that was stalled when the server crashed is dropped.
TEST_F(FaultTest, StallAcrossARestart_IsForgotten) {
  const auto rule = server->faults().add(on::request_with(OP_RENAME), fault::Stall{});
  client->send(rename_request());
  ASSERT_TRUE(server->faults().wait_fired(rule));
  server->restart();
  server->faults().release(rule);
  server->end_grace();
  client->reconnect();
  ASSERT_TRUE(client->establish());
  EXPECT_EQ(server->executed(OP_RENAME).executed, 0u);
}

TEST_F(FaultTest, RestartAfterExecution_KeepsTheRenameAndLosesTheCache) {
  server->faults().add(on::reply_to(OP_RENAME), fault::Restart{});
  const Ops request = rename_request();
  EXPECT_FALSE(client->receive(client->send(request)));
  EXPECT_TRUE(server->stat("/export/b"));
  client->reconnect();
  EXPECT_EQ(client->call(request).status, NFS4ERR_BADSESSION);
}

TEST_F(FaultTest, MangledReplies_AreMangled) {
  const auto reply_with = [&](FaultAction action) {
    server->faults().add(on::any_reply(), std::move(action));
    client->connection->send([&] {
      ByteVector message;
      xdr::Encoder x(message);
      rpc::call_header header;
      header.xid = rpc::Xid{0x11223344};
      header.prog = NFS4_PROGRAM;
      header.vers = NFS_V4;
      x(header);
      return message;
    }());
    auto reply = client->connection->receive();
    return reply.value_or(ByteVector{});
  };
  EXPECT_EQ(reply_with(fault::Delay{std::chrono::milliseconds(1)}).size(), 24u);
  EXPECT_EQ(reply_with(fault::truncate_to(10)).size(), 10u);
  EXPECT_EQ(reply_with(fault::extend_by(8)).size(), 32u);
  EXPECT_EQ(load_be32(reply_with(fault::wrong_xid()).data()), 0x91223344u);
  EXPECT_EQ(load_be32(reply_with(fault::as_call()).data() + 4), 0u);
  const ByteVector once = reply_with(fault::Duplicate{1});
  EXPECT_EQ(client->connection->receive(), once);
  const ByteVector flood = reply_with(fault::call_flood(2));
  EXPECT_EQ(rpc::peek(flood)->type, rpc::CALL);
  const auto second_call = client->connection->receive();
  const auto reply = client->connection->receive();
  ASSERT_TRUE(second_call && reply);
  EXPECT_EQ(rpc::peek(*second_call)->type, rpc::CALL);
  EXPECT_EQ(rpc::peek(*reply)->type, rpc::REPLY);
}

TEST_F(FaultTest, OversizedRecord_IsOnTheWireAsAsked) {
  server->faults().add(on::any_reply(), fault::oversized_record(0x7fffffff));
  client->send(ops(client->next_sequence()));
  EXPECT_FALSE(client->connection->receive(500));
}

TEST_F(FaultTest, HeldReply_ArrivesBehindLaterOnes) {
  server->faults().add(on::reply_to(OP_RENAME), fault::HoldBehind{2});
  const uint32_t first = client->send(rename_request());
  const uint32_t second = client->send(ops(client->next_sequence(1)));
  const uint32_t third = client->send(ops(client->next_sequence(2)));
  for (const uint32_t expected : {second, third, first}) {
    const auto message = client->connection->receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(load_be32(message->data()), expected);
  }
}

TEST_F(FaultTest, RefusedRpc_HasTheGivenHeader) {
  rpc::reply_header header;
  header.stat = rpc::MSG_DENIED;
  header.denied = rpc::AUTH_ERROR;
  header.why = rpc::AUTH_TOOWEAK;
  server->faults().add(on::any_request(), fault::RefuseRpc{header});
  const uint32_t xid = client->send(ops(client->next_sequence()));
  const auto message = client->receive_message(xid);
  ASSERT_TRUE(message);
  xdr::Decoder x(*message);
  rpc::reply_header seen;
  ASSERT_TRUE(x(seen));
  EXPECT_EQ(seen.why, rpc::AUTH_TOOWEAK);
}

TEST_F(FaultTest, AcceptFaults_CountConnections) {
  server->faults().add(on::accept().nth(2), fault::Cut{.abort = true});
  RawConnection first(server->port());
  EXPECT_FALSE(first.ended(50));
  RawConnection second(server->port());
  EXPECT_TRUE(second.ended());
}

TEST_F(FaultTest, ExpireLease_TakesTheStateBeforeTheRequest) {
  const stateid4 id = client->open("/export/a");
  server->faults().add(on::request_with(OP_READ), fault::ExpireLease{});
  EXPECT_EQ(client->run_at("/export/a", ops(READ4args{id, 0, 1})).status, NFS4ERR_EXPIRED);
}

TEST_F(FaultTest, CallRunsWithoutTheLock_AndMayUseTheServer) {
  server->faults().add(on::request_with(OP_RENAME),
                       fault::Call{[&] { server->make_file("/export/seen", ""); }});
  EXPECT_EQ(client->call(rename_request()).status, NFS4_OK);
  EXPECT_TRUE(server->stat("/export/seen"));
}

TEST_F(FaultTest, Journal_KnowsObjectsAndUsers) {
  client->user = {.uid = 0, .gid = 0};
  client->open("/export/a");
  client->read("/export/a");
  client->read("/export/a");
  EXPECT_EQ(server->executed(OP_READ, "/export/a").succeeded, 2u);
  EXPECT_EQ(server->executed(OP_OPEN, "/export/a").succeeded, 1u);
  EXPECT_EQ(server->executed(OP_WRITE, "/export/a").executed, 0u);
  server->clear_journal();
  EXPECT_EQ(server->executed(OP_READ).executed, 0u);
}

// --- RPC and record marking ---

TEST_F(FaultTest, RequestInTinyFragments_IsOneRecord) {
  ByteVector message;
  xdr::Encoder x(message);
  rpc::call_header header;
  header.xid = rpc::Xid{5};
  header.prog = NFS4_PROGRAM;
  header.vers = NFS_V4;
  ASSERT_TRUE(x(header));
  ASSERT_TRUE(client->connection->send(message, 1));
  const auto reply = client->connection->receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->size(), 24u);
}

TEST_F(FaultTest, PausedReading_LeavesRequestsUnanswered) {
  server->pause_reading(true);
  const uint32_t xid = client->send(ops(client->next_sequence()));
  EXPECT_FALSE(client->connection->receive(100));
  server->pause_reading(false);
  EXPECT_TRUE(client->receive(xid));
}

TEST_F(FaultTest, FragmentedReplies_AddUp) {
  server->fragment_replies(7);
  client->reconnect();
  EXPECT_EQ(client->read("/export/a"), "content");
}

TEST_F(FaultTest, ForeignCalls_GetTheirRpcErrors) {
  const auto call = [&](uint32_t rpcvers, uint32_t prog, uint32_t vers, uint32_t proc) {
    ByteVector message;
    xdr::Encoder x(message);
    x(uint32_t{77}) && x(uint32_t{0}) && x(rpcvers) && x(prog) && x(vers) && x(proc) && x(uint64_t{0}) &&
        x(uint64_t{0});
    client->connection->send(message);
    const auto reply = client->connection->receive();
    rpc::reply_header header;
    xdr::Decoder d(*reply);
    EXPECT_TRUE(d(header));
    return rpc::name_of(rpc::status_of(header));
  };
  EXPECT_EQ(call(2, NFS4_PROGRAM, 4, 0), "SUCCESS");
  EXPECT_EQ(call(3, NFS4_PROGRAM, 4, 0), rpc::name_of(rpc::RpcStatus::kRpcMismatch));
  EXPECT_EQ(call(2, 100005, 4, 0), "PROG_UNAVAIL");
  EXPECT_EQ(call(2, NFS4_PROGRAM, 3, 0), "PROG_MISMATCH");
  EXPECT_EQ(call(2, NFS4_PROGRAM, 4, 2), "PROC_UNAVAIL");
  EXPECT_EQ(call(2, NFS4_PROGRAM, 4, 1), "GARBAGE_ARGS");
}

TEST_F(FaultTest, BrokenStreams_CostTheConnectionOnly) {
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff", 4), std::string(4 * 20, '\0'), std::string("\x80\0\0\x03xyz", 7)}) {
    RawConnection hostile(server->port());
    ASSERT_TRUE(hostile.send_raw(as_const_bytes(bytes)));
    EXPECT_TRUE(hostile.ended());
  }
  EXPECT_EQ(client->run({}).status, NFS4_OK);
}

// NFS4ERR_BADXDR: the operations before the malformed one have been executed.
TEST_F(FaultTest, MalformedArguments_StopTheCompoundThere) {
  const uint32_t xid = 4711;
  ByteVector message;
  xdr::Encoder x(message);
  const ByteVector credential = rpc::encode_authsys({});
  rpc::call_header header;
  header.xid = rpc::Xid{xid};
  header.prog = NFS4_PROGRAM;
  header.vers = NFS_V4;
  header.proc = NFSPROC4_COMPOUND;
  header.cred = {rpc::AUTH_SYS, credential};
  compound_call call;
  call.operations = 3;
  ASSERT_TRUE(x(header) && x(call) && encode_op(x, client->next_sequence()) &&
              encode_op(x, PUTROOTFH4args{}));
  ASSERT_TRUE(x(OP_LOOKUP) && x(uint32_t{1000}));  // the announced name is missing
  client->connection->send(message);
  const auto reply = client->receive(xid);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, NFS4ERR_BADXDR);
  EXPECT_EQ(reply->resarray.size(), 3u);
}

TEST_F(FaultTest, UnknownAndForbiddenOperations_AreTold) {
  EXPECT_EQ(client->run(ops(ILLEGAL4args{OP_RENEW})).status, NFS4ERR_NOTSUPP);
  EXPECT_EQ(client->run(ops(ILLEGAL4args{OP_LAYOUTGET})).status, NFS4ERR_NOTSUPP);
  EXPECT_EQ(client->run(ops(ILLEGAL4args{OP_SEEK})).status, NFS4ERR_OP_ILLEGAL);
  EXPECT_EQ(client->run(ops(ILLEGAL4args{static_cast<nfs_opnum4>(2)})).status, NFS4ERR_OP_ILLEGAL);
}

// Tests may use the API from any thread while the server runs.
TEST_F(FaultTest, ApiFromOtherThreads_IsSafe) {
  std::atomic<bool> stop = false;
  std::thread meddler([&] {
    for (int i = 0; !stop; ++i) {
      server->make_file("/export/m" + std::to_string(i), "x");
      server->executed(OP_SEQUENCE);
      server->clients();
      server->states();
      server->faults().add(on::request_with(OP_RENAME), fault::Drop{});
      server->faults().clear();
      if (i % 50 == 49) server->drop_connections();
    }
  });
  unsigned answered = 0;
  for (int i = 0; i < 200; ++i) {
    const auto reply = client->receive(client->send(ops(client->next_sequence())));
    if (reply) {
      ++answered;
    } else {
      // How often this happens depends on the speed of the other thread.
      client->undo_sequence();
      client->reconnect();
    }
  }
  stop = true;
  meddler.join();
  EXPECT_GT(answered, 0u);
  EXPECT_GE(server->executed(OP_SEQUENCE).succeeded + server->replays(), answered);
}

// The server runs on a loop that the test owns.
TEST(ServerOnAGivenLoop, ServesAndStops) {
  Loop loop;
  std::thread thread([&] { loop.run(); });
  {
    auto server = Server::start({}, &loop);
    ASSERT_TRUE(server);
    (*server)->make_file("/export/f", "x");
    RawClient client(**server);
    ASSERT_TRUE(client.establish());
    EXPECT_EQ(client.read("/export/f"), "x");
  }
  loop.stop();
  thread.join();
}

TEST(ServerStart, PortInUse_IsAnError) {
  const auto first = start_server();
  nfs::Options options;
  options.port = first->port();
  const auto second = Server::start(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().errnum, EADDRINUSE);
}

}  // namespace
}  // namespace nfsrdma::filer::test
