// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <gtest/gtest.h>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;

std::vector<OptionLayer> layers(std::string_view list, OptionOrigin origin = OptionOrigin::kCommandLine) {
  std::vector<OptionLayer> out;
  const auto items = split_options(list);
  for (const RawOption& item : *items) out.push_back({origin, {}, item});
  return out;
}

Outcome<ParsedOptions> parse(std::string_view list, bool sloppy = false) {
  return parse_options(layers(list), sloppy);
}

MountOptions options(std::string_view list) {
  const auto parsed = parse(list);
  EXPECT_TRUE(parsed) << list << ": " << parsed.error().text;
  return parsed ? parsed->values : MountOptions{};
}

std::string error_of(std::string_view list) {
  const auto parsed = parse(list);
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.error().exit_code, 1) << list;
  return parsed.error().text;
}

Outcome<ParsedOptions> checked(std::string_view list, std::string_view source) {
  auto parsed = parse(list);
  if (!parsed) return parsed;
  if (auto done = check_options(*parsed, *parse_source(source)); !done) return tl::unexpected(done.error());
  return parsed;
}

TEST(Options, NothingGiven_AreTheDefaultsOfNfs5) {
  const MountOptions o = options("");
  EXPECT_EQ(o.on_timeout, OnTimeout::kHard);
  EXPECT_EQ(o.timeo, 60s);
  EXPECT_EQ(o.retrans, 2u);
  EXPECT_EQ(o.retry_time(), 2min);
  EXPECT_EQ(o.acregmin, 3s);
  EXPECT_EQ(o.acregmax, 60s);
  EXPECT_EQ(o.acdirmin, 30s);
  EXPECT_EQ(o.acdirmax, 60s);
  EXPECT_EQ(o.lookup_cache, LookupCache::kAll);
  EXPECT_TRUE(o.close_to_open);
  EXPECT_FALSE(o.rsize);
  EXPECT_FALSE(o.dev);
  EXPECT_FALSE(o.suid);
}

TEST(Options, Units_AreThoseOfNfs5) {
  EXPECT_EQ(options("timeo=5").timeo, 500ms);
  EXPECT_EQ(options("timeo=9999").timeo, 600s);
  EXPECT_EQ(options("retry=7").retry_time(), 7min);
  EXPECT_EQ(options("bg").retry_time(), 10'000min);
  EXPECT_EQ(options("bg,retry=0").retry_time(), 0min);
  EXPECT_EQ(options("acregmin=7").acregmin, 7s);
}

// nfs(5): "Specified rsize values lower than 1024 are replaced with 4096; values larger than 1048576 are
// replaced with 1048576. If a specified value is within the supported range but not a multiple of 1024, it is
// rounded down to the nearest multiple of 1024."
TEST(Options, TransferSizes_AreRoundedAsNfs5Says) {
  EXPECT_EQ(options("rsize=1").rsize, 4096u);
  EXPECT_EQ(options("rsize=1023").rsize, 4096u);
  EXPECT_EQ(options("rsize=1024").rsize, 1024u);
  EXPECT_EQ(options("rsize=5000").rsize, 4096u);
  EXPECT_EQ(options("wsize=1048576").wsize, 1048576u);
  EXPECT_EQ(options("wsize=1048577").wsize, 1048576u);
  EXPECT_EQ(options("wsize=4294967295").wsize, 1048576u);
  EXPECT_EQ(options("rsize=32k").rsize, 32768u);
  EXPECT_EQ(options("rsize=1M").rsize, 1048576u);
  EXPECT_FALSE(options("rsize=0").rsize);
  EXPECT_NE(error_of("rsize=4294967296"), "accepted");
  EXPECT_NE(error_of("rsize=4096m"), "accepted");
  EXPECT_NE(error_of("rsize=k"), "accepted");
  EXPECT_NE(error_of("rsize=1kk"), "accepted");
}

// nfs(5): "Using actimeo sets all of acregmin, acregmax, acdirmin, and acdirmax to the same value."
TEST(Options, Actimeo_SetsAllFour) {
  const MountOptions o = options("acregmin=1,actimeo=9,acdirmax=20");
  EXPECT_EQ(o.acregmin, 9s);
  EXPECT_EQ(o.acregmax, 9s);
  EXPECT_EQ(o.acdirmin, 9s);
  EXPECT_EQ(o.acdirmax, 20s);
}

// nfs(5): "the noac option forces application writes to become synchronous"
TEST(Options, Noac_MakesWritesSynchronous) {
  EXPECT_FALSE(options("").synchronous_writes());
  EXPECT_TRUE(options("noac,async").synchronous_writes());
  EXPECT_TRUE(options("sync").synchronous_writes());
  EXPECT_FALSE(options("noac,ac").synchronous_writes());
}

TEST(Options, RightmostOfAPair_Wins) {
  EXPECT_FALSE(options("ro,rw").read_only);
  EXPECT_TRUE(options("rw,ro").read_only);
  EXPECT_EQ(options("hard,soft,softerr").on_timeout, OnTimeout::kSoftErr);
  EXPECT_EQ(options("softerr,hard").on_timeout, OnTimeout::kHard);
  EXPECT_FALSE(options("bg,fg").background);
  EXPECT_TRUE(options("nocto,cto").close_to_open);
  EXPECT_TRUE(options("nosuid,suid").suid);
}

TEST(Options, DashAndUnderscore_AreEqual) {
  EXPECT_TRUE(*options("allow-other").allow_other);
  EXPECT_EQ(options("log-level=debug").log_level, LogLevel::kDebug);
  EXPECT_EQ(options("local-lock=all").local_posix_locks, true);
  EXPECT_EQ(options("read-ahead_kb=5").read_ahead_kb, 5u);
}

TEST(Options, Versions_OnlyFourOneAndThreeAreTaken) {
  for (const char* good : {"vers=4.1", "nfsvers=4.1", "vers=4", "vers=4,minorversion=1", "minorversion=1",
                           "v4.1", "v4", "v3,v4", "v4,minorversion=1"}) {
    EXPECT_EQ(options(good).major_version, 4u) << good;
    EXPECT_EQ(options(good).minor_version.value_or(1), 1u) << good;
  }
  for (const char* good : {"vers=3", "nfsvers=3", "v3", "vers=4.1,vers=3"}) {
    EXPECT_EQ(options(good).major_version, 3u) << good;
    EXPECT_FALSE(options(good).any_version) << good;
  }
  EXPECT_TRUE(options("").any_version);
  EXPECT_FALSE(options("vers=4").any_version);
  EXPECT_FALSE(options("v4").any_version);
  EXPECT_EQ(error_of("vers=4.2"), "option vers: version 4.2 is not implemented, use vers=4.1 or vers=3");
  EXPECT_EQ(error_of("nfsvers=2"), "option nfsvers: version 2 is not implemented, use vers=4.1 or vers=3");
  EXPECT_EQ(error_of("vers=4.0"), "option vers: version 4.0 is not implemented, use vers=4.1 or vers=3");
  EXPECT_NE(error_of("vers=3.1"), "accepted");
  EXPECT_EQ(error_of("vers=4,minorversion=2"),
            "option minorversion: version 4.2 is not implemented, use vers=4.1 or vers=3");
  for (const char* wrong :
       {"vers=", "vers", "vers=x", "vers=4.", "vers=.1", "vers=4.1.0", "vers=4.1 ", "vers=-4"}) {
    EXPECT_NE(error_of(wrong), "accepted") << wrong;
  }
}

// nfs(5): mountport and its like are "valid only for NFS version 2 and version 3 mounts".
TEST(Options, OfVersionThree_NeedIt) {
  const auto three =
      checked("vers=3,mountport=20048,mounthost=other,mountproto=tcp,mountvers=3,nolock", "s:/e");
  ASSERT_TRUE(three) << three.error().text;
  EXPECT_EQ(three->values.mount_port, 20048);
  EXPECT_EQ(three->values.mount_host, "other");
  EXPECT_EQ(error_of("mountport=4"), "option mountport: belongs to NFSv3, use vers=3");
  EXPECT_EQ(error_of("vers=4.1,nolock"), "option nolock: belongs to NFSv3, use vers=3");
  EXPECT_EQ(error_of("vers=3,lock"), "option lock: locks of an NFSv3 mount stay on this machine, use nolock");
  EXPECT_NE(error_of("vers=3,mountvers=1"), "accepted");
}

TEST(Options, VersionThree_KeepsLocksHere) {
  const auto three = checked("vers=3", "s:/e");
  ASSERT_TRUE(three) << three.error().text;
  EXPECT_TRUE(three->values.local_flock && three->values.local_posix_locks);
  EXPECT_FALSE(three->values.minor_version);
  EXPECT_TRUE(checked("vers=3,local_lock=all", "s:/e"));
  EXPECT_FALSE(checked("vers=3,local_lock=none", "s:/e"));
  EXPECT_FALSE(checked("vers=3,local_lock=flock", "s:/e"));
  EXPECT_FALSE(checked("vers=3,minorversion=1", "s:/e"));
}

// nfs(5), proto: "a netid"; RFC 8166 section 5.1 and RFC 5665 name them.
TEST(Options, Netid_IsTransportAndAddressFamily) {
  const auto takes = [](const char* list, Transport transport, AddressFamily family) {
    const MountOptions o = options(list);
    return o.transport == transport && o.family == family;
  };
  EXPECT_TRUE(takes("", Transport::kAuto, AddressFamily::kAny));
  EXPECT_TRUE(takes("proto=tcp", Transport::kTcp, AddressFamily::kIpv4));
  EXPECT_TRUE(takes("tcp", Transport::kTcp, AddressFamily::kIpv4));
  EXPECT_TRUE(takes("proto=tcp6", Transport::kTcp, AddressFamily::kIpv6));
  EXPECT_TRUE(takes("proto=rdma", Transport::kRdma, AddressFamily::kIpv4));
  EXPECT_TRUE(takes("rdma", Transport::kRdma, AddressFamily::kIpv4));
  EXPECT_TRUE(takes("proto=rdma6", Transport::kRdma, AddressFamily::kIpv6));
  EXPECT_TRUE(takes("proto=rdma,proto=auto", Transport::kAuto, AddressFamily::kAny)) << "the last one counts";
  EXPECT_NE(error_of("proto=udp").find("udp is not possible"), std::string::npos);
  EXPECT_NE(error_of("udp"), "accepted");
  EXPECT_NE(error_of("proto=xyz"), "accepted");
}

TEST(Options, RdmaVersion_NeedsRdma) {
  EXPECT_EQ(checked("", "s:/e")->values.rdma_version, 0u);
  EXPECT_EQ(checked("rdmavers=2", "s:/e")->values.rdma_version, 2u);
  EXPECT_EQ(checked("proto=rdma,rdmavers=1,port=99", "s:/e")->values.rdma_version, 1u);
  EXPECT_EQ(checked("rdmavers=1,rdmavers=auto,tcp", "s:/e")->values.rdma_version, 0u);
  EXPECT_EQ(checked("inline=5000", "s:/e")->values.rdma_inline, 4096u);
  EXPECT_EQ(checked("inline=8k,credits=16,ddp=0,ccp", "s:/e")->values.rdma_credits, 16u);
  for (const char* name : {"inline=4096", "credits=16", "ddp=1024", "ccp"}) {
    EXPECT_FALSE(checked(std::string("tcp,") + name, "s:/e")) << name;
    EXPECT_FALSE(checked(std::string("vers=3,") + name, "s:/e")) << name;
  }
  for (const char* list : {"proto=tcp,rdmavers=1", "port=2049,rdmavers=1", "vers=3,rdmavers=1"}) {
    const auto refused = checked(list, "s:/e");
    ASSERT_FALSE(refused) << list;
    EXPECT_EQ(refused.error().text, "rdmavers belongs to RDMA, use proto=rdma");
  }
  EXPECT_NE(error_of("rdmavers=3"), "accepted");
  EXPECT_EQ(checked("rdma_dev=rxe0:1,gid_index=2", "s:/e")->values.rdma_device, "rxe0");
  for (const char* list :
       {"proto=tcp,rdma_dev=rxe0", "port=2049,poll_us=5", "gid_index=1", "rdma_dev=software,gid_index=1"})
    EXPECT_FALSE(checked(list, "s:/e")) << list;
  for (const char* list :
       {"rdma_dev=rxe0:x", "rdma_dev=:1", "rdma_dev=rxe0:0", "gid_index=-1", "poll_us=2000000"})
    EXPECT_NE(error_of(list), "accepted") << list;
}

TEST(Options, VersionThree_GoesOverTcp) {
  const auto refused = checked("vers=3,proto=rdma", "s:/e");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().exit_code, 1);
  EXPECT_EQ(refused.error().text, "NFSv3 goes over TCP here, use vers=4.1 or proto=tcp");
}

// Another server may listen at RDMA's port of a machine whose NFS port is not the usual one.
TEST(Options, PortWithoutTransport_IsTcps) {
  EXPECT_TRUE(checked("", "s:/e")->values.may_use_rdma());
  EXPECT_FALSE(checked("port=2049", "s:/e")->values.may_use_rdma());
  EXPECT_FALSE(checked("", "nfs://s:99/e")->values.may_use_rdma());
  EXPECT_TRUE(checked("proto=rdma", "nfs://s:99/e")->values.may_use_rdma());
  EXPECT_FALSE(checked("vers=3", "s:/e")->values.may_use_rdma());
  EXPECT_FALSE(checked("proto=tcp", "s:/e")->values.may_use_rdma());
}

// nfs(5): sec is "A colon-separated list of one or more security flavors".
TEST(Options, SecurityFlavors_KeepTheirOrder) {
  using client::SecurityFlavor;
  EXPECT_TRUE(options("").security.empty());
  EXPECT_EQ(options("sec=sys").security, std::vector{SecurityFlavor::kSys});
  EXPECT_EQ(options("sec=krb5p:krb5i:krb5:sys:krb5p").security,
            (std::vector{SecurityFlavor::kKrb5p, SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5,
                         SecurityFlavor::kSys}));
  EXPECT_EQ(error_of("sec=none"), "option sec: none is not implemented, use sec=sys");
  for (const char* wrong : {"sec=", "sec=xyz", "sec=sys:", "sec=sys:xyz", "sec=:sys"}) {
    EXPECT_NE(error_of(wrong), "accepted") << wrong;
  }
}

TEST(Options, TransportSecurity_IsChecked) {
  EXPECT_EQ(options("").xprtsec, TransportSecurity::kNone);
  EXPECT_EQ(options("xprtsec=tls").xprtsec, TransportSecurity::kTls);
  EXPECT_EQ(options("xprtsec=auto").xprtsec, TransportSecurity::kAuto);
  EXPECT_NE(error_of("xprtsec=ssl"), "accepted");
  EXPECT_TRUE(checked("xprtsec=tls,tls_ca=/etc/ca.pem", "s:/e"));
  EXPECT_TRUE(checked("xprtsec=mtls,tls_cert=/etc/me.pem,tls_key=/etc/me.key", "s:/e"));
  EXPECT_TRUE(checked("xprtsec=auto,tls_cert=/etc/me.pem", "s:/e"));
  for (const char* wrong :
       {"xprtsec=mtls", "xprtsec=tls,tls_cert=/etc/me.pem", "tls_ca=/etc/ca.pem", "tls_key=/etc/me.key",
        "xprtsec=tls,tls_ca=ca.pem", "xprtsec=tls,vers=3", "xprtsec=tls,proto=rdma"})
    EXPECT_FALSE(checked(wrong, "s:/e")) << wrong;
}

// NFSv3 is spoken through a library without RPCSEC_GSS here: Kerberos is refused, not ignored.
TEST(Options, KerberosWithVersion3_IsRefused) {
  EXPECT_FALSE(checked("vers=3,sec=krb5p", "s:/e"));
  EXPECT_TRUE(checked("vers=3,sec=krb5p:sys", "s:/e"));
  EXPECT_TRUE(checked("vers=4.1,sec=krb5p", "s:/e"));
}

TEST(Options, UnknownName_SuggestsTheNearest) {
  EXPECT_EQ(error_of("rsiez=3"), "unknown option \"rsiez\"; did you mean \"rsize\"?");
  EXPECT_EQ(error_of("lookup_cache=all"), "unknown option \"lookup_cache\"; did you mean \"lookupcache\"?");
  EXPECT_EQ(error_of("nocot"), "unknown option \"nocot\"; did you mean \"nocto\"?");
  EXPECT_EQ(error_of("allow-others"), "unknown option \"allow-others\"; did you mean \"allow_other\"?");
  EXPECT_EQ(error_of("nofial"), "unknown option \"nofial\"; did you mean \"nofail\"?")
      << "fstab's are known too";
  EXPECT_EQ(error_of("x").find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of("zzzzzzzz").find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of(std::string(100'000, 'a')).find("did you mean"), std::string::npos);
  EXPECT_NE(error_of("RO"), "accepted");
}

TEST(Options, Sloppy_SkipsUnknownAndForeignOptions) {
  const auto parsed = parse("blub=1,ro,nolock,mountport=4", true);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_TRUE(parsed->values.read_only);
  EXPECT_EQ(parsed->skipped.size(), 3u);
  EXPECT_TRUE(parse("blub,sloppy"));
  EXPECT_NE(error_of("blub"), "accepted");
  EXPECT_NE(error_of("nolock"), "accepted");
}

TEST(Options, Sloppy_DoesNotExcuseWhatWouldChangeThePromise) {
  for (const char* list :
       {"vers=2", "v2", "proto=udp", "rdmavers=3", "sec=none", "rsize=x", "hard=1", "xprtsec=ssl"}) {
    EXPECT_FALSE(parse(list, true)) << list;
  }
}

TEST(Options, LaterLayer_OverridesTheEarlierOne) {
  std::vector<OptionLayer> all = layers("acregmin=1,rsize=4096,soft", OptionOrigin::kGlobal);
  const auto add = [&](std::string_view list, OptionOrigin origin) {
    const auto more = layers(list, origin);
    all.insert(all.end(), more.begin(), more.end());
  };
  add("rsize=8192", OptionOrigin::kServer);
  add("hard", OptionOrigin::kMountPoint);
  add("actimeo=5", OptionOrigin::kCommandLine);
  const auto parsed = parse_options(all, false);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->values.rsize, 8192u);
  EXPECT_EQ(parsed->values.on_timeout, OnTimeout::kHard);
  EXPECT_EQ(parsed->values.acregmin, 5s);
  EXPECT_EQ(parsed->origins.at("rsize"), OptionOrigin::kServer);
  EXPECT_TRUE(parsed->given("actimeo"));
  EXPECT_FALSE(parsed->given("wsize"));
}

TEST(Options, ErrorOfTheConfigurationFile_NamesFileAndLine) {
  std::vector<OptionLayer> all{{OptionOrigin::kGlobal, "/etc/x.conf:12", {"rsiez", "1"}}};
  const auto parsed = parse_options(all, false);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().text, "/etc/x.conf:12: unknown option \"rsiez\"; did you mean \"rsize\"?");
}

// A file applies to many mounts. A typed option is meant for this one.
TEST(Options, OfTheFile_HoldWhereTheyApply) {
  const auto both = [](std::string_view file, std::string_view typed) {
    std::vector<OptionLayer> all = layers(file, OptionOrigin::kGlobal);
    const auto more = layers(typed);
    all.insert(all.end(), more.begin(), more.end());
    auto parsed = parse_options(all, false);
    EXPECT_TRUE(parsed) << file << " " << typed << ": " << parsed.error().text;
    const auto done = check_options(*parsed, *parse_source("srv:/e"));
    EXPECT_TRUE(done) << file << " " << typed << ": " << done.error().text;
    return parsed->values;
  };
  const std::string_view rdma =
      "rdmavers=1,inline=8k,credits=16,ddp=0,ccp,rdma_dev=rxe0:1,gid_index=2,poll_us=5";
  for (const char* typed : {"tcp", "port=2049", "vers=3"})
    EXPECT_EQ(show_options(both(rdma, typed)), show_options(both("", typed))) << typed;
  EXPECT_EQ(both(rdma, "").rdma_device, "rxe0");
  EXPECT_EQ(both(rdma, "rdma_dev=software").gid_index, std::nullopt);
  EXPECT_EQ(both("proto=rdma6", "vers=3").transport, Transport::kAuto);
  EXPECT_EQ(both("proto=rdma6", "vers=3").family, AddressFamily::kAny);
  const std::string_view version_3 = "mountport=635,mounthost=other,mountproto=tcp,mountvers=3,nolock";
  EXPECT_EQ(show_options(both(version_3, "v4.1")), show_options(both("", "v4.1")));
  EXPECT_EQ(both(version_3, "v3").mount_port, 635);
  // They may be for a server that turns out to have nothing newer.
  EXPECT_EQ(both(version_3, "").mount_port, 635);
  EXPECT_EQ(show_options(both(version_3, "")), show_options(both("", "")));
  EXPECT_EQ(show_options(both("local_lock=flock", "v3")), show_options(both("", "v3")));
  EXPECT_FALSE(both("local_lock=flock", "").local_posix_locks);
}

TEST(Options, TypedOnes_AreRefusedWhereTheyDoNotApply) {
  for (const char* typed : {"rdmavers=2", "credits=8", "gid_index=1", "rdma"}) {
    std::vector<OptionLayer> all = layers("rdmavers=1,vers=3,nolock", OptionOrigin::kGlobal);
    const auto more = layers(typed);
    all.insert(all.end(), more.begin(), more.end());
    auto parsed = parse_options(all, false);
    ASSERT_TRUE(parsed) << parsed.error().text;
    EXPECT_FALSE(check_options(*parsed, *parse_source("srv:/e"))) << typed;
  }
}

TEST(Options, AddressFamily_MustFitTheAddress) {
  EXPECT_TRUE(checked("", "[::1]:/e"));
  EXPECT_TRUE(checked("proto=tcp6", "[::1]:/e"));
  EXPECT_FALSE(checked("proto=tcp", "[::1]:/e"));
  EXPECT_FALSE(checked("proto=tcp6", "127.0.0.1:/e"));
  EXPECT_TRUE(checked("proto=tcp6", "srv:/e"));
  EXPECT_TRUE(checked("proto=rdma6", "[::1]:/e"));
  EXPECT_EQ(checked("proto=rdma", "[::1]:/e").error().text,
            "proto=rdma means IPv4 and ::1 is an IPv6 address, use proto=rdma6");
}

TEST(Options, PortOfTheUrl_BeatsTheFileAndMustAgreeWithTheCommandLine) {
  EXPECT_EQ(checked("", "nfs://srv:99/e")->values.port, 99);
  EXPECT_EQ(checked("port=99", "nfs://srv:99/e")->values.port, 99);
  EXPECT_FALSE(checked("port=98", "nfs://srv:99/e"));
  EXPECT_EQ(checked("port=98", "srv:/e")->values.port, 98);
  auto parsed = parse_options(layers("port=98", OptionOrigin::kGlobal), false);
  ASSERT_TRUE(check_options(*parsed, *parse_source("nfs://srv:99/e")));
  EXPECT_EQ(parsed->values.port, 99);
}

TEST(Options, AttributeTimes_AreOrdered) {
  EXPECT_EQ(checked("acregmin=90", "s:/e")->values.acregmax, 90s);
  EXPECT_EQ(checked("acdirmax=10", "s:/e")->values.acdirmin, 10s);
  EXPECT_FALSE(checked("acregmin=9,acregmax=8", "s:/e"));
  EXPECT_TRUE(checked("acregmin=8,acregmax=8", "s:/e"));
}

TEST(Options, AllowRootAndAllowOther_ExcludeEachOther) {
  EXPECT_FALSE(checked("allow_root,allow_other", "s:/e"));
  EXPECT_TRUE(checked("allow_root", "s:/e"));
}

TEST(Options, PrivilegedOptions_AreForRoot) {
  for (const char* list : {"dev", "suid", "remount"}) {
    EXPECT_TRUE(check_privilege(options(list), true, "")) << list;
    const auto refused = check_privilege(options(list), false, "user_allow_other\n");
    ASSERT_FALSE(refused) << list;
    EXPECT_EQ(refused.error().exit_code, 1);
  }
  EXPECT_TRUE(check_privilege(options(""), false, ""));
}

TEST(Options, AllowOtherOfAUser_NeedsFuseConf) {
  for (const char* list : {"allow_other", "allow_root"}) {
    EXPECT_TRUE(check_privilege(options(list), true, ""));
    EXPECT_FALSE(check_privilege(options(list), false, ""));
    EXPECT_FALSE(check_privilege(options(list), false, "#user_allow_other\n"));
    EXPECT_FALSE(check_privilege(options(list), false, "user_allow_others\nx user_allow_other"));
    EXPECT_TRUE(check_privilege(options(list), false, "# x\n  user_allow_other \t\nmount_max = 5"));
    EXPECT_TRUE(check_privilege(options(list), false, "mount_max = 5\nuser_allow_other"));
  }
}

}  // namespace
}  // namespace nfsrdma::cli
