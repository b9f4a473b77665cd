// SPDX-License-Identifier: Apache-2.0
// The back channel below its operations: RPC headers, credentials, CB_COMPOUND's header, hostile bytes.
#include <rapidcheck.h>

#include <algorithm>

#include "tests/unit/client/support/callback_caller.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

ByteVector some_compound(CallbackCaller& caller) {
  return CallbackCaller::encode(CallbackCaller::compound(caller.sequence(), CB_RECALL_SLOT4args{15}));
}

TEST(CallbackRpc, NullProcedure_IsAnsweredWithNothing) {
  CallbackCaller caller;
  const ByteVector reply = caller.send(CallbackCaller::call({.procedure = 0}, {}));
  EXPECT_EQ(reply.size(), 24u);
  EXPECT_TRUE(CallbackCaller::read(reply).header.success());
  EXPECT_EQ(caller.server.count(), 0u);
}

TEST(CallbackRpc, Reply_CarriesTheXid) {
  CallbackCaller caller;
  for (const uint32_t procedure : {0u, 1u, 2u}) {
    const ByteVector call =
        CallbackCaller::call({.xid = 0xfeedbeef, .procedure = procedure}, some_compound(caller));
    EXPECT_EQ(CallbackCaller::read(caller.send(call)).header.xid, rpc::Xid{0xfeedbeef});
  }
}

TEST(CallbackRpc, OtherProgram_IsUnavailable) {
  CallbackCaller caller;
  const ByteVector call = CallbackCaller::call({.program = 100003}, some_compound(caller));
  EXPECT_EQ(CallbackCaller::read(caller.send(call)).header.accepted, rpc::PROG_UNAVAIL);
}

TEST(CallbackRpc, OtherVersion_NamesTheOneThereIs) {
  CallbackCaller caller;
  for (const uint32_t version : {0u, 2u, 4u}) {
    const ByteVector call = CallbackCaller::call({.version = version}, some_compound(caller));
    const CallbackReply reply = CallbackCaller::read(caller.send(call));
    EXPECT_EQ(reply.header.accepted, rpc::PROG_MISMATCH);
    EXPECT_EQ(reply.header.mismatch, (rpc::mismatch_info{1, 1}));
  }
}

TEST(CallbackRpc, OtherProcedure_IsUnavailable) {
  CallbackCaller caller;
  const ByteVector call = CallbackCaller::call({.procedure = 2}, some_compound(caller));
  EXPECT_EQ(CallbackCaller::read(caller.send(call)).header.accepted, rpc::PROC_UNAVAIL);
}

TEST(CallbackRpc, OtherRpcVersion_IsDenied) {
  CallbackCaller caller;
  const CallbackReply reply = CallbackCaller::read(caller.send(CallbackCaller::call({.rpc_version = 3}, {})));
  EXPECT_EQ(reply.header.stat, rpc::MSG_DENIED);
  EXPECT_EQ(reply.header.denied, rpc::RPC_MISMATCH);
  EXPECT_EQ(reply.header.mismatch, (rpc::mismatch_info{2, 2}));
}

TEST(CallbackRpc, AuthSys_IsAcceptedForAnyUser) {
  CallbackCaller caller;
  for (const uint32_t uid : {0u, 1000u, 0xffffffffu}) {
    const ByteVector body = rpc::encode_authsys({7, "filer.example", uid, uid, {1, 2, 3}});
    const ByteVector call =
        CallbackCaller::call({.credential = {rpc::AUTH_SYS, body}}, some_compound(caller));
    EXPECT_EQ(CallbackCaller::read(caller.send(call)).status(), NFS4_OK);
  }
}

TEST(CallbackRpc, MalformedCredential_IsDeniedAsBad) {
  CallbackCaller caller;
  ByteVector body = rpc::encode_authsys({7, "filer.example", 0, 0, {1, 2, 3}});
  const ByteVector longer = [&] {
    ByteVector b = body;
    b.resize(b.size() + 4);
    return b;
  }();
  body.resize(body.size() - 4);
  const ByteVector none_with_body(8);
  for (const rpc::opaque_auth& credential :
       {rpc::opaque_auth{rpc::AUTH_SYS, body}, rpc::opaque_auth{rpc::AUTH_SYS, longer},
        rpc::opaque_auth{rpc::AUTH_SYS, {}}, rpc::opaque_auth{rpc::AUTH_NONE, none_with_body}}) {
    const ByteVector call = CallbackCaller::call({.credential = credential}, some_compound(caller));
    const CallbackReply reply = CallbackCaller::read(caller.send(call));
    EXPECT_EQ(reply.header.stat, rpc::MSG_DENIED);
    EXPECT_EQ(reply.header.denied, rpc::AUTH_ERROR);
    EXPECT_EQ(reply.header.why, rpc::AUTH_BADCRED);
  }
  EXPECT_EQ(caller.server.count(), 0u);
}

TEST(CallbackRpc, FlavorNeverOffered_IsDenied) {
  CallbackCaller caller;
  for (const rpc::auth_flavor flavor : {rpc::RPCSEC_GSS, rpc::AUTH_SHORT, rpc::auth_flavor{4711}}) {
    const ByteVector call = CallbackCaller::call({.credential = {flavor, {}}}, some_compound(caller));
    const CallbackReply reply = CallbackCaller::read(caller.send(call));
    EXPECT_EQ(reply.header.stat, rpc::MSG_DENIED);
    EXPECT_EQ(reply.header.denied, rpc::AUTH_ERROR);
    EXPECT_EQ(reply.header.why, rpc::AUTH_REJECTEDCRED);
  }
}

// RFC 8881 section 16.2.3: "The contents of the tag are undefined [...] the tag [...] MUST be copied".
TEST(CallbackRpc, Tag_IsEchoed) {
  CallbackCaller caller;
  for (const std::string& tag :
       {std::string(), std::string("x"), std::string("recall\xc3\xa9"), std::string(400, 't')}) {
    CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
    args.tag = tag;
    const CallbackReply reply = caller.send(args);
    EXPECT_EQ(reply.results.tag, tag);
    EXPECT_EQ(reply.status(), NFS4_OK);
  }
}

// RFC 8881 section 19.2.3: "For NFSv4.1, minorversion MUST be set to 1."
TEST(CallbackRpc, OtherMinorVersion_IsAMismatchWithoutResults) {
  CallbackCaller caller;
  for (const uint32_t minor : {0u, 2u, 0xffffffffu}) {
    CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
    args.tag = "tag";
    args.minorversion = minor;
    const CallbackReply reply = caller.send(args);
    EXPECT_EQ(reply.status(), NFS4ERR_MINOR_VERS_MISMATCH);
    EXPECT_EQ(reply.results.tag, "tag");
    EXPECT_TRUE(reply.results.resarray.empty());
  }
}

TEST(CallbackRpc, OtherMinorVersion_WinsOverWhatFollows) {
  CallbackCaller caller;
  ByteVector args;
  xdr::Encoder x(args);
  x(uint32_t{0});  // tag
  x(uint32_t{2});  // minor version; nothing follows
  EXPECT_EQ(caller.send_arguments(args).status(), NFS4ERR_MINOR_VERS_MISMATCH);
}

TEST(CallbackRpc, CallbackIdent_IsIgnored) {
  CallbackCaller caller;
  CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
  args.callback_ident = 99;  // section 20 of RFC 7530: only NFSv4.0 uses it
  EXPECT_EQ(caller.send(args).status(), NFS4_OK);
}

TEST(CallbackRpc, NoOperation_IsSuccess) {
  CallbackCaller caller;
  const CallbackReply reply = caller.send(CB_COMPOUND4args{});
  EXPECT_EQ(reply.status(), NFS4_OK);
  EXPECT_TRUE(reply.results.resarray.empty());
}

// RFC 8881 section 18.36.3: "if a requester sends a COMPOUND or CB_COMPOUND with more operations than
// ca_maxoperations, the replier MUST return NFS4ERR_TOO_MANY_OPS."
TEST(CallbackRpc, MoreOperationsThanNegotiated_AreTooMany) {
  CallbackCaller caller;
  CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
  while (args.argarray.size() < client::nfs4::offered_back_channel().ca_maxoperations) {
    args.argarray.push_back({CB_RECALL_SLOT4args{15}});
  }
  EXPECT_EQ(caller.send(args).status(), NFS4_OK);
  args.argarray.push_back({CB_RECALL_SLOT4args{3}});
  std::get<CB_SEQUENCE4args>(args.argarray[0].op) = caller.sequence();
  const CallbackReply reply = caller.send(args);
  EXPECT_EQ(reply.status(), NFS4ERR_TOO_MANY_OPS);
  EXPECT_TRUE(reply.results.resarray.empty());
  EXPECT_EQ(caller.slots.counts().target, 16u);
}

// RFC 8881 section 2.10.6.4: "If a request exceeds ca_maxrequestsize, the reply will have the status
// NFS4ERR_REQ_TOO_BIG."
TEST(CallbackRpc, RequestLargerThanNegotiated_IsTooBig) {
  CallbackCaller caller;
  const uint32_t limit = client::nfs4::offered_back_channel().ca_maxrequestsize;
  const auto sized = [&](size_t bytes) {
    CB_NOTIFY4args notify;
    notify.cna_changes.emplace_back();
    CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence(), notify);
    const size_t empty = CallbackCaller::call({}, CallbackCaller::encode(args)).size();
    std::get<CB_NOTIFY4args>(args.argarray[1].op).cna_changes[0].notify_vals.assign(bytes - empty, 'x');
    return CallbackCaller::call({}, CallbackCaller::encode(args));
  };
  const ByteVector largest = sized(limit);
  ASSERT_EQ(largest.size(), limit);
  EXPECT_EQ(CallbackCaller::read(caller.send(largest)).status(), NFS4ERR_NOTSUPP);
  EXPECT_EQ(CallbackCaller::read(caller.send(sized(limit + 4))).status(), NFS4ERR_REQ_TOO_BIG);
}

// RFC 5531 section 9: GARBAGE_ARGS, "procedure can't decode params".
TEST(CallbackRpc, OperationCountBeyondTheMessage_IsGarbage) {
  CallbackCaller caller;
  for (const uint32_t count : {3u, 1000u, 0x40000000u, 0xffffffffu}) {
    ByteVector args = CallbackCaller::encode({});
    store_be32(args.data() + args.size() - 4, count);
    EXPECT_EQ(caller.send_arguments(args).header.accepted, rpc::GARBAGE_ARGS) << count;
  }
}

TEST(CallbackRpc, TrailingBytes_AreGarbageAndNothingIsExecuted) {
  CallbackCaller caller;
  const CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence(), CB_RECALL_SLOT4args{3});
  ByteVector bytes = CallbackCaller::encode(args);
  bytes.resize(bytes.size() + 4);
  EXPECT_EQ(caller.send_arguments(bytes).header.accepted, rpc::GARBAGE_ARGS);
  EXPECT_EQ(caller.slots.counts().target, 16u);
  // The slot's sequence ID was not used up.
  EXPECT_EQ(caller.send(args).status(), NFS4_OK);
}

TEST(CallbackRpc, TagBeyondTheMessage_IsGarbage) {
  CallbackCaller caller;
  for (const uint32_t length : {5u, 4097u, 0xfffffffdu, 0xffffffffu}) {
    ByteVector args = CallbackCaller::encode({});
    store_be32(args.data(), length);
    if (length == 5) args.resize(8);
    EXPECT_EQ(caller.send_arguments(args).header.accepted, rpc::GARBAGE_ARGS) << length;
  }
}

TEST(CallbackRpc, NotACall_IsDropped) {
  CallbackCaller caller;
  EXPECT_TRUE(caller.send(ByteVector{}).empty());
  EXPECT_TRUE(caller.send(ByteVector(7)).empty());
  ByteVector reply = CallbackCaller::call({}, {});
  store_be32(reply.data() + 4, rpc::REPLY);
  EXPECT_TRUE(caller.send(reply).empty());
}

// One call of every operation, with data in each variable-length part.
std::vector<nfs_cb_argop4> every_operation() {
  nfs_fh4 fh(as_const_bytes("filehandle"));
  CB_PUSH_DELEG4args push;
  push.cpda_fh = fh;
  CB_NOTIFY4args notify;
  notify.cna_fh = fh;
  notify.cna_changes.push_back({bitmap4::of({1, 2}), "values"});
  CB_LAYOUTRECALL4args layout;
  layout.clora_recall.lor_recalltype = LAYOUTRECALL4_FILE;
  layout.clora_recall.lor_fh = fh;
  return {{CB_GETATTR4args{fh, bitmap4::of({FATTR4_SIZE, FATTR4_CHANGE})}},
          {CB_RECALL4args{{}, true, fh}},
          {layout},
          {notify},
          {push},
          {CB_RECALL_ANY4args{5, bitmap4::of({0, 1})}},
          {CB_RECALLABLE_OBJ_AVAIL4args{5, bitmap4::of({0})}},
          {CB_RECALL_SLOT4args{15}},
          {CB_WANTS_CANCELLED4args{true, true}},
          {CB_NOTIFY_LOCK4args{fh, {1, "owner"}}},
          {CB_NOTIFY_DEVICEID4args{{{bitmap4::of({1}), "values"}}}}};
}

// Cut anywhere, a call gets exactly one answer: none (no RPC call), GARBAGE_ARGS, or NFS4ERR_BADXDR for the
// operation that was cut. RFC 8881 section 15.1.1.1: "The arguments for this operation do not match those
// specified in the XDR definition."
TEST(CallbackRpc, CutAtEveryByte_IsAnswered) {
  for (const nfs_cb_argop4& op : every_operation()) {
    CallbackCaller caller;
    CB_SEQUENCE4args sequence = caller.sequence();
    CB_COMPOUND4args args = CallbackCaller::compound(sequence);
    args.tag = "tag";
    args.argarray.push_back(op);
    const size_t size = CallbackCaller::call({}, CallbackCaller::encode(args)).size();
    const size_t second = size - xdr::size_of(op);
    for (size_t n = 0; n < size; ++n) {
      std::get<CB_SEQUENCE4args>(args.argarray[0].op) = sequence;
      ByteVector cut = CallbackCaller::call({}, CallbackCaller::encode(args));
      cut.resize(n);
      const CallbackReply reply = CallbackCaller::read(caller.send(cut));
      if (n < 8) {
        EXPECT_TRUE(reply.bytes.empty()) << n;
      } else if (n >= second + 4) {
        ASSERT_EQ(reply.results.resarray.size(), 2u) << n;
        EXPECT_EQ(reply.results.resarray[1].opnum(), op.opnum());
        EXPECT_EQ(reply.status(1), NFS4ERR_BADXDR) << n;
        sequence = caller.sequence();
      } else if (!reply.results.resarray.empty()) {
        EXPECT_EQ(reply.results.resarray[0].opnum(), OP_CB_SEQUENCE);
        EXPECT_EQ(reply.status(0), NFS4ERR_BADXDR) << n;
      } else {
        EXPECT_EQ(reply.header.accepted, rpc::GARBAGE_ARGS) << n;
      }
    }
  }
}

// Whatever bits a hostile server flips, the answer is well formed and its size bounded.
TEST(CallbackRpc, ArbitraryDamage_IsAnsweredWithinTheLimits) {
  const std::vector<nfs_cb_argop4> ops = every_operation();
  CallbackCaller caller;
  caller.nodes.get(nfs_fh4(as_const_bytes("filehandle")), 0);
  const bool ok = rc::check([&] {
    CB_COMPOUND4args args = CallbackCaller::compound(caller.sequence());
    for (const int i :
         *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, static_cast<int>(ops.size())))) {
      if (args.argarray.size() < 7) args.argarray.push_back(ops[static_cast<size_t>(i)]);
    }
    ByteVector call = CallbackCaller::call({}, CallbackCaller::encode(args));
    for (const auto& [at, value] : *rc::gen::container<std::vector<std::pair<uint16_t, uint8_t>>>(
             rc::gen::arbitrary<std::pair<uint16_t, uint8_t>>())) {
      call[at % call.size()] = static_cast<std::byte>(value);
    }
    const CallbackReply reply = CallbackCaller::read(caller.send(call));
    RC_ASSERT(reply.bytes.size() <= client::nfs4::offered_back_channel().ca_maxresponsesize);
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace nfsrdma::test
