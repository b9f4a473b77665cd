// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/ladder.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "cli/options/options.h"
#include "transport/tls/failure.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::cli {
namespace {

using client::TransportKind;

MountOptions options(const std::string& list) {
  std::vector<OptionLayer> layers;
  const auto items = split_options(list);
  for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
  auto parsed = parse_options(layers, false);
  EXPECT_TRUE(parsed) << list;
  EXPECT_TRUE(check_options(*parsed, *parse_source("srv:/e"))) << list;
  return parsed->values;
}

const Error kRefused{.layer = Layer::kTransport,
                     .recovery = Recovery::kReconnect,
                     .errnum = ECONNREFUSED,
                     .op = "connect",
                     .cause = "10.0.0.1:20049: refused"};
const Error kNoVersion4{.layer = Layer::kRpc,
                        .recovery = Recovery::kPermanent,
                        .errnum = EPROTONOSUPPORT,
                        .op = "EXCHANGE_ID",
                        .cause = "PROG_MISMATCH"};
const Error kNoSuchExport{.layer = Layer::kNfs,
                          .recovery = Recovery::kPermanent,
                          .errnum = ENOENT,
                          .status = 2,
                          .op = "LOOKUP",
                          .cause = ""};

client::ClientOptions next(const Ladder& ladder) {
  return ladder.client_options(*parse_source("srv:/e"), false);
}

TEST(Ladder, NothingAskedFor_BeginsWithRdmaAndGoesDown) {
  const std::string no_device = "this machine has no RDMA device";
  Ladder ladder(options(""), no_device);
  EXPECT_EQ(ladder.announcement(), no_device + "; trying software RDMA");
  EXPECT_EQ(next(ladder).transport, TransportKind::kSoftwareRdma);
  EXPECT_EQ(next(ladder).port, 20049);
  EXPECT_EQ(next(ladder).rdma_first_connect_timeout, Ladder::kRdmaPatience);
  EXPECT_EQ(ladder.notice(), "");
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_EQ(next(ladder).transport, TransportKind::kTcp);
  EXPECT_EQ(next(ladder).port, 2049);
  EXPECT_EQ(ladder.announcement(), describe(kRefused) + "; trying TCP");
  const std::string no_rdma = "no RDMA (" + no_device + "; software RDMA: " + describe(kRefused) + ")";
  EXPECT_EQ(ladder.notice(), no_rdma);
  EXPECT_EQ(ladder.warning(), "");
  ASSERT_TRUE(ladder.step_down(kNoVersion4));
  EXPECT_EQ(ladder.options().major_version, 3u);
  EXPECT_TRUE(ladder.options().local_flock && ladder.options().local_posix_locks);
  EXPECT_EQ(ladder.options().port, 2049) << "it answered there";
  EXPECT_EQ(ladder.announcement(), describe(kNoVersion4) + "; trying NFS version 3");
  EXPECT_EQ(ladder.warning(), "the server has no NFS version 4.1 (" + describe(kNoVersion4) +
                                  "); with NFS version 3 locks exclude programs of this machine only");
  EXPECT_EQ(ladder.notice(), no_rdma + "; " + ladder.warning());
  EXPECT_FALSE(ladder.step_down(kNoVersion4)) << "there is no further rung";
}

const Error kNoDeviceThere{.layer = Layer::kTransport,
                           .recovery = Recovery::kReconnect,
                           .errnum = ENODEV,
                           .op = "connect",
                           .cause = "10.0.0.1:20049: none"};

TEST(Ladder, DeviceOfThisMachine_IsTriedBeforeSoftware_AndTheReasonIsKept) {
  Ladder ladder(options(""), "");
  EXPECT_EQ(next(ladder).transport, TransportKind::kRdmaDevice);
  EXPECT_EQ(next(ladder).port, 20049);
  EXPECT_EQ(next(ladder).rdma_first_connect_timeout, Ladder::kRdmaPatience);
  ASSERT_TRUE(ladder.step_down(kNoDeviceThere));
  EXPECT_EQ(ladder.announcement(), describe(kNoDeviceThere) + "; trying software RDMA");
  EXPECT_EQ(next(ladder).transport, TransportKind::kSoftwareRdma);
  EXPECT_EQ(next(ladder).fabric_reason, describe(kNoDeviceThere));
  EXPECT_EQ(ladder.notice(), "") << "it is RDMA";
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_EQ(next(ladder).transport, TransportKind::kTcp);
  EXPECT_EQ(ladder.notice(),
            "no RDMA (" + describe(kNoDeviceThere) + "; software RDMA: " + describe(kRefused) + ")");
}

TEST(Ladder, MachineWithoutDevice_SaysSo) {
  Ladder ladder(options(""), "this machine has no RDMA device");
  EXPECT_EQ(next(ladder).transport, TransportKind::kSoftwareRdma);
  EXPECT_EQ(next(ladder).fabric_reason, "this machine has no RDMA device");
}

TEST(Ladder, DeviceAskedFor_IsTheOnlyRdma) {
  Ladder named(options("rdma_dev=mlx5_0:2,gid_index=3,poll_us=20"), "this machine has no RDMA device");
  EXPECT_EQ(next(named).transport, TransportKind::kRdmaDevice);
  EXPECT_EQ(next(named).verbs.device, "mlx5_0");
  EXPECT_EQ(next(named).verbs.port, 2u);
  EXPECT_EQ(next(named).verbs.gid_index, 3u);
  EXPECT_EQ(next(named).verbs.poll, std::chrono::microseconds(20));
  ASSERT_TRUE(named.step_down(kNoDeviceThere));
  EXPECT_EQ(next(named).transport, TransportKind::kTcp);
  Ladder only(options("proto=rdma,rdma_dev=mlx5_0"), "");
  EXPECT_FALSE(only.step_down(kNoDeviceThere));
  Ladder software(options("rdma_dev=software"), "");
  EXPECT_EQ(next(software).transport, TransportKind::kSoftwareRdma);
  EXPECT_EQ(next(software).fabric_reason, "") << "it was asked for";
  EXPECT_EQ(software.announcement(), "");
  ASSERT_TRUE(software.step_down(kRefused));
  EXPECT_EQ(software.notice(), "no RDMA (" + describe(kRefused) + ")");
  EXPECT_EQ(next(software).verbs.device, "");
}

TEST(Ladder, ServerWithoutVersion4OverADevice_IsNotAskedInSoftware) {
  Ladder ladder(options(""), "");
  ASSERT_TRUE(ladder.step_down(kNoVersion4));
  EXPECT_EQ(next(ladder).transport, TransportKind::kTcp);
  Ladder rdma(options("proto=rdma"), "");
  EXPECT_FALSE(rdma.step_down(kNoVersion4));
  Ladder lost(options("proto=rdma"), "");
  EXPECT_TRUE(lost.step_down(kRefused)) << "software RDMA is RDMA, too";
}

TEST(Ladder, RungThatWasAskedFor_IsNotLeft) {
  const auto stays = [](const char* list, const Error& why) {
    Ladder ladder(options(list));
    return !ladder.step_down(why) && ladder.notice().empty();
  };
  EXPECT_TRUE(stays("proto=rdma", kRefused));
  EXPECT_TRUE(stays("proto=rdma", kNoVersion4)) << "NFSv3 goes over TCP";
  EXPECT_TRUE(stays("proto=tcp", kRefused));
  EXPECT_TRUE(stays("proto=tcp,vers=4.1", kNoVersion4));
  EXPECT_TRUE(stays("port=99", kRefused));
  EXPECT_FALSE(stays("proto=tcp", kNoVersion4)) << "no version was asked for";
  Ladder three(options("vers=3"));
  EXPECT_FALSE(three.step_down(kRefused));
  EXPECT_EQ(three.notice(), "with NFS version 3 locks exclude programs of this machine only");
  EXPECT_EQ(next(Ladder(options("proto=rdma"))).rdma_first_connect_timeout,
            client::ClientOptions{}.rdma_first_connect_timeout)
      << "there is nothing else to turn to";
}

TEST(Ladder, WhatTheServerSaysOverRdma_IsTheMountsError) {
  const Error unknown{.layer = Layer::kTransport,
                      .recovery = Recovery::kPermanent,
                      .errnum = ENOENT,
                      .op = "resolve",
                      .cause = "no such host"};
  const Error cancelled{.layer = Layer::kTransport,
                        .recovery = Recovery::kInterrupted,
                        .errnum = EINTR,
                        .op = "connect",
                        .cause = "cancelled"};
  for (const Error& why : {kNoSuchExport, unknown, cancelled}) {
    Ladder ladder(options(""));
    EXPECT_FALSE(ladder.step_down(why)) << describe(why);
    EXPECT_EQ(ladder.verdict(why).op, why.op);
  }
  // A server may have NFSv4.1 over TCP and only an older version over RDMA.
  Ladder ladder(options(""));
  EXPECT_TRUE(ladder.step_down(kNoVersion4));
  EXPECT_EQ(next(ladder).transport, TransportKind::kTcp);
  const Error neither{.layer = Layer::kTransport,
                      .recovery = Recovery::kPermanent,
                      .errnum = EPROTONOSUPPORT,
                      .op = "connect",
                      .cause = "neither"};
  Ladder other(options("vers=4.1"));
  EXPECT_TRUE(other.step_down(neither)) << "no common version of RPC-over-RDMA";
  EXPECT_FALSE(other.step_down(neither)) << "over TCP that is no answer about NFS";
}

// A server that is starting: after a pause RDMA is tried again, and nothing is logged twice.
TEST(Ladder, AfterAPause_BeginsAgainAndSaysNothingTwice) {
  Ladder ladder(options("vers=4.1"));
  const auto memory = next(ladder).rdma_memory;
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_NE(ladder.announcement(), "");
  EXPECT_FALSE(ladder.step_down(kRefused)) << "TCP refuses, too";
  ladder.begin_again();
  EXPECT_EQ(next(ladder).transport, TransportKind::kSoftwareRdma);
  EXPECT_EQ(next(ladder).rdma_memory, memory) << "what is known of the server's versions stays known";
  EXPECT_EQ(ladder.notice(), "");
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_EQ(ladder.announcement(), "");
  EXPECT_NE(ladder.notice(), "");
}

TEST(Ladder, FailureOfVersionThree_NamesWhatWasWrongAtFirst) {
  Ladder ladder(options("proto=tcp"));
  ASSERT_TRUE(ladder.step_down(kNoVersion4));
  ladder.begin_again();
  EXPECT_EQ(ladder.options().major_version, 3u) << "a server's version does not come with time";
  const Error verdict = ladder.verdict(kRefused);
  EXPECT_EQ(verdict.errnum, EPROTONOSUPPORT);
  EXPECT_EQ(verdict.cause, "PROG_MISMATCH; with NFS version 3: " + describe(kRefused));
}

// retry= and bg depend on whether the failure is passing. This is decided by version 3's failure.
TEST(Ladder, FailureOfVersionThree_IsAsPassingAsItIs) {
  Ladder ladder(options("proto=tcp"));
  ASSERT_TRUE(ladder.step_down(kNoVersion4));
  EXPECT_EQ(ladder.verdict(kRefused).recovery, Recovery::kReconnect);
  EXPECT_EQ(ladder.verdict(kNoSuchExport).recovery, Recovery::kPermanent);
}

// mount(8) passes the options of fstab to a remount, which compares them with the options shown.
TEST(Ladder, RdmaVersion_StaysShownOverTcp) {
  Ladder ladder(options("rdmavers=1"));
  EXPECT_EQ(next(ladder).rdma_versions, rdma::Versions::kOnly1);
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_EQ(ladder.options().rdma_version, 1u);
}

// What ExportFinder leaves when the server has refused the flavor.
const Error kWrongSecurity{.layer = Layer::kNfs,
                           .recovery = Recovery::kPermanent,
                           .errnum = EPERM,
                           .status = nfs4::NFS4ERR_WRONGSEC,
                           .op = "LOOKUP",
                           .cause = ""};

const Error kNoTls{.layer = Layer::kSecurity,
                   .recovery = Recovery::kPermanent,
                   .errnum = EACCES,
                   .status = tls::kNoTlsOffered,
                   .op = "TLS",
                   .cause = "the server does not offer TLS"};

TEST(Ladder, MountThatMustUseTls_HasNoOtherWay) {
  Ladder ladder(options("xprtsec=tls,tls_ca=/ca.pem"), "");
  EXPECT_EQ(next(ladder).transport, TransportKind::kTcp);
  ASSERT_TRUE(next(ladder).tls);
  EXPECT_EQ(next(ladder).tls->trust, "/ca.pem");
  EXPECT_FALSE(ladder.step_down(kNoTls));
  EXPECT_FALSE(next(Ladder(options("proto=tcp"))).tls);
}

TEST(Ladder, MountThatMayUseTls_LeavesItOnlyWhereNoneIsOffered) {
  Ladder ladder(options("proto=tcp,xprtsec=auto"));
  EXPECT_TRUE(next(ladder).tls);
  Error untrusted = kNoTls;
  untrusted.status = 0;
  EXPECT_FALSE(ladder.step_down(untrusted)) << "a certificate that is not accepted";
  EXPECT_TRUE(next(ladder).tls);
  EXPECT_TRUE(ladder.step_down(kNoTls));
  EXPECT_FALSE(next(ladder).tls);
  EXPECT_EQ(ladder.announcement(), "TLS: the server does not offer TLS; going on without it");
  EXPECT_EQ(ladder.options().xprtsec, TransportSecurity::kNone) << "what status shows";
}

TEST(Ladder, FlavorThatTheServerRefuses_GivesWayToOneThatItOffers) {
  using client::SecurityFlavor;
  Ladder ladder(options("proto=tcp"));
  EXPECT_EQ(next(ladder).flavor, SecurityFlavor::kSys);
  next(ladder).offered_flavors->set({SecurityFlavor::kKrb5p, SecurityFlavor::kKrb5});
  ASSERT_TRUE(ladder.step_down(kWrongSecurity));
  EXPECT_EQ(next(ladder).flavor, SecurityFlavor::kKrb5p);
  EXPECT_EQ(ladder.announcement(), "the server does not accept sec=sys; trying sec=krb5p");
  // Once: what the server offers and refuses all the same is an error.
  next(ladder).offered_flavors->set({SecurityFlavor::kKrb5});
  EXPECT_FALSE(ladder.step_down(kWrongSecurity));
}

TEST(Ladder, AnotherFlavor_IsAnnouncedOnce_AndLaterRungsWithTheirReasons) {
  Ladder ladder(options(""), "");
  next(ladder).offered_flavors->set({client::SecurityFlavor::kKrb5});
  ASSERT_TRUE(ladder.step_down(kWrongSecurity));
  EXPECT_EQ(ladder.announcement(), "the server does not accept sec=sys; trying sec=krb5");
  EXPECT_EQ(ladder.announcement(), "");
  ASSERT_TRUE(ladder.step_down(kNoDeviceThere));
  EXPECT_EQ(ladder.announcement(), describe(kNoDeviceThere) + "; trying software RDMA");
  ASSERT_TRUE(ladder.step_down(kRefused));
  EXPECT_EQ(ladder.announcement(), describe(kRefused) + "; trying TCP");
  ASSERT_TRUE(ladder.step_down(kNoVersion4));
  EXPECT_EQ(ladder.announcement(), describe(kNoVersion4) + "; trying NFS version 3");
}

TEST(Ladder, FlavorsAskedFor_AreTheOnlyOnes) {
  using client::SecurityFlavor;
  Ladder ladder(options("proto=tcp,sec=krb5p:krb5i"));
  EXPECT_EQ(next(ladder).flavor, SecurityFlavor::kKrb5p);
  next(ladder).offered_flavors->set({SecurityFlavor::kSys, SecurityFlavor::kKrb5});
  EXPECT_FALSE(ladder.step_down(kWrongSecurity));
  next(ladder).offered_flavors->set({SecurityFlavor::kSys, SecurityFlavor::kKrb5i});
  EXPECT_TRUE(ladder.step_down(kWrongSecurity));
  EXPECT_EQ(next(ladder).flavor, SecurityFlavor::kKrb5i);
  // NFSv3 would be spoken with sec=sys, which was not asked for.
  EXPECT_FALSE(ladder.step_down(kNoVersion4));
}

}  // namespace
}  // namespace nfsrdma::cli
