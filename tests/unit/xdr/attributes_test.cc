// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4/attributes.h"

#include <gtest/gtest.h>

namespace nfsrdma::nfs4 {
namespace {

ByteVector encoded(const fattr4& v) {
  ByteVector out;
  xdr::Encoder x(out);
  EXPECT_TRUE(x(v)) << x.failure();
  return out;
}

std::string failure_of(const ByteVector& wire) {
  xdr::Decoder x(wire);
  fattr4 v;
  return x(v) ? "" : x.failure();
}

fattr4 with(uint32_t number) {
  fattr4 v;
  v.attrmask.set(number);
  if (number == FATTR4_FS_STATUS) v.rare.edit().fs_status.fss_type = STATUS4_FIXED;
  return v;
}

// Offsets in the encoding of a single attribute of word 0.
constexpr size_t kLengthAt = 8;

TEST(Attributes, EveryNumber_HasAnEncodingOfItsOwn) {
  for (uint32_t number = 0; number < kAttributeCount; ++number) {
    const fattr4 v = with(number);
    const ByteVector wire = encoded(v);
    EXPECT_EQ(xdr::size_of(v), wire.size()) << attribute_name(number);
    const auto back = xdr::decode<fattr4>(wire, "fattr4");
    ASSERT_TRUE(back) << attribute_name(number) << ": " << describe(back.error());
    EXPECT_EQ(*back, v) << attribute_name(number);
    EXPECT_FALSE(attribute_name(number).empty());
  }
}

// RFC 8881 section 5 gives each attribute its type. These are the sizes of the types with a fixed one.
TEST(Attributes, FixedSizes_AreThoseOfTheirTypes) {
  const std::vector<std::pair<fattr4_number, size_t>> sizes = {{FATTR4_TYPE, 4},
                                                               {FATTR4_FH_EXPIRE_TYPE, 4},
                                                               {FATTR4_CHANGE, 8},
                                                               {FATTR4_SIZE, 8},
                                                               {FATTR4_LINK_SUPPORT, 4},
                                                               {FATTR4_FSID, 16},
                                                               {FATTR4_LEASE_TIME, 4},
                                                               {FATTR4_RDATTR_ERROR, 4},
                                                               {FATTR4_FILEID, 8},
                                                               {FATTR4_FILES_AVAIL, 8},
                                                               {FATTR4_MAXFILESIZE, 8},
                                                               {FATTR4_MAXLINK, 4},
                                                               {FATTR4_MAXNAME, 4},
                                                               {FATTR4_MAXREAD, 8},
                                                               {FATTR4_MODE, 4},
                                                               {FATTR4_NUMLINKS, 4},
                                                               {FATTR4_RAWDEV, 8},
                                                               {FATTR4_SPACE_USED, 8},
                                                               {FATTR4_TIME_ACCESS, 12},
                                                               {FATTR4_TIME_DELTA, 12},
                                                               {FATTR4_TIME_CREATE, 12},
                                                               {FATTR4_TIME_METADATA, 12},
                                                               {FATTR4_MOUNTED_ON_FILEID, 8},
                                                               {FATTR4_QUOTA_USED, 8},
                                                               {FATTR4_CHANGE_POLICY, 16},
                                                               {FATTR4_MODE_SET_MASKED, 8},
                                                               {FATTR4_LAYOUT_BLKSIZE, 4},
                                                               {FATTR4_RETENTION_HOLD, 8},
                                                               {FATTR4_FS_CHARSET_CAP, 4},
                                                               {FATTR4_CLONE_BLKSIZE, 4},
                                                               {FATTR4_SPACE_FREED, 8},
                                                               {FATTR4_CHANGE_ATTR_TYPE, 4},
                                                               {FATTR4_MODE_UMASK, 8},
                                                               {FATTR4_XATTR_SUPPORT, 4}};
  for (const auto& [number, size] : sizes) {
    const size_t words = number / 32 + 1;
    EXPECT_EQ(encoded(with(number)).size(), 4 + 4 * words + 4 + size) << attribute_name(number);
  }
}

TEST(Attributes, LengthShorterThanTheValues_Fails) {
  ByteVector wire = encoded(with(FATTR4_SIZE));
  store_be32(wire.data() + kLengthAt, 4);
  EXPECT_EQ(failure_of(wire), "attributes do not fill attr_vals");
}

TEST(Attributes, LengthLongerThanTheValues_Fails) {
  ByteVector wire = encoded(with(FATTR4_SIZE));
  store_be32(wire.data() + kLengthAt, 12);
  wire.resize(wire.size() + 4);
  EXPECT_EQ(failure_of(wire), "attributes do not fill attr_vals");
}

TEST(Attributes, LengthBeyondTheMessage_Fails) {
  ByteVector wire = encoded(with(FATTR4_SIZE));
  store_be32(wire.data() + kLengthAt, 0xffffffff);
  EXPECT_EQ(failure_of(wire), "truncated attributes");
}

TEST(Attributes, NumberThatIsNotKnown_FailsBothWays) {
  fattr4 v;
  v.attrmask.set(kAttributeCount);
  ByteVector out;
  xdr::Encoder e(out);
  EXPECT_FALSE(e(v));
  ByteVector wire;
  xdr::Encoder w(wire);
  EXPECT_TRUE(w(bitmap4::of({kAttributeCount})) && w(uint32_t{4}) && w(uint32_t{0}));
  EXPECT_EQ(failure_of(wire), "attribute without a known encoding");
  EXPECT_TRUE(attribute_name(kAttributeCount).empty());
}

TEST(Attributes, FileTypeOutsideOfTheEnum_Fails) {
  for (const uint32_t type : {0U, 10U, 0xffffffffU}) {
    ByteVector wire = encoded(with(FATTR4_TYPE));
    store_be32(wire.data() + kLengthAt + 4, type);
    EXPECT_EQ(failure_of(wire), "unknown nfs_ftype4") << type;
  }
}

TEST(Attributes, FsAttributes_LiveInTheirBox) {
  fattr4 v;
  v.attrmask = bitmap4::of({FATTR4_MAXREAD, FATTR4_LEASE_TIME, FATTR4_SUPPORTED_ATTRS, FATTR4_TIME_DELTA});
  v.fs.edit().maxread = 1 << 20;
  v.fs.edit().lease_time = 90;
  v.fs.edit().supported_attrs = bitmap4::of({0, 1, 75});
  v.fs.edit().time_delta = {0, 1};
  const auto back = xdr::decode<fattr4>(encoded(v), "fattr4");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->fs->maxread, 1048576U);
  EXPECT_EQ(back->fs->lease_time, 90U);
  EXPECT_TRUE(back->fs->supported_attrs.test(75));
  EXPECT_FALSE(back->rare);
}

TEST(Attributes, ObjectAttributes_AllocateNoBox) {
  fattr4 v;
  v.attrmask = bitmap4::of({FATTR4_TYPE, FATTR4_OWNER, FATTR4_TIME_MODIFY});
  v.type = NF4DIR;
  v.owner = "1000";
  const auto back = xdr::decode<fattr4>(encoded(v), "fattr4");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->owner, "1000");
  EXPECT_TRUE(back->has(FATTR4_TYPE));
  EXPECT_FALSE(back->has(FATTR4_MODE));
  EXPECT_FALSE(back->fs);
  EXPECT_FALSE(back->rare);
}

TEST(Attributes, RareAttributes_ComeBack) {
  fattr4 v;
  v.attrmask = bitmap4::of({FATTR4_ACL, FATTR4_FS_LOCATIONS, FATTR4_FS_LOCATIONS_INFO, FATTR4_MDSTHRESHOLD,
                            FATTR4_RETENTION_GET, FATTR4_RETENTEVT_SET, FATTR4_SEC_LABEL, FATTR4_FS_STATUS});
  rare_attributes4& rare = v.rare.edit();
  rare.acl = {{0, 0, ACE4_READ_DATA, "OWNER@"}, {1, ACE4_IDENTIFIER_GROUP, ACE4_WRITE_DATA, "staff@x"}};
  rare.fs_locations = {{"a", "b"}, {{{"host1", "host2"}, {"export"}}}};
  rare.fs_locations_info = {1, 60, {"r"}, {{{{-1, "info", "server"}}, {"root"}}}};
  rare.mdsthreshold = {{LAYOUT4_NFSV4_1_FILES, bitmap4::of({0, 2}), "12345678"}};
  rare.retention_get = {5, nfstime4{6, 7}};
  rare.retentevt_set = {true, 8};
  rare.sec_label = {1, 2, "label"};
  rare.fs_status = {true, STATUS4_REFERRAL, "source", "current", -3, {4, 5}};
  const ByteVector wire = encoded(v);
  EXPECT_EQ(xdr::size_of(v), wire.size());
  const auto back = xdr::decode<fattr4>(wire, "fattr4");
  ASSERT_TRUE(back) << describe(back.error());
  EXPECT_EQ(*back, v);
}

// A READDIR returns many of these, so an entry must not take much more memory than its content.
TEST(Attributes, Size_StaysSmallForReaddir) {
  EXPECT_LE(sizeof(fattr4), 512U);
}

}  // namespace
}  // namespace nfsrdma::nfs4
