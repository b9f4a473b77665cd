// SPDX-License-Identifier: Apache-2.0
#include "xdr/support/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "xdr/nfs4_status.h"
#include "xdr/rpc.h"
#include "xdr/support/result.h"

namespace nfsrdma {
namespace {

TEST(Describe, NfsStatus_NamesOperationStatusAndErrno) {
  EXPECT_EQ(describe(nfs4::nfs_error(nfs4::NFS4ERR_ACCESS, "OPEN")),
            "OPEN: NFS4ERR_ACCESS: Permission denied");
}

TEST(Describe, Cause_StandsAtTheEnd) {
  EXPECT_EQ(describe(nfs4::nfs_error(nfs4::NFS4ERR_NOENT, "LOOKUP", "/export/home")),
            "LOOKUP: NFS4ERR_NOENT: No such file or directory: /export/home");
}

TEST(Describe, SystemError_HasNoStatus) {
  const Error error = system_error(ECONNREFUSED, "connect", "filer:2049");
  EXPECT_EQ(error.layer, Layer::kSystem);
  EXPECT_EQ(describe(error), "connect: Connection refused: filer:2049");
}

TEST(Describe, CauseThatQuotesTheSystem_IsSaidOnce) {
  EXPECT_EQ(describe(system_error(ECONNREFUSED, "connect", "127.0.0.1:2049: Connection refused")),
            "connect: 127.0.0.1:2049: Connection refused");
}

// errno has no code for a name without an address, for the reasons of fusermount3, or for a wrong flavor.
TEST(Describe, ErrnoThatStandsForAnotherCause_IsNotSaid) {
  const Error unknown{.layer = Layer::kTransport,
                      .recovery = Recovery::kPermanent,
                      .errnum = EHOSTUNREACH,
                      .op = "resolve",
                      .cause = "cannot find the address of host 'x': Name or service not known"};
  EXPECT_EQ(describe(unknown), "resolve: cannot find the address of host 'x': Name or service not known");
  EXPECT_EQ(describe(system_error(EPERM, "mount", "fusermount3: option allow_other only allowed if ...")),
            "mount: fusermount3: option allow_other only allowed if ...");
  EXPECT_EQ(describe(nfs4::nfs_error(nfs4::NFS4ERR_WRONGSEC, "LOOKUP", "the server wants sec=krb5")),
            "LOOKUP: NFS4ERR_WRONGSEC: the server wants sec=krb5");
}

TEST(Describe, RpcStatus_IsNamed) {
  rpc::reply_header reply;
  reply.accepted = rpc::PROG_UNAVAIL;
  const auto refused = rpc::check(reply, "NULL");
  ASSERT_FALSE(refused);
  EXPECT_EQ(describe(refused.error()), "NULL: PROG_UNAVAIL: Protocol not supported");
}

TEST(Describe, StatusOfOtherLayers_IsANumber) {
  Error error{.layer = Layer::kTransport,
              .recovery = Recovery::kReconnect,
              .errnum = ECONNRESET,
              .status = 4,
              .op = "send",
              .cause = ""};
  EXPECT_EQ(describe(error), "send: transport status 4: Connection reset by peer");
  error.errnum = 0;
  EXPECT_EQ(describe(error), "send: transport status 4");
}

TEST(Describe, ErrnoThatHasNoText_IsANumber) {
  EXPECT_EQ(describe(system_error(4095, "open")), "open: errno 4095");
}

TEST(Names, EveryLayerAndRecovery_HasOneOfItsOwn) {
  EXPECT_EQ(to_string(Layer::kXdr), "xdr");
  EXPECT_EQ(to_string(Layer::kSystem), "system");
  EXPECT_EQ(to_string(static_cast<Layer>(200)), "unknown layer");
  EXPECT_EQ(to_string(Recovery::kNewSession), "new session");
  EXPECT_EQ(to_string(Recovery::kInterrupted), "interrupted");
  EXPECT_EQ(to_string(static_cast<Recovery>(200)), "unknown recovery");
}

Result<int> twice(Result<> first) {
  NFSRDMA_TRY(first);
  return 2;
}

TEST(Try, Error_ReturnsAtOnce) {
  EXPECT_EQ(twice({}).value(), 2);
  const auto failed = twice(fail(system_error(EPERM, "x")));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errnum, EPERM);
}

}  // namespace
}  // namespace nfsrdma
