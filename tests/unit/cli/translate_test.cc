// SPDX-License-Identifier: Apache-2.0
#include "cli/server/translate.h"

#include <gtest/gtest.h>

#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;

MountOptions options(const std::string& list, const Source& source) {
  std::vector<OptionLayer> layers;
  const auto items = split_options(list);
  for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
  auto parsed = parse_options(layers, false);
  EXPECT_TRUE(parsed) << list;
  EXPECT_TRUE(check_options(*parsed, source));
  return parsed->values;
}

client::ClientOptions client(const std::string& list, const std::string& source = "srv:/e",
                             bool root = true) {
  const Source s = *parse_source(source);
  return make_client_options(options(list, s), s, root);
}

fuse::FuseOptions fuse_side(const std::string& list, bool root = true) {
  const Source s = *parse_source("srv:/e");
  return make_fuse_options(options(list, s), s, "/mnt", "host", root);
}

// The defaults of client/ are also those of nfs(5): without options nothing changes.
TEST(Translate, Defaults_AreTheClientsOwn) {
  const client::ClientOptions c = client("", "srv:/e", false);
  const client::ClientOptions d;
  EXPECT_EQ(c.host, "srv");
  EXPECT_EQ(c.export_path, "/e");
  EXPECT_EQ(c.port, d.port);
  EXPECT_EQ(c.family, d.family);
  EXPECT_EQ(c.reserved_port, d.reserved_port);
  EXPECT_EQ(c.soft, d.soft);
  EXPECT_EQ(c.timeo, d.timeo);
  EXPECT_EQ(c.retrans, d.retrans);
  EXPECT_EQ(c.rsize, d.rsize);
  EXPECT_EQ(c.acregmin, d.acregmin);
  EXPECT_EQ(c.acregmax, d.acregmax);
  EXPECT_EQ(c.acdirmin, d.acdirmin);
  EXPECT_EQ(c.acdirmax, d.acdirmax);
  EXPECT_EQ(c.noac, d.noac);
  EXPECT_EQ(c.lookupcache, d.lookupcache);
  EXPECT_EQ(c.close_to_open, d.close_to_open);
  EXPECT_EQ(c.readdirplus, d.readdirplus);
  EXPECT_EQ(c.delegations, d.delegations);
  EXPECT_EQ(c.sync, d.sync);
  EXPECT_EQ(c.id_mapping, d.id_mapping);
  EXPECT_EQ(c.many_users, d.many_users);
}

TEST(Translate, EveryClientOption_Arrives) {
  EXPECT_EQ(client("", "nfs://srv:99/e").port, 99);
  EXPECT_EQ(client("port=98").port, 98);
  EXPECT_EQ(client("proto=tcp").family, client::AddressFamily::kIpv4);
  EXPECT_EQ(client("proto=tcp6").family, client::AddressFamily::kIpv6);
  EXPECT_EQ(client("").transport, client::TransportKind::kTcp);
  EXPECT_EQ(client("rdma").transport, client::TransportKind::kSoftwareRdma);
  EXPECT_EQ(client("rdma").port, 20049);
  EXPECT_EQ(client("rdma,port=98").port, 98);
  EXPECT_EQ(client("proto=rdma6").family, client::AddressFamily::kIpv6);
  EXPECT_EQ(client("rdma").rdma_versions, rdma::Versions::kAuto);
  EXPECT_EQ(client("rdma,rdmavers=1").rdma_versions, rdma::Versions::kOnly1);
  EXPECT_EQ(client("rdma,rdmavers=2").rdma_versions, rdma::Versions::kOnly2);
  EXPECT_FALSE(client("rdma").rdma_configuration_protocol);
  EXPECT_EQ(client("rdma").rdma_inline_bytes, rdma::RdmaOptions().inline_bytes);
  EXPECT_EQ(client("rdma").rdma_credits, rdma::RdmaOptions().credits);
  EXPECT_EQ(client("rdma").rdma_ddp_threshold, rdma::RdmaOptions().ddp_threshold);
  const client::ClientOptions tuned = client("rdma,inline=8192,credits=8,ddp=1k,ccp");
  EXPECT_EQ(tuned.rdma_inline_bytes, 8192u);
  EXPECT_EQ(tuned.rdma_credits, 8u);
  EXPECT_EQ(tuned.rdma_ddp_threshold, 1024u);
  EXPECT_TRUE(tuned.rdma_configuration_protocol);
  EXPECT_TRUE(client("").reserved_port);
  EXPECT_FALSE(client("noresvport").reserved_port);
  EXPECT_TRUE(client("resvport", "srv:/e", false).reserved_port);
  EXPECT_TRUE(client("soft").soft);
  EXPECT_FALSE(client("soft").soft_error_timedout);
  EXPECT_TRUE(client("softerr").soft && client("softerr").soft_error_timedout);
  EXPECT_EQ(client("timeo=50").timeo, 5s);
  EXPECT_EQ(client("retrans=7").retrans, 7u);
  EXPECT_EQ(client("rsize=8192").rsize, 8192u);
  EXPECT_EQ(client("wsize=8192").wsize, 8192u);
  EXPECT_EQ(client("acregmin=1").acregmin, 1s);
  EXPECT_EQ(client("acregmax=99").acregmax, 99s);
  EXPECT_EQ(client("acdirmin=2").acdirmin, 2s);
  EXPECT_EQ(client("acdirmax=98").acdirmax, 98s);
  EXPECT_TRUE(client("noac").noac);
  EXPECT_TRUE(client("noac").sync);
  EXPECT_TRUE(client("sync").sync);
  EXPECT_EQ(client("lookupcache=pos").lookupcache, client::LookupCache::kPositive);
  EXPECT_EQ(client("lookupcache=none").lookupcache, client::LookupCache::kNone);
  EXPECT_FALSE(client("nocto").close_to_open);
  EXPECT_FALSE(client("nordirplus").readdirplus);
  EXPECT_FALSE(client("nodelegations").delegations);
  const client::ClientOptions d = client("");
  EXPECT_EQ(client("cache_mem=64m").cache_bytes, 64u << 20);
  EXPECT_EQ(client("cache_mem=0").cache_bytes, 0u);
  EXPECT_GT(d.cache_bytes, 0u);
  EXPECT_LE(d.cache_bytes, 1u << 30);
  EXPECT_EQ(default_cache_bytes(uint64_t{4} << 30), 256u << 20);
  EXPECT_EQ(default_cache_bytes(uint64_t{64} << 30), 1u << 30);
  EXPECT_EQ(d.read_ahead_bytes, uint64_t{kReadAheadKb} * 1024);
  EXPECT_EQ(client("read_ahead_kb=512").read_ahead_bytes, 512u * 1024);
  EXPECT_EQ(client("read_ahead_kb=0").read_ahead_bytes, 0u);
  EXPECT_EQ(client("idmap=nfsidmap").id_mapping, client::IdMapping::kNfsidmap);
}

TEST(Translate, EveryFuseOption_Arrives) {
  const fuse::FuseOptions d = fuse_side("", false);
  EXPECT_EQ(d.source, "srv:/e");
  EXPECT_EQ(d.mount_point, "/mnt");
  EXPECT_EQ(d.machine_name, "host");
  EXPECT_FALSE(d.local_posix_locks || d.local_flock);
  EXPECT_TRUE(fuse_side("local_lock=all").local_posix_locks && fuse_side("local_lock=all").local_flock);
  EXPECT_TRUE(fuse_side("local_lock=flock").local_flock && !fuse_side("local_lock=flock").local_posix_locks);
  EXPECT_TRUE(fuse_side("local_lock=posix").local_posix_locks && !fuse_side("local_lock=posix").local_flock);
  EXPECT_FALSE(d.read_only || d.default_permissions || d.dev || d.suid || d.sync || d.dirsync);
  EXPECT_TRUE(d.exec && d.readdirplus);
  EXPECT_FALSE(d.read_ahead_kb);
  EXPECT_EQ(fuse_side("", true).read_ahead_kb, kRootReadAheadKb);
  EXPECT_TRUE(fuse_side("ro").read_only);
  EXPECT_TRUE(fuse_side("default_permissions").default_permissions);
  EXPECT_TRUE(fuse_side("dev").dev);
  EXPECT_TRUE(fuse_side("dev", true).default_permissions) << "who may open a device, the kernel asks nobody";
  EXPECT_TRUE(fuse_side("suid").suid);
  EXPECT_FALSE(fuse_side("noexec").exec);
  EXPECT_TRUE(fuse_side("sync").sync);
  EXPECT_TRUE(fuse_side("dirsync").dirsync);
  EXPECT_FALSE(fuse_side("nordirplus").readdirplus);
  EXPECT_EQ(fuse_side("read_ahead_kb=512").read_ahead_kb, 512u);
}

TEST(Translate, RootsMount_ServesEveryoneAndNamesTheCaller) {
  const fuse::FuseOptions root = fuse_side("", true);
  EXPECT_TRUE(root.allow_other);
  EXPECT_TRUE(root.caller_credentials);
  EXPECT_TRUE(client("", "srv:/e", true).many_users);
  const fuse::FuseOptions user = fuse_side("", false);
  EXPECT_FALSE(user.allow_other);
  EXPECT_FALSE(user.caller_credentials);
  EXPECT_FALSE(client("", "srv:/e", false).many_users);
}

// A user cannot act for other users: all requests use the mounting user's identity.
TEST(Translate, UsersSharedMount_NamesTheUserOnly) {
  const fuse::FuseOptions shared = fuse_side("allow_other", false);
  EXPECT_TRUE(shared.allow_other);
  EXPECT_FALSE(shared.caller_credentials);
  EXPECT_TRUE(client("allow_other", "srv:/e", false).many_users);
}

TEST(Translate, AllowRoot_ReplacesAllowOther) {
  const fuse::FuseOptions f = fuse_side("allow_root", true);
  EXPECT_TRUE(f.allow_root);
  EXPECT_FALSE(f.allow_other);
}

// The kernel's client: 180 seconds by default, timeo * (retrans + 1) in general, at most 600 seconds.
TEST(Translate, SoftLimit_IsTheKernelsMajorTimeout) {
  EXPECT_EQ(fuse_side("").soft_limit, 0s);
  EXPECT_EQ(fuse_side("soft").soft_limit, 180s);
  EXPECT_EQ(fuse_side("softerr,timeo=10,retrans=0").soft_limit, 1s);
  EXPECT_EQ(fuse_side("soft,timeo=10,retrans=5").soft_limit, 6s);
  EXPECT_EQ(fuse_side("soft,timeo=600,retrans=9").soft_limit, 600s);
  EXPECT_EQ(fuse_side("soft,timeo=600,retrans=10").soft_limit, 600s);
  EXPECT_EQ(fuse_side("soft,timeo=6000,retrans=0").soft_limit, 600s);
  EXPECT_EQ(fuse_side("soft,timeo=6000,retrans=10000").soft_limit, 600s);
}

// Users of mount(8) expect proto=tcp or proto=tcp6 in a mount table.
TEST(Translate, OptionsInUse_NameTheProtocolOfTheAddress) {
  rpc::TransportStatus v4, v6;
  v4.peer = "127.0.0.1:2049";
  v6.peer = "[::1]:2049";
  EXPECT_EQ(options_in_use({}, false, {}).family, AddressFamily::kAny);
  EXPECT_EQ(options_in_use({}, false, {v4}).family, AddressFamily::kIpv4);
  EXPECT_EQ(options_in_use({}, false, {{}, v6}).family, AddressFamily::kIpv6)
      << "the first that has been connected";
  MountOptions told;
  told.family = AddressFamily::kIpv6;
  EXPECT_EQ(options_in_use(told, false, {v4}).family, AddressFamily::kIpv6);
}

TEST(Translate, OptionsInUse_NameRootsDefaults) {
  EXPECT_EQ(options_in_use({}, true, {}).allow_other, true);
  EXPECT_EQ(options_in_use({}, true, {}).reserved_port, true);
  EXPECT_EQ(options_in_use({}, false, {}).allow_other, false);
  EXPECT_EQ(options_in_use({}, false, {}).reserved_port, false);
  MountOptions told;
  told.allow_root = true;
  told.reserved_port = false;
  EXPECT_EQ(options_in_use(told, true, {}).allow_other, false);
  EXPECT_EQ(options_in_use(told, true, {}).reserved_port, false);
}

TEST(Translate, LoopCount_GrowsWithTheMachineUnlessTold) {
  EXPECT_EQ(loop_count({}, 0), 1u);
  EXPECT_EQ(loop_count({}, 7), 1u);
  EXPECT_EQ(loop_count({}, 8), 2u);
  EXPECT_EQ(loop_count({}, 128), 4u);
  MountOptions told;
  told.threads = 16;
  EXPECT_EQ(loop_count(told, 1), 16u);
}

}  // namespace
}  // namespace nfsrdma::cli
