// SPDX-License-Identifier: Apache-2.0
// SEQUENCE, slots and the reply cache (RFC 8881 sections 2.10.6, 18.46).

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

class SequenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server();
    server->make_file("/export/f", "content");
    client = std::make_unique<RawClient>(*server);
    ASSERT_TRUE(client->establish());
  }
  COMPOUND4res sequence(SEQUENCE4args s, const Ops& more = {}) { return client->call(ops(s) + more); }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

// "The first time a slot is used, the requester MUST specify a sequence ID of one"; "if not, the replier MUST
// return NFS4ERR_SEQ_MISORDERED".
TEST_F(SequenceTest, NewSlot_BeginsWithOne) {
  for (const sequenceid4 wrong : {0u, 2u, 0xffffffffu}) {
    SEQUENCE4args s{client->session, wrong, 3, 3, false};
    EXPECT_EQ(sequence(s).status, NFS4ERR_SEQ_MISORDERED) << wrong;
  }
  EXPECT_EQ(sequence({client->session, 1, 3, 3, false}).status, NFS4_OK);
}

// "If the original request has executed to completion, the replier returns the cached reply": the same bytes.
TEST_F(SequenceTest, Retry_ReturnsTheCachedBytes) {
  const SEQUENCE4args s = client->next_sequence();
  const Ops request =
      ops(s) + path_ops("/export") + ops(CREATE4args{{NF4DIR, {}, {}}, "d", {}}, GETFH4args{});
  const auto first = client->receive_message(client->send(request));
  client->reconnect();
  const auto retry = client->receive_message(client->send(request));
  ASSERT_TRUE(first && retry);
  EXPECT_NE(load_be32(first->data()), load_be32(retry->data())) << "XIDs differ";
  EXPECT_TRUE(ByteVector(first->begin() + 4, first->end()) == ByteVector(retry->begin() + 4, retry->end()));
  EXPECT_EQ(server->executed(OP_CREATE).executed, 1u);
  EXPECT_EQ(server->replays(), 1u);
}

// "Any time SEQUENCE or CB_SEQUENCE returns an error, the sequence ID of the slot MUST NOT change."
TEST_F(SequenceTest, RefusedSequence_LeavesTheSlot) {
  SEQUENCE4args s = client->next_sequence();
  s.sa_sequenceid += 5;
  EXPECT_EQ(sequence(s).status, NFS4ERR_SEQ_MISORDERED);
  s.sa_sequenceid -= 5;
  EXPECT_EQ(sequence(s).status, NFS4_OK);
}

// "A misordered retry, in which the sequence ID is less than ... MUST return NFS4ERR_SEQ_MISORDERED".
TEST_F(SequenceTest, OlderSequence_IsMisordered) {
  client->run({});
  client->run({});
  SEQUENCE4args s = client->next_sequence();
  s.sa_sequenceid -= 2;
  EXPECT_EQ(sequence(s).status, NFS4ERR_SEQ_MISORDERED);
}

// "If the previous sequence ID was 0xFFFFFFFF, then the next request for the slot MUST have the sequence ID
// set to zero".
TEST_F(SequenceTest, SequenceIds_WrapToZero) {
  server->with_core(
      [&](nfs::Core& core) { core.clients.find(client->session)->slots[0].sequence = 0xfffffffe; });
  client->sequences[0] = 0xfffffffe;
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->run({}).status, NFS4_OK);
  EXPECT_EQ(client->sequences[0], 0u);
  EXPECT_EQ(client->run({}).status, NFS4_OK);
}

// "the next operation in COMPOUND ... having the error NFS4ERR_RETRY_UNCACHED_REP".
TEST_F(SequenceTest, RetryOfAnUncachedReply_SaysSo) {
  const SEQUENCE4args s = client->next_sequence(0, false);
  const Ops more = ops(PUTROOTFH4args{}, GETFH4args{});
  EXPECT_EQ(sequence(s, more).status, NFS4_OK);
  const COMPOUND4res retry = sequence(s, more);
  EXPECT_EQ(retry.status, NFS4ERR_RETRY_UNCACHED_REP);
  ASSERT_EQ(retry.resarray.size(), 2u);
  EXPECT_EQ(at<SEQUENCE4res>(retry, 0).status, NFS4_OK);
  EXPECT_EQ(at<PUTROOTFH4res>(retry, 1).status, NFS4ERR_RETRY_UNCACHED_REP);
}

// A SEQUENCE alone: "its reply MUST always be cached".
TEST_F(SequenceTest, RetryOfALoneSequence_IsCachedWithoutAsking) {
  const SEQUENCE4args s = client->next_sequence(0, false);
  EXPECT_EQ(sequence(s).status, NFS4_OK);
  EXPECT_EQ(sequence(s).status, NFS4_OK);
  EXPECT_EQ(server->replays(), 1u);
}

// "If the replier determines the users are different between the original request and a retry, then the
// replier MUST return NFS4ERR_SEQ_FALSE_RETRY."
TEST_F(SequenceTest, RetryByAnotherUser_IsFalse) {
  const SEQUENCE4args s = client->next_sequence();
  EXPECT_EQ(sequence(s, ops(PUTROOTFH4args{})).status, NFS4_OK);
  client->user = {.uid = 77, .gid = 77};
  EXPECT_EQ(sequence(s, ops(PUTROOTFH4args{})).status, NFS4ERR_SEQ_FALSE_RETRY);
}

TEST_F(SequenceTest, RetryWithOtherOperations_IsFalseWhereChecked) {
  const SEQUENCE4args s = client->next_sequence();
  EXPECT_EQ(sequence(s, ops(PUTROOTFH4args{})).status, NFS4_OK);
  EXPECT_EQ(sequence(s, ops(PUTROOTFH4args{}, GETFH4args{})).status, NFS4ERR_SEQ_FALSE_RETRY);
  server->configure([](nfs::Switches& sw) { sw.detect_false_retry = false; });
  const COMPOUND4res reply = sequence(s, ops(PUTROOTFH4args{}, GETFH4args{}));
  EXPECT_EQ(reply.resarray.size(), 2u) << "the cached reply to the original request";
}

TEST_F(SequenceTest, SlotsBeyondTheTable_AreRefused) {
  EXPECT_EQ(sequence({client->session, 1, 8, 8, false}).status, NFS4ERR_BADSLOT);
  EXPECT_EQ(sequence({client->session, 1, 7, 8, false}).status, NFS4ERR_BAD_HIGH_SLOT);
  EXPECT_EQ(sequence({client->session, 1, 7, 7, false}).status, NFS4_OK);
}

TEST_F(SequenceTest, UnknownSession_IsBad) {
  sessionid4 other = client->session;
  other.data[15] ^= std::byte{0xff};
  EXPECT_EQ(sequence({other, 1, 0, 0, false}).status, NFS4ERR_BADSESSION);
}

// "SEQUENCE MUST appear as the first operation of any COMPOUND in which it appears."
TEST_F(SequenceTest, SecondSequence_IsInTheWrongPosition) {
  const SEQUENCE4args s = client->next_sequence();
  EXPECT_EQ(sequence(s, ops(SEQUENCE4args{client->session, 1, 1, 1, false})).status, NFS4ERR_SEQUENCE_POS);
}

// "Such operations MUST yield the error NFS4ERR_OP_NOT_IN_SESSION if they do appear at the start of a
// COMPOUND."
TEST_F(SequenceTest, OperationWithoutSequence_IsNotInSession) {
  const COMPOUND4res reply = client->call(ops(PUTROOTFH4args{}));
  EXPECT_EQ(at<PUTROOTFH4res>(reply, 0).status, NFS4ERR_OP_NOT_IN_SESSION);
}

// "If a requester sends a COMPOUND ... with more operations than ca_maxoperations, the replier MUST return
// NFS4ERR_TOO_MANY_OPS."
TEST_F(SequenceTest, TooManyOperations_AreRefused) {
  Ops many;
  for (uint32_t i = 0; i < client->session_attributes.csr_fore_chan_attrs.ca_maxoperations; ++i) {
    many.push_back({PUTROOTFH4args{}});
  }
  EXPECT_EQ(client->run(many).status, NFS4ERR_TOO_MANY_OPS);
  many.pop_back();
  EXPECT_EQ(client->run(many).status, NFS4_OK);
}

TEST_F(SequenceTest, RequestAboveTheLimit_IsTooBig) {
  const std::string big(client->session_attributes.csr_fore_chan_attrs.ca_maxrequestsize, 'x');
  WRITE4args write;
  write.data = as_const_bytes(big);
  EXPECT_EQ(client->run(path_ops("/export/f") + ops(write)).status, NFS4ERR_REQ_TOO_BIG);
}

// "If a reply exceeds ca_maxresponsesize, the reply will have the status NFS4ERR_REP_TOO_BIG."
TEST(ReplySize, ReplyAboveTheLimit_IsTooBigAndWhatCameBeforeStands) {
  const auto server = start_server();
  server->make_file("/export/big", std::string(100'000, 'x'));
  RawClient client(*server);
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize = 8192;
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize_cached = 1024;
  ASSERT_TRUE(client.establish());
  const Ops way = path_ops("/export/big");
  COMPOUND4res reply = client.run(way + ops(READ4args{{}, 0, 50'000}), 0, false);
  EXPECT_EQ(reply.status, NFS4ERR_REP_TOO_BIG);
  EXPECT_EQ(reply.resarray.size(), way.size() + 1);
  EXPECT_EQ(client.run(way + ops(READ4args{{}, 0, 7000}), 0, false).status, NFS4_OK);
  // "If the reply exceeds ca_maxresponsesize_cached (and sa_cachethis ... is TRUE), then ...
  // NFS4ERR_REP_TOO_BIG_TO_CACHE."
  EXPECT_EQ(client.run(way + ops(READ4args{{}, 0, 7000}), 0, true).status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
}

// "the reply MUST be cached if sa_cachethis ... is TRUE", also a reply that says that a result was too big.
TEST(ReplySize, TooBigToCache_IsItselfCached) {
  const auto server = start_server();
  server->make_file("/export/big", std::string(5'000, 'x'));
  RawClient client(*server);
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize_cached = 1024;
  ASSERT_TRUE(client.establish());
  const Ops request = ops(client.next_sequence()) + path_ops("/export/big") + ops(READ4args{{}, 0, 5000});
  EXPECT_EQ(client.call(request).status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_EQ(client.call(request).status, NFS4ERR_REP_TOO_BIG_TO_CACHE);
  EXPECT_EQ(server->replays(), 1u);
}

// A non-idempotent operation is not executed if its reply would not fit.
TEST(ReplySize, RenameThatWouldNotFit_IsNotExecuted) {
  const auto server = start_server();
  server->make_file("/export/a", "x");
  RawClient client(*server);
  // SEQUENCE, PUTROOTFH, LOOKUP and SAVEFH fit; the 48 bytes of RENAME do not.
  client.session_request.csa_fore_chan_attrs.ca_maxresponsesize = 24 + 16 + 44 + 3 * 8 + 40;
  ASSERT_TRUE(client.establish());
  const COMPOUND4res reply =
      client.run(path_ops("/export") + ops(SAVEFH4args{}, RENAME4args{"a", "b"}), 0, false);
  EXPECT_EQ(reply.status, NFS4ERR_REP_TOO_BIG);
  EXPECT_EQ(server->executed(OP_RENAME).succeeded, 0u);
  EXPECT_TRUE(server->stat("/export/a"));
}

// "The replier SHOULD deal with the issue by returning NFS4ERR_DELAY as the reply to SEQUENCE".
TEST_F(SequenceTest, RetryWhileInProgress_IsDelayed) {
  const auto rule = server->faults().add(on::request_with(OP_CREATE), fault::StallInProgress{});
  const Ops request =
      ops(client->next_sequence()) + path_ops("/export") + ops(CREATE4args{{NF4DIR, {}, {}}, "d", {}});
  const uint32_t first = client->send(request);
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(client->call(request).status, NFS4ERR_DELAY);
  EXPECT_EQ(client->run({}, 1).status, NFS4_OK) << "other slots go on";
  server->faults().release(rule);
  const auto reply = client->receive(first);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, NFS4_OK);
  EXPECT_EQ(client->call(request).status, NFS4_OK) << "from the cache";
  EXPECT_EQ(server->executed(OP_CREATE).executed, 1u);
}

// "the replier is free to take more forceful action, and MAY reply with a new enforced highest_slotid".
TEST_F(SequenceTest, ShrunkenTarget_RetiresSlotsOnlyWhenTheClientFollows) {
  EXPECT_EQ(client->run({}, 7).status, NFS4_OK);
  server->set_target_slots(2);
  SEQUENCE4args high = client->next_sequence(7);
  COMPOUND4res reply = sequence(high);
  ASSERT_EQ(reply.status, NFS4_OK) << "the replier must not immediately require the requester to comply";
  EXPECT_EQ(at<SEQUENCE4res>(reply, 0).resok4.sr_target_highest_slotid, 1u);
  EXPECT_EQ(at<SEQUENCE4res>(reply, 0).resok4.sr_highest_slotid, 7u);
  reply = sequence(client->next_sequence(0));
  EXPECT_EQ(at<SEQUENCE4res>(reply, 0).resok4.sr_highest_slotid, 7u);
  EXPECT_EQ(sequence(client->next_sequence(5)).status, NFS4_OK)
      << "\"the request may have been sent from the requester before the update was received\"";
  reply = sequence(client->next_sequence(0));
  EXPECT_EQ(at<SEQUENCE4res>(reply, 0).resok4.sr_highest_slotid, 1u)
      << "slot 0 has had a reply with the target";
  EXPECT_EQ(sequence(client->next_sequence(7)).status, NFS4ERR_BADSLOT);
  SEQUENCE4args wide = client->next_sequence(1);
  wide.sa_highest_slotid = 7;
  EXPECT_EQ(sequence(wide).status, NFS4ERR_BAD_HIGH_SLOT);
  server->set_target_slots(8);
  reply = sequence(client->next_sequence(0));
  EXPECT_EQ(at<SEQUENCE4res>(reply, 0).resok4.sr_highest_slotid, 7u);
  EXPECT_EQ(sequence({client->session, 1, 7, 7, false}).status, NFS4_OK)
      << "a slot that came back may begin again";
}

// "NFS4ERR_MINOR_VERS_MISMATCH and a zero-length resultdata array" (section 16.2.3).
TEST_F(SequenceTest, OtherMinorVersion_IsAMismatchWithoutResults) {
  for (const uint32_t minor : {0u, 2u, 99u}) {
    COMPOUND4args args;
    args.tag = "tag";
    args.minorversion = minor;
    args.argarray = ops(client->next_sequence());
    client->undo_sequence();
    const auto reply = client->receive(client->send(args));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, NFS4ERR_MINOR_VERS_MISMATCH);
    EXPECT_TRUE(reply->resarray.empty());
    EXPECT_EQ(reply->tag, "tag") << "the value of tag in the response SHOULD be the same";
  }
}

}  // namespace
}  // namespace nfsrdma::filer::test
