// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpcrdma/header.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/golden/hex.h"

namespace nfsrdma::rpcrdma {
namespace {

using golden::from_hex;
using golden::to_hex;

header decoded(ConstBytes message, Defect expected = Defect::kNone) {
  header h;
  size_t length = 0;
  EXPECT_EQ(decode(message, h, &length), expected);
  if (expected == Defect::kNone) {
    EXPECT_EQ(length, message.size());
  }
  return h;
}

// Headers that the Linux kernel's client and server (6.1) sent over RoCE, extracted from the capture by
// Wireshark 4.0, without the RPC messages that follow.
struct Captured {
  const char* what;
  const char* hex;
};
constexpr Captured kCaptured[] = {
    {"call, inline", "c762c39c 00000001 00000080 00000000 00000000 00000000 00000000"},
    {"call with a Reply chunk",
     "c862c39c 00000001 00000080 00000000 00000000 00000000 00000001 00000001"
     "00000c70 00001090 c862c39c046e2000"},
    {"reply in the Reply chunk",
     "c862c39c 00000001 00000040 00000001 00000000 00000000 00000001 00000001"
     "00000c70 0000006c c862c39c046e2000"},
    {"call with a Read chunk of two segments",
     "dd62c39c 00000001 00000080 00000000 00000001 000000bc 0000099b 00020000 dd62c39c035f6000"
     "00000001 000000bc 000008c9 00020000 dd62c39c04c9a000 00000000 00000000 00000000"},
    {"call with a Reply chunk of three segments",
     "e162c39c 00000001 00000080 00000000 00000000 00000000 00000001 00000003"
     "00000756 00000068 e162c39c0489a000 00000604 0000ffa8 e162c39c02601058 000005ac 00000004 "
     "e162c39c0489a068"},
    {"call with a Write chunk",
     "21c41139 00000001 00000080 00000000 00000000 00000001 00000002 000016b7 00020000 21c4113904d74000"
     "00001576 00020000 21c4113904cad000 00000000 00000000"},
};

TEST(RpcRdmaHeader, CapturedOnes_AreUnderstoodAndEncodedAlike) {
  for (const Captured& c : kCaptured) {
    SCOPED_TRACE(c.what);
    const ByteVector bytes = from_hex(c.hex);
    header h;
    size_t length = 0;
    ASSERT_EQ(decode(bytes, h, &length), Defect::kNone);
    ByteVector again;
    ASSERT_TRUE(encode(again, h));
    EXPECT_EQ(to_hex(again), to_hex(ConstBytes(bytes).first(length)));
    EXPECT_EQ(encoded_bytes(h), length);
  }
}

TEST(RpcRdmaHeader, CapturedReadList_HasTwoSegmentsOfOnePosition) {
  const header h = decoded(from_hex(kCaptured[3].hex));
  EXPECT_EQ(h.xid, 0xdd62c39c);
  EXPECT_EQ(h.credit, 128U);
  ASSERT_EQ(h.chunks.reads.size(), 2U);
  EXPECT_EQ(h.chunks.reads[0], (read_segment{0xbc, {0x99b, 0x20000, 0xdd62c39c035f6000}}));
  EXPECT_EQ(h.chunks.reads[1], (read_segment{0xbc, {0x8c9, 0x20000, 0xdd62c39c04c9a000}}));
  EXPECT_TRUE(h.chunks.writes.empty());
  EXPECT_FALSE(h.chunks.has_reply);
}

TEST(RpcRdmaHeader, CapturedWriteList_HasOneChunkOfTwoSegments) {
  const header h = decoded(from_hex(kCaptured[5].hex));
  ASSERT_EQ(h.chunks.writes.size(), 1U);
  ASSERT_EQ(h.chunks.writes[0].size(), 2U);
  EXPECT_EQ(h.chunks.writes[0][1], (segment{0x1576, 0x20000, 0x21c4113904cad000}));
  EXPECT_EQ(chunk_bytes(h.chunks.writes[0]), 0x40000U);
}

// RFC 8166 section 4.2: "xid, vers, credit, proc"; three absent lists: 28 bytes.
TEST(RpcRdmaHeader, Version1Message_HasSevenWords) {
  header h;
  h.xid = 0x01020304;
  h.credit = 32;
  ByteVector out;
  ASSERT_TRUE(encode(out, h));
  EXPECT_EQ(to_hex(out), "01020304 00000001 00000020 00000000 00000000 00000000 00000000");
}

// v2 sections 3.2 and 5.2: flags follow the four fixed words, then the handle that may be invalidated.
TEST(RpcRdmaHeader, Version2Message_HasNineWords) {
  header h;
  h.xid = 0x01020304;
  h.vers = kVersion2;
  h.credit = 32;
  h.inv_handle = 0xabcd;
  ByteVector out;
  ASSERT_TRUE(encode(out, h));
  EXPECT_EQ(to_hex(out), "01020304 00000002 00000020 00000000 00000000 0000abcd 00000000 00000000 00000000");
  EXPECT_EQ(decoded(out).inv_handle, 0xabcdU);
}

TEST(RpcRdmaHeader, ChunksOfBothVersions_AreEncodedAlike) {
  header h;
  h.chunks.reads = {{0, {1, 2, 3}}, {128, {4, 5, 6}}};
  const segment two[] = {{7, 8, 9}, {10, 11, 0x100000000}};
  h.chunks.writes.add(two);
  h.chunks.writes.add({});
  h.chunks.has_reply = true;
  h.chunks.reply = {{13, 14, 15}};
  ByteVector v1;
  ASSERT_TRUE(encode(v1, h));
  h.vers = kVersion2;
  ByteVector v2;
  ASSERT_TRUE(encode(v2, h));
  EXPECT_EQ(to_hex(ConstBytes(v1).subspan(16)), to_hex(ConstBytes(v2).subspan(24)));
  EXPECT_EQ(decoded(v1).chunks, h.chunks);
  EXPECT_EQ(decoded(v2).chunks, h.chunks);
}

struct ErrorCase {
  uint32_t vers;
  error e;
  const char* words;  // after xid, vers, credit, type
};
const ErrorCase kErrors[] = {
    {kVersion1, {ERR_VERS, 1, 1}, "00000001 00000001 00000001"},
    {kVersion1, {ERR_CHUNK, 0, 0}, "00000002"},
    {kVersion2,
     {ERR_VERS, 1, 2},
     "00000001 00000001 00000002"},  // RFC 8166 section 7: fixed for all versions
    {kVersion2, {RDMA2_ERR_BAD_XDR, 0, 0}, "00000001 00000002"},
    {kVersion2, {RDMA2_ERR_INVAL_HTYPE, 0, 0}, "00000001 00000003"},
    {kVersion2, {RDMA2_ERR_READ_CHUNKS, 1, 0}, "00000001 00000004 00000001"},
    {kVersion2, {RDMA2_ERR_WRITE_CHUNKS, 7, 0}, "00000001 00000005 00000007"},
    {kVersion2, {RDMA2_ERR_SEGMENTS, 16, 0}, "00000001 00000006 00000010"},
    {kVersion2, {RDMA2_ERR_WRITE_RESOURCE, 1, 4096}, "00000001 00000007 00000001 00001000"},
    {kVersion2, {RDMA2_ERR_REPLY_RESOURCE, 4096, 0}, "00000001 00000008 00001000"},
    {kVersion2, {RDMA2_ERR_SYSTEM, 0, 0}, "00000001 00000009"},
};

TEST(RpcRdmaHeader, Errors_HaveTheirWords) {
  for (const ErrorCase& c : kErrors) {
    SCOPED_TRACE(c.words);
    header h;
    h.xid = 5;
    h.vers = c.vers;
    h.credit = 9;
    h.type = RDMA_ERROR;
    h.flags = c.vers == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
    h.error = c.e;
    ByteVector out;
    ASSERT_TRUE(encode(out, h));
    EXPECT_EQ(to_hex(ConstBytes(out).subspan(16)), c.words);
    EXPECT_EQ(encoded_bytes(h), out.size());
    EXPECT_EQ(decoded(out).error, c.e);
  }
}

// RFC 8166 section 4.5: ERR_VERS repeats the version of the failed request; other messages carry their own.
TEST(RpcRdmaHeader, ErrVersOfAnyVersion_IsUnderstood) {
  for (const char* vers : {"00000001", "00000002", "00000003", "ffffffff"}) {
    const header h =
        decoded(from_hex(std::string("00000005 ") + vers + " 00000020 00000004 00000001 00000001 00000001"));
    EXPECT_EQ(h.type, RDMA_ERROR);
    EXPECT_EQ(h.error, (error{ERR_VERS, 1, 1}));
  }
}

TEST(RpcRdmaHeader, ErrVersWithFlags_IsUnderstood) {
  const header h =
      decoded(from_hex("00000005 00000002 00000020 00000004 00000001 00000001 00000001 00000002"));
  EXPECT_EQ(h.error, (error{ERR_VERS, 1, 2}));
}

TEST(RpcRdmaHeader, UnknownError_HasNoWords) {
  EXPECT_EQ(decoded(from_hex("00000005 00000002 00000020 00000004 00000001 00000063")).error.code, 0x63U);
}

// draft-ietf-nfsv4-rpcrdma-version-two-07 uses version 2 for another protocol.
TEST(RpcRdmaHeader, OtherDraftOfVersion2_IsRecognised) {
  decoded(from_hex("00000005 00000002 00000020 00000006 00000000"), Defect::kForeign);
  decoded(from_hex("00000005 00000002 00000020 0000000d 00000000"), Defect::kForeign);
  decoded(from_hex("00000005 00000002 00000020 00000004 00000004"), Defect::kForeign);
}

TEST(RpcRdmaHeader, ObsoleteAndUnknownTypes_AreToldApartFromMalformedOnes) {
  for (const char* type : {"00000002", "00000003", "00000005", "000000ff"})
    decoded(from_hex(std::string("00000005 00000001 00000020 ") + type), Defect::kType);
  for (const char* type : {"00000002", "00000003", "000000ff"})
    decoded(from_hex(std::string("00000005 00000002 00000020 ") + type + " 00000000"), Defect::kType);
  header h;
  h.type = RDMA_DONE;
  ByteVector out;
  EXPECT_FALSE(encode(out, h));
  h.type = RDMA2_CONNPROP;
  EXPECT_FALSE(encode(out, h));
}

TEST(RpcRdmaHeader, UnknownVersion_GivesItsPrefixOnly) {
  const header h = decoded(from_hex("00000005 00000003 00000020 00000000 00000000"), Defect::kVersion);
  EXPECT_EQ(h.xid, 5U);
  EXPECT_EQ(h.vers, 3U);
}

// Each list, error and property is cut at every byte: no prefix decodes as the whole message.
TEST(RpcRdmaHeader, CutAnywhere_IsADefect) {
  std::vector<ByteVector> messages;
  for (const Captured& c : kCaptured) {
    ByteVector bytes = from_hex(c.hex);
    header h;
    size_t length = 0;
    ASSERT_EQ(decode(bytes, h, &length), Defect::kNone);
    bytes.resize(length);
    messages.push_back(bytes);
  }
  header props;
  props.vers = kVersion2;
  props.type = RDMA2_CONNPROP;
  messages.emplace_back();
  ASSERT_TRUE(encode(messages.back(), props));
  for (const ByteVector& whole : messages) {
    for (size_t n = 0; n < whole.size(); ++n) {
      const ByteVector cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
      header h;
      size_t length = 0;
      const Defect defect = decode(cut, h, &length);
      EXPECT_EQ(defect, n < kPrefixBytes ? Defect::kShort : Defect::kXdr) << n << " of " << whole.size();
    }
  }
}

// A count of segments that does not fit in the message is refused before memory is allocated for it.
TEST(RpcRdmaHeader, ClaimedSegments_CostNothing) {
  header h;
  size_t length = 0;
  EXPECT_EQ(
      decode(from_hex("00000005 00000001 00000020 00000000 00000000 00000001 ffffffff 00000000"), h, &length),
      Defect::kXdr);
  EXPECT_EQ(
      decode(from_hex("00000005 00000001 00000020 00000000 00000000 00000000 00000001 0fffffff"), h, &length),
      Defect::kXdr);
  EXPECT_EQ(
      decode(from_hex("00000005 00000002 00000020 00000005 00000000 ffffffff 00000001 00000000"), h, &length),
      Defect::kXdr);
}

// RFC 4506 section 4.4: a bool is 0 or 1.
TEST(RpcRdmaHeader, ListThatGoesOnWithTwo_IsADefect) {
  decoded(from_hex("00000005 00000001 00000020 00000000 00000002 00000000 00000000"), Defect::kXdr);
}

// --- properties, v2 section 4

header connprop(std::string_view words) {
  return decoded(from_hex("00000005 00000002 00000020 00000005 00000000 " + std::string(words)));
}

TEST(RpcRdmaProperties, BothKnownOnes_AreEncodedAndUnderstood) {
  header h;
  h.vers = kVersion2;
  h.type = RDMA2_CONNPROP;
  h.properties = {16384, RDMA2_RVREQSUP_GENL};
  ByteVector out;
  ASSERT_TRUE(encode(out, h));
  EXPECT_EQ(to_hex(ConstBytes(out).subspan(20)),
            "00000002 00000001 00000004 00004000 00000002 00000004 00000002");
  EXPECT_EQ(decoded(out).properties, h.properties);
}

// "If the length of the property value is zero, this indicates that the default value applies."
TEST(RpcRdmaProperties, EmptyAndAbsentOnes_HaveTheirDefaults) {
  EXPECT_EQ(connprop("00000000").properties, (properties{4096, RDMA2_RVREQSUP_INLINE}));
  EXPECT_EQ(connprop("00000002 00000001 00000000 00000002 00000000").properties, properties{});
}

TEST(RpcRdmaProperties, UnknownOnes_AreIgnored) {
  const header h = connprop("00000002 00000063 00000005 01020304 05000000 00000001 00000004 00002000");
  EXPECT_EQ(h.properties.receive_buffer_bytes, 8192U);
}

TEST(RpcRdmaProperties, MalformedOnes_AreDefects) {
  for (const char* words : {
           "00000001 00000001 00000003 00000000",           // too short
           "00000001 00000001 00000008 00000000 00000000",  // too long
           "00000001 00000002 00000004 00000003",           // no such level
           "00000001 00000001 00001001 00000000",           // longer than the message
           "00000002 00000001 00000004 00001000",           // the second property is missing
       }) {
    SCOPED_TRACE(words);
    decoded(from_hex("00000005 00000002 00000020 00000005 00000000 " + std::string(words)), Defect::kXdr);
  }
}

// A header object that is reused shows nothing of the last message.
TEST(RpcRdmaHeader, DecodedAgain_ForgetsTheLast) {
  header h;
  size_t length = 0;
  ASSERT_EQ(decode(from_hex(kCaptured[3].hex), h, &length), Defect::kNone);
  ASSERT_EQ(decode(from_hex(kCaptured[0].hex), h, &length), Defect::kNone);
  EXPECT_TRUE(h.chunks.empty());
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
