// SPDX-License-Identifier: Apache-2.0
// The client's encoding and decoding of COMPOUNDs (RFC 8881 sections 2.3, 16.2), compared with the XDR
// codec's.
#include "client/nfs4/session/compound.h"
#include "client/nfs4/session/bulk_locators.h"
#include "client/nfs4/session/request.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "xdr/rpc.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::nfs4::CompoundBuilder;
using client::nfs4::CompoundReply;
using client::nfs4::SlotTicket;

const rpc::Credential kUser("host", 1000, 100, {4, 24, 27});

// --- calls ---

struct Message {
  rpc::call_header header;
  COMPOUND4args compound;
};

// The message with its bulk items in place.
ByteVector joined(const rpc::Call& call) {
  ByteVector all;
  size_t from = 0;
  for (const xdr::Bulk& bulk : call.bulks) {
    all.insert(all.end(), call.head.begin() + static_cast<ptrdiff_t>(from),
               call.head.begin() + static_cast<ptrdiff_t>(bulk.inline_offset));
    EXPECT_EQ(all.size(), bulk.position);
    all.insert(all.end(), bulk.data.begin(), bulk.data.end());
    all.resize(xdr_padded(all.size()));
    from = bulk.inline_offset;
  }
  all.insert(all.end(), call.head.begin() + static_cast<ptrdiff_t>(from), call.head.end());
  return all;
}

Message decode(const ByteVector& bytes) {
  Message m;
  xdr::Decoder x(bytes);
  EXPECT_TRUE(x(m.header)) << x.failure();
  EXPECT_TRUE(x(m.compound)) << x.failure();
  EXPECT_EQ(x.left(), 0u);
  return m;
}

TEST(CompoundBuilder, Finished_IsARpcCallWithSequenceFirst) {
  CompoundBuilder builder(kUser, "GETATTR");
  const nfs_fh4 fh(as_const_bytes("file"));
  builder.putfh(fh).getattr(bitmap4::of({FATTR4_SIZE}));
  ASSERT_TRUE(builder.ok());
  SlotTicket ticket;
  ticket.session.data.fill(std::byte{9});
  ticket.slot = 5;
  ticket.sequence = 77;
  ticket.highest = 6;
  const rpc::Call call = builder.finish(&ticket, true);
  EXPECT_STREQ(call.op, "GETATTR");
  EXPECT_TRUE(call.bulks.empty());
  EXPECT_FALSE(call.handshake);
  const ByteVector bytes = joined(call);
  const Message m = decode(bytes);
  EXPECT_EQ(m.header.rpcvers, 2u);
  EXPECT_EQ(m.header.prog, 100003u);
  EXPECT_EQ(m.header.vers, 4u);
  EXPECT_EQ(m.header.proc, 1u);
  EXPECT_EQ(m.header.cred.flavor, rpc::AUTH_SYS);
  const auto user = xdr::decode<rpc::authsys_parms>(m.header.cred.body, "cred");
  ASSERT_TRUE(user);
  EXPECT_EQ(user->uid, 1000u);
  EXPECT_EQ(user->gids, (std::vector<uint32_t>{4, 24, 27}));
  EXPECT_EQ(m.header.verf.flavor, rpc::AUTH_NONE);
  EXPECT_EQ(m.compound.minorversion, 1u);
  ASSERT_EQ(m.compound.argarray.size(), 3u);
  const SEQUENCE4args expected{.sa_sessionid = ticket.session,
                               .sa_sequenceid = 77,
                               .sa_slotid = 5,
                               .sa_highest_slotid = 6,
                               .sa_cachethis = true};
  EXPECT_EQ(std::get<SEQUENCE4args>(m.compound.argarray[0].op), expected);
  EXPECT_EQ(std::get<PUTFH4args>(m.compound.argarray[1].op).object, fh);
  EXPECT_EQ(m.compound.argarray[2].opnum(), OP_GETATTR);
}

TEST(CompoundBuilder, WithoutSequence_HasOnlyWhatWasAdded) {
  CompoundBuilder builder(kUser, "DESTROY_CLIENTID", false);
  builder.add(DESTROY_CLIENTID4args{42});
  const ByteVector bytes = joined(builder.finish(nullptr, false));
  const Message m = decode(bytes);
  ASSERT_EQ(m.compound.argarray.size(), 1u);
  EXPECT_EQ(std::get<DESTROY_CLIENTID4args>(m.compound.argarray[0].op).dca_clientid, 42u);
}

TEST(CompoundBuilder, NothingAdded_IsASequenceAlone) {
  CompoundBuilder builder(kUser, "SEQUENCE");
  const SlotTicket ticket;
  const ByteVector bytes = joined(builder.finish(&ticket, false));
  EXPECT_EQ(decode(bytes).compound.argarray.size(), 1u);
}

TEST(CompoundBuilder, WriteData_StaysWhereItIs) {
  for (const size_t size : {1u, 2u, 3u, 4u, 4096u, 4099u}) {
    BufferPool pool;
    const Slice data = pool.slice(size);
    for (size_t i = 0; i < size; ++i) data.bytes[i] = static_cast<std::byte>(i);
    CompoundBuilder builder(kUser, "WRITE");
    builder.putfh(nfs_fh4(as_const_bytes("f"))).add(WRITE4args{{}, 5, UNSTABLE4, data.bytes}).getattr({});
    builder.keep(data);
    const SlotTicket ticket;
    const rpc::Call call = builder.finish(&ticket, false);
    ASSERT_EQ(call.bulks.size(), 1u);
    EXPECT_EQ(call.bulks[0].data.data(), data.bytes.data());
    const ByteVector bytes = joined(call);
    const Message m = decode(bytes);
    const auto& write = std::get<WRITE4args>(m.compound.argarray.at(2).op);
    EXPECT_EQ(as_string_view(write.data), as_string_view(data.bytes));
    EXPECT_EQ(m.compound.argarray.at(3).opnum(), OP_GETATTR);
  }
}

TEST(CompoundBuilder, ArgumentBeyondTheProtocolsLimit_IsNotOk) {
  CompoundBuilder builder(kUser, "LOOKUP");
  builder.add(LOOKUP4args{std::string(kMaxComponent + 1, 'x')});
  EXPECT_FALSE(builder.ok());
}

// --- replies ---

ByteVector encode_reply(const COMPOUND4res& res, ConstBytes verifier = {}) {
  ByteVector bytes;
  xdr::Encoder x(bytes);
  rpc::reply_header header;
  header.verf.body = verifier;
  EXPECT_TRUE(x(header));
  EXPECT_TRUE(x(res)) << x.failure();
  return bytes;
}

rpc::Reply received(ByteVector bytes) {
  xdr::Decoder x(bytes);
  rpc::reply_header header;
  EXPECT_TRUE(x(header));
  rpc::Reply reply;
  reply.body = x.position();
  reply.head = std::move(bytes);
  return reply;
}

Result<CompoundReply> parse(ByteVector bytes, bool sequence = true) {
  return CompoundReply::parse(received(std::move(bytes)), {}, "TEST", sequence);
}

COMPOUND4res reply_of(std::initializer_list<nfs_resop4> results, nfsstat4 status = NFS4_OK) {
  COMPOUND4res res;
  res.status = status;
  res.resarray = results;
  return res;
}

SEQUENCE4res sequence_result() {
  SEQUENCE4res res;
  res.resok4.sr_slotid = 5;
  res.resok4.sr_sequenceid = 77;
  return res;
}

TEST(CompoundReply, Results_AreHandedOutInOrder) {
  GETFH4res fh;
  fh.resok4.object = nfs_fh4(as_const_bytes("file"));
  auto reply = parse(encode_reply(reply_of({{sequence_result()}, {PUTFH4res{}}, {fh}})));
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->ok());
  ASSERT_TRUE(reply->sequence());
  EXPECT_EQ(reply->sequence()->resok4.sr_slotid, 5u);
  EXPECT_TRUE(reply->expect<PUTFH4res>());
  const auto got = reply->take<GETFH4res>();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->resok4.object, fh.resok4.object);
  EXPECT_FALSE(reply->take<GETFH4res>()) << "there are no more";
}

TEST(CompoundReply, FailedResult_IsAnErrorWithItsStatusAndName) {
  auto reply = parse(encode_reply(
      reply_of({{sequence_result()}, {PUTFH4res{}}, {LOOKUP4res{NFS4ERR_NOENT}}}, NFS4ERR_NOENT)));
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->ok());
  EXPECT_TRUE(reply->expect<PUTFH4res>());
  const auto lookup = reply->expect<LOOKUP4res>();
  ASSERT_FALSE(lookup);
  EXPECT_TRUE(lookup.error().is_status(NFS4ERR_NOENT));
  EXPECT_EQ(lookup.error().errnum, ENOENT);
  EXPECT_STREQ(lookup.error().op, "LOOKUP");
}

// nfs-ganesha 6.5 says so while the file is being removed: its names have to be looked up again.
TEST(CompoundReply, FilehandleThatTheServerFailsToFind_IsStale) {
  auto reply = parse(
      encode_reply(reply_of({{sequence_result()}, {PUTFH4res{NFS4ERR_SERVERFAULT}}}, NFS4ERR_SERVERFAULT)));
  ASSERT_TRUE(reply);
  const auto put = reply->expect<PUTFH4res>();
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().errnum, ESTALE);
  EXPECT_TRUE(put.error().is_status(NFS4ERR_SERVERFAULT)) << "what the server said is logged";
}

// Section 2.3: processing stops at the first error; later operations have no result.
TEST(CompoundReply, ResultsBehindTheError_FailWithTheCompoundsStatus) {
  auto reply =
      parse(encode_reply(reply_of({{sequence_result()}, {PUTFH4res{NFS4ERR_STALE}}}, NFS4ERR_STALE)));
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->take_any<PUTFH4res>());
  const auto missing = reply->take<GETATTR4res>();
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().is_status(NFS4ERR_STALE));
}

TEST(CompoundReply, FewerResultsThanAskedWithoutAnError_IsMalformed) {
  auto reply = parse(encode_reply(reply_of({{sequence_result()}})));
  ASSERT_TRUE(reply);
  const auto missing = reply->expect<PUTFH4res>();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().layer, Layer::kXdr);
  EXPECT_EQ(missing.error().errnum, EIO);
}

TEST(CompoundReply, AnotherOperationsResult_IsMalformed) {
  auto reply = parse(encode_reply(reply_of({{sequence_result()}, {SAVEFH4res{}}})));
  ASSERT_TRUE(reply);
  const auto wrong = reply->expect<PUTFH4res>();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().layer, Layer::kXdr);
  EXPECT_EQ(wrong.error().recovery, Recovery::kPermanent);
}

TEST(CompoundReply, FirstResultNotSequence_IsMalformed) {
  EXPECT_FALSE(parse(encode_reply(reply_of({{PUTFH4res{}}}))));
}

TEST(CompoundReply, RefusedAsAWhole_HasNoSequence) {
  const auto reply = parse(encode_reply(reply_of({}, NFS4ERR_MINOR_VERS_MISMATCH)));
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->sequence());
  EXPECT_EQ(reply->status(), NFS4ERR_MINOR_VERS_MISMATCH);
}

TEST(CompoundReply, HostileResultCount_EndsWithTheBytes) {
  ByteVector bytes = encode_reply(reply_of({{sequence_result()}}));
  store_be32(bytes.data() + 24 + 8, 0xffffffff);
  auto reply = parse(std::move(bytes));
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->expect<PUTFH4res>());
}

TEST(CompoundReply, HostileTag_IsMalformed) {
  for (const uint32_t length : {4097u, 0x7fffffffu, 0xffffffffu}) {
    ByteVector bytes = encode_reply(reply_of({{sequence_result()}}));
    store_be32(bytes.data() + 24 + 4, length);
    EXPECT_FALSE(parse(std::move(bytes))) << length;
  }
}

// A READDIR page, a file's attributes and an OPEN with a delegation: results with inner lengths.
COMPOUND4res rich_reply() {
  fattr4 attributes;
  attributes.attrmask = bitmap4::of({FATTR4_TYPE, FATTR4_SIZE, FATTR4_OWNER});
  attributes.type = NF4REG;
  attributes.owner = "1000";
  GETATTR4res getattr;
  getattr.resok4.obj_attributes = attributes;
  OPEN4res open;
  open.resok4.attrset = bitmap4::of({FATTR4_MODE});
  open.resok4.delegation.delegation_type = OPEN_DELEGATE_READ;
  open.resok4.delegation.permissions.who = "EVERYONE@";
  READDIR4res readdir;
  for (int i = 1; i <= 3; ++i) {
    entry4 entry;
    entry.cookie = static_cast<uint64_t>(i);
    entry.name = "name " + std::to_string(i);
    entry.attrs = attributes;
    readdir.resok4.reply.entries.push_back(entry);
  }
  return reply_of({{sequence_result()}, {open}, {getattr}, {readdir}});
}

bool read_all(Result<CompoundReply> reply) {
  return reply && reply->sequence() && reply->expect<OPEN4res>() && reply->expect<GETATTR4res>() &&
         reply->expect<READDIR4res>();
}

TEST(CompoundReply, CutAtEveryByte_IsAnErrorForWhateverIsMissing) {
  const ByteVector whole = encode_reply(rich_reply());
  ASSERT_TRUE(read_all(parse(whole)));
  for (size_t n = 24; n < whole.size(); ++n) {
    EXPECT_FALSE(read_all(parse(ByteVector(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n))))) << n;
  }
}

TEST(CompoundReply, AnyDamage_IsReadOrRefused) {
  const ByteVector whole = encode_reply(rich_reply());
  EXPECT_TRUE(rc::check([&](const std::vector<std::pair<uint16_t, uint8_t>>& damage) {
    ByteVector bytes = whole;
    for (const auto& [at, value] : damage)
      bytes[24 + at % (bytes.size() - 24)] = static_cast<std::byte>(value);
    (void)read_all(parse(std::move(bytes)));
  }));
}

// --- READ data in a reply that is still being received ---

ByteVector read_reply(ConstBytes data, const std::string& tag = {}, ConstBytes verifier = {}) {
  READ4res read;
  read.resok4.data = data;
  COMPOUND4res res = reply_of({{sequence_result()}, {PUTFH4res{}}, {read}});
  res.tag = tag;
  return encode_reply(res, verifier);
}

const ByteVector kData(1000, std::byte{0x5a});

TEST(LocateReadData, EveryPrefix_NeedsMoreUntilTheLengthIsThere) {
  for (const std::string& tag : {std::string(), std::string("t"), std::string(4096, 't')}) {
    for (const size_t verifier : {0u, 1u, 400u}) {
      const ByteVector body(verifier);
      const ByteVector whole = read_reply(kData, tag, body);
      const size_t data_at = whole.size() - kData.size();
      for (size_t n = 0; n <= whole.size(); n += n < data_at + 8 ? 1 : 97) {
        rpc::BulkPlace place;
        const rpc::Locate found = client::nfs4::locate_read_data(ConstBytes(whole).first(n), place);
        ASSERT_EQ(found, n < data_at ? rpc::Locate::kNeedMore : rpc::Locate::kFound) << n;
        if (found != rpc::Locate::kFound) continue;
        EXPECT_EQ(place.offset, data_at);
        EXPECT_EQ(place.length, kData.size());
      }
    }
  }
}

TEST(LocateReadData, UsualReply_BeginsWhereTheBuilderExpects) {
  BufferPool pool;
  CompoundBuilder builder(kUser, "READ");
  builder.expect_read(pool.slice(4096));
  const SlotTicket ticket;
  const rpc::Call call = builder.finish(&ticket, false);
  EXPECT_EQ(call.sink.expected_offset, read_reply(kData).size() - kData.size());
  EXPECT_EQ(call.sink.destination.size(), 4096u);
}

// RPCSEC_GSS's header as a class without cryptography has it.
class SomeSecurity final : public rpc::CallSecurity {
 public:
  SomeSecurity() {
    xdr::Encoder x(header_);
    x(rpc::opaque_auth{rpc::RPCSEC_GSS, ByteVector(24)});
    x(rpc::opaque_auth{rpc::RPCSEC_GSS, ByteVector(28)});
  }
  ConstBytes header() const override { return header_; }
  size_t reply_overhead() const override { return 100; }
  size_t verifier_bytes() const override { return 28; }
  bool results_in_clear() const override { return true; }
  Result<> seal(rpc::Call&) override { return {}; }
  Result<> open(const rpc::Call&, rpc::ReceivedReply&) override { return {}; }

 private:
  ByteVector header_;
};

TEST(CompoundBuilder, WithSecurity_HasItsHeaderAndRoomForItsReply) {
  BufferPool pool;
  const auto call_with = [&](const std::shared_ptr<rpc::CallSecurity>& security) {
    CompoundBuilder builder(kUser, "READ", true, security);
    builder.putfh(nfs4::nfs_fh4(ByteVector(16))).add(READ4args{});
    builder.expect_read(pool.slice(4096));
    const SlotTicket ticket;
    return builder.finish(&ticket, false);
  };
  const auto security = std::make_shared<SomeSecurity>();
  const rpc::Call plain = call_with(nullptr), secured = call_with(security);
  EXPECT_EQ(plain.security, nullptr);
  EXPECT_EQ(secured.security, security);
  EXPECT_EQ(secured.max_reply_bytes, plain.max_reply_bytes + 100);
  EXPECT_EQ(secured.sink.expected_offset, plain.sink.expected_offset + 28);
  const Message message = decode(joined(secured));
  EXPECT_EQ(message.header.cred.flavor, rpc::RPCSEC_GSS);
  EXPECT_EQ(message.header.verf.flavor, rpc::RPCSEC_GSS);
  EXPECT_EQ(message.header.verf.body.size(), 28u);
  EXPECT_EQ(message.compound, decode(joined(plain)).compound);
}

// Only READ's data is placed (transport/rdma/plan.h). A call without a sink gets no Write chunk.
TEST(LocateReadData, OtherOperations_HaveNoSink) {
  const auto sink_of = [](auto args) {
    CompoundBuilder builder(kUser, "TEST");
    builder.putfh(nfs4::nfs_fh4(ByteVector(16))).add(args);
    const SlotTicket ticket;
    return builder.finish(&ticket, false).sink.destination.size();
  };
  EXPECT_EQ(sink_of(READLINK4args{}), 0U);
  EXPECT_EQ(sink_of(READDIR4args{}), 0U);
  EXPECT_EQ(sink_of(GETATTR4args{}), 0U);
}

// The locator returns the length that the server claims. The transport limits it by the record and the sink.
TEST(LocateReadData, HostileLength_IsReportedAsClaimed) {
  ByteVector whole = read_reply(kData);
  const size_t data_at = whole.size() - kData.size();
  store_be32(whole.data() + data_at - 4, 0xffffffff);
  rpc::BulkPlace place;
  EXPECT_EQ(client::nfs4::locate_read_data(whole, place), rpc::Locate::kFound);
  EXPECT_EQ(place.length, 0xffffffffu);
}

TEST(LocateReadData, ErrorReplies_AreTakenWhole) {
  READ4res failed;
  failed.status = NFS4ERR_IO;
  const COMPOUND4res errors[] = {reply_of({{sequence_result()}, {PUTFH4res{}}, {failed}}, NFS4ERR_IO),
                                 reply_of({{sequence_result()}, {PUTFH4res{NFS4ERR_STALE}}}, NFS4ERR_STALE),
                                 reply_of({}, NFS4ERR_DELAY)};
  for (const COMPOUND4res& error : errors) {
    const ByteVector whole = encode_reply(error);
    for (size_t n = 0; n <= whole.size(); ++n) {
      rpc::BulkPlace place;
      EXPECT_NE(client::nfs4::locate_read_data(ConstBytes(whole).first(n), place), rpc::Locate::kFound) << n;
    }
  }
}

// Section 16.2.3: "the status value of the last operation". READ's data before it is still at its place.
TEST(LocateReadData, FailureBehindTheData_LeavesItWhereItIs) {
  READ4res read;
  read.resok4.data = kData;
  GETATTR4res delayed;
  delayed.status = NFS4ERR_DELAY;
  rpc::BulkPlace place;
  const ByteVector alone =
      encode_reply(reply_of({{sequence_result()}, {PUTFH4res{}}, {read}, {delayed}}, NFS4ERR_DELAY));
  EXPECT_EQ(client::nfs4::locate_read_data(alone, place), rpc::Locate::kFound);
  EXPECT_EQ(place.length, kData.size());
  const ByteVector with_open = encode_reply(reply_of(
      {{sequence_result()}, {PUTFH4res{}}, {OPEN4res{}}, {ACCESS4res{}}, {GETATTR4res{}}, {read}, {delayed}},
      NFS4ERR_DELAY));
  EXPECT_EQ(client::nfs4::locate_data_read_with_open(with_open, place), rpc::Locate::kFound);
  EXPECT_EQ(place.length, kData.size());
}

TEST(LocateReadData, RefusedRpc_IsTakenWhole) {
  for (const auto stat : {rpc::PROG_UNAVAIL, rpc::GARBAGE_ARGS, rpc::SYSTEM_ERR}) {
    rpc::reply_header header;
    header.accepted = stat;
    ByteVector bytes;
    xdr::Encoder x(bytes);
    x(header);
    bytes.resize(400);  // any bytes may follow
    rpc::BulkPlace place;
    EXPECT_EQ(client::nfs4::locate_read_data(bytes, place), rpc::Locate::kNone);
  }
}

TEST(LocateReadData, AnotherShape_IsTakenWhole) {
  READ4res read;
  read.resok4.data = kData;
  for (const COMPOUND4res& other :
       {reply_of({{sequence_result()}, {PUTFH4res{}}, {GETATTR4res{}}, {read}}),
        reply_of({{sequence_result()}, {SAVEFH4res{}}, {read}}), reply_of({{sequence_result()}, {read}})}) {
    rpc::BulkPlace place;
    EXPECT_EQ(client::nfs4::locate_read_data(encode_reply(other), place), rpc::Locate::kNone);
  }
}

TEST(LocateReadData, AnyBytes_NeverPointOutsideThePrefix) {
  const ByteVector whole = read_reply(kData, "tag");
  EXPECT_TRUE(rc::check([&](const std::vector<std::pair<uint16_t, uint32_t>>& damage, uint16_t length) {
    ByteVector bytes = whole;
    for (const auto& [at, value] : damage) store_be32(bytes.data() + at % 40 * 4, value);
    bytes.resize(length % (bytes.size() + 1));
    rpc::BulkPlace place;
    if (client::nfs4::locate_read_data(bytes, place) == rpc::Locate::kFound)
      RC_ASSERT(place.offset <= bytes.size());
  }));
}

// --- READ after OPEN ---

ByteVector open_reply(const open_delegation4& delegation, const std::string& owner, ConstBytes data) {
  OPEN4res open;
  open.resok4.attrset = bitmap4::of({FATTR4_SIZE, FATTR4_MODE});
  open.resok4.delegation = delegation;
  GETATTR4res attributes, change;
  attributes.resok4.obj_attributes.attrmask = bitmap4::of({FATTR4_CHANGE, FATTR4_SIZE, FATTR4_OWNER});
  attributes.resok4.obj_attributes.owner = owner;
  change.resok4.obj_attributes.attrmask = bitmap4::of({FATTR4_CHANGE});
  READ4res read;
  read.resok4.data = data;
  return encode_reply(
      reply_of({{sequence_result()}, {PUTFH4res{}}, {open}, {ACCESS4res{}}, {attributes}, {read}, {change}}));
}

std::vector<open_delegation4> every_delegation() {
  std::vector<open_delegation4> all;
  for (const auto type : {OPEN_DELEGATE_NONE, OPEN_DELEGATE_READ, OPEN_DELEGATE_WRITE}) {
    for (const char* who : {"", "EVERYONE@"}) {
      for (const auto limit : {NFS_LIMIT_SIZE, NFS_LIMIT_BLOCKS}) {
        open_delegation4 d;
        d.delegation_type = type;
        d.permissions.who = who;
        d.space_limit.limitby = limit;
        all.push_back(d);
      }
    }
  }
  for (const auto why : {WND4_NOT_WANTED, WND4_CONTENTION, WND4_RESOURCE, WND4_IS_DIR}) {
    open_delegation4 d;
    d.delegation_type = OPEN_DELEGATE_NONE_EXT;
    d.ond_why = why;
    all.push_back(d);
  }
  return all;
}

// The part of a reply after the data: padding (none here), opnum, status, a bitmap of one word, 8 bytes of
// change.
constexpr size_t kBehindData = 8 + 8 + 4 + 8;

TEST(LocateDataReadWithOpen, EveryPrefix_NeedsMoreUntilTheLengthIsThere) {
  for (const open_delegation4& delegation : every_delegation()) {
    for (const char* owner : {"0", "somebody@example.org"}) {
      const ByteVector whole = open_reply(delegation, owner, kData);
      const size_t data_at = whole.size() - kBehindData - kData.size();
      for (size_t n = 0; n <= whole.size(); n += n < data_at + 8 ? 1 : 97) {
        rpc::BulkPlace place;
        const rpc::Locate found = client::nfs4::locate_data_read_with_open(ConstBytes(whole).first(n), place);
        ASSERT_EQ(found, n < data_at ? rpc::Locate::kNeedMore : rpc::Locate::kFound) << n;
        if (found != rpc::Locate::kFound) continue;
        EXPECT_EQ(place.offset, data_at);
        EXPECT_EQ(place.length, kData.size());
      }
    }
  }
}

TEST(LocateDataReadWithOpen, OtherReplies_AreTakenWhole) {
  OPEN4res refused;
  refused.status = NFS4ERR_ACCESS;
  READ4res unread;
  unread.status = NFS4ERR_BAD_STATEID;
  for (const COMPOUND4res& other :
       {reply_of({{sequence_result()}, {PUTFH4res{}}, {refused}}, NFS4ERR_ACCESS),
        reply_of(
            {{sequence_result()}, {PUTFH4res{}}, {OPEN4res{}}, {ACCESS4res{}}, {GETATTR4res{}}, {unread}},
            NFS4ERR_BAD_STATEID),
        reply_of({{sequence_result()},
                  {PUTFH4res{}},
                  {OPEN4res{}},
                  {GETATTR4res{}},
                  {ACCESS4res{}},
                  {READ4res{}}}),
        reply_of({{sequence_result()}, {PUTFH4res{}}, {READ4res{}}})}) {
    const ByteVector whole = encode_reply(other);
    for (size_t n = 0; n <= whole.size(); ++n) {
      rpc::BulkPlace place;
      EXPECT_NE(client::nfs4::locate_data_read_with_open(ConstBytes(whole).first(n), place),
                rpc::Locate::kFound)
          << n;
    }
  }
}

TEST(LocateDataReadWithOpen, AnyBytes_NeverPointOutsideThePrefix) {
  const std::vector<open_delegation4> delegations = every_delegation();
  EXPECT_TRUE(
      rc::check([&](const std::vector<std::pair<uint16_t, uint32_t>>& damage, uint16_t length, uint8_t d) {
        ByteVector bytes = open_reply(delegations[d % delegations.size()], "owner", kData);
        for (const auto& [at, value] : damage) store_be32(bytes.data() + at % 90 * 4, value);
        rpc::BulkPlace whole;
        const rpc::Locate said = client::nfs4::locate_data_read_with_open(bytes, whole);
        bytes.resize(length % (bytes.size() + 1));
        rpc::BulkPlace place;
        const rpc::Locate found = client::nfs4::locate_data_read_with_open(bytes, place);
        RC_ASSERT(found == said || found == rpc::Locate::kNeedMore);
        if (found != rpc::Locate::kFound) return;
        RC_ASSERT(place.offset <= bytes.size());
        RC_ASSERT(place.offset == whole.offset && place.length == whole.length);
      }));
}

TEST(LocateReadData, PlacedData_IsWhatTakeReturns) {
  BufferPool pool;
  const Slice sink = pool.slice(4096);
  std::copy(kData.begin(), kData.end(), sink.bytes.begin());
  rpc::Reply reply = received(read_reply(kData));
  reply.head.resize(reply.head.size() - kData.size());
  reply.placed = true;
  reply.bulk_length = kData.size();
  auto parsed = CompoundReply::parse(std::move(reply), sink, "READ", true);
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->placed());
  EXPECT_TRUE(parsed->expect<PUTFH4res>());
  const auto read = parsed->take<READ4res>();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->resok4.data.data(), sink.bytes.data());
  EXPECT_EQ(read->resok4.data.size(), kData.size());
}

// A wrapper keeps the BuildRef that it found in the request, and puts its own in the same place.
TEST(BuildRefTest, CopyRefersToTheCallable_NotToTheOriginal) {
  int first = 0, second = 0;
  auto build = [&](CompoundBuilder&) { ++first; };
  auto wrapper = [&](CompoundBuilder&) { ++second; };
  client::nfs4::BuildRef current = build;
  client::nfs4::BuildRef kept = current;
  current = wrapper;
  CompoundBuilder builder(kUser, "NOTHING");
  kept(builder);
  current(builder);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

}  // namespace
}  // namespace nfsrdma::test
