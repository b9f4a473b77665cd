// SPDX-License-Identifier: Apache-2.0
// How an OPEN creates a file, and which attributes are left for a SETATTR.
#include "client/nfs4/ops/create_how.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace nfsrdma::client::nfs4 {
namespace {

const nfs4::verifier4 kVerifier = nfs4::verifier4::of(42);
constexpr uint32_t kMode = 0104640;

nfs4::bitmap4 bits(std::initializer_list<uint32_t> attributes) {
  nfs4::bitmap4 all;
  for (const uint32_t attribute : attributes) all.set(attribute);
  return all;
}

TEST(HowToCreate, WithoutExcl_SetsTheModeAndCutsAnExistingFile) {
  const auto how = how_to_create(O_RDWR | O_CREAT, kMode, {}, kVerifier);
  EXPECT_EQ(how.mode, nfs4::UNCHECKED4);
  EXPECT_EQ(how.createattrs.attrmask, bits({nfs4::FATTR4_MODE}));
  EXPECT_EQ(how.createattrs.mode, 04640u);
  const auto cutting = how_to_create(O_WRONLY | O_CREAT | O_TRUNC, kMode, {}, kVerifier);
  EXPECT_EQ(cutting.mode, nfs4::UNCHECKED4);
  EXPECT_EQ(cutting.createattrs.attrmask, bits({nfs4::FATTR4_MODE, nfs4::FATTR4_SIZE}));
  EXPECT_EQ(cutting.createattrs.size, 0u);
}

TEST(HowToCreate, WithExcl_SetsTheModeOnlyWhereTheServerCan) {
  for (const bool settable : {false, true}) {
    const auto server = settable ? bits({nfs4::FATTR4_MODE}) : bits({nfs4::FATTR4_OWNER});
    const auto how = how_to_create(O_RDWR | O_CREAT | O_EXCL | O_TRUNC, kMode, server, kVerifier);
    EXPECT_EQ(how.mode, nfs4::EXCLUSIVE4_1);
    EXPECT_EQ(how.createverf, kVerifier);
    EXPECT_EQ(how.createattrs.attrmask, settable ? bits({nfs4::FATTR4_MODE}) : bits({}));
  }
}

TEST(LeftToSet, WithoutExcl_IsNothing) {
  const auto how = how_to_create(O_RDWR | O_CREAT, kMode, {}, kVerifier);
  EXPECT_FALSE(left_to_set(how, {}, kMode).any());
  EXPECT_FALSE(left_to_set(how, bits({nfs4::FATTR4_TIME_ACCESS, nfs4::FATTR4_TIME_MODIFY}), kMode).any());
}

TEST(LeftToSet, WithExcl_IsTheModeUnlessItWasAskedForAndSet) {
  const nfs4::bitmap4 mode = bits({nfs4::FATTR4_MODE});
  const auto asked = how_to_create(O_CREAT | O_EXCL, kMode, mode, kVerifier);
  const auto not_asked = how_to_create(O_CREAT | O_EXCL, kMode, {}, kVerifier);
  EXPECT_FALSE(left_to_set(asked, mode, kMode).any());
  EXPECT_EQ(left_to_set(asked, {}, kMode).mode, 04640u);
  // The server kept the verifier in the mode.
  EXPECT_EQ(left_to_set(not_asked, mode, kMode).mode, 04640u);
}

TEST(LeftToSet, WithExcl_AreTheTimesThatHoldTheVerifier) {
  const nfs4::bitmap4 mode = bits({nfs4::FATTR4_MODE});
  const auto how = how_to_create(O_CREAT | O_EXCL, kMode, mode, kVerifier);
  for (const uint32_t access : {nfs4::FATTR4_TIME_ACCESS, nfs4::FATTR4_TIME_ACCESS_SET}) {
    const auto rest = left_to_set(how, bits({nfs4::FATTR4_MODE, access}), kMode);
    EXPECT_TRUE(rest.atime && rest.atime->now);
    EXPECT_FALSE(rest.mtime || rest.mode || rest.size);
  }
  for (const uint32_t modify : {nfs4::FATTR4_TIME_MODIFY, nfs4::FATTR4_TIME_MODIFY_SET}) {
    const auto rest = left_to_set(how, bits({nfs4::FATTR4_MODE, modify}), kMode);
    EXPECT_TRUE(rest.mtime && rest.mtime->now);
    EXPECT_FALSE(rest.atime || rest.mode || rest.size);
  }
}

TEST(Existed, OnlyIfTheDirectoryDidNotChange) {
  const auto unchecked = how_to_create(O_CREAT, kMode, {}, kVerifier);
  const auto exclusive = how_to_create(O_CREAT | O_EXCL, kMode, {}, kVerifier);
  EXPECT_TRUE(existed(unchecked, {.atomic = true, .before = 7, .after = 7}));
  EXPECT_FALSE(existed(unchecked, {.atomic = true, .before = 7, .after = 8}));
  EXPECT_FALSE(existed(unchecked, {.atomic = false, .before = 7, .after = 7}));
  EXPECT_FALSE(existed(exclusive, {.atomic = true, .before = 7, .after = 7}));
}

}  // namespace
}  // namespace nfsrdma::client::nfs4
