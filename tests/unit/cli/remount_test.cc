// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/remount.h"

#include <gtest/gtest.h>

#include "cli/options/option_table.h"
#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

// The options that a mount made with `asked` shows.
std::string in_force(const std::string& asked) {
  std::vector<OptionLayer> layers;
  const auto items = split_options(asked);
  for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
  auto parsed = parse_options(layers, false);
  EXPECT_TRUE(parsed) << asked << ": " << parsed.error().text;
  EXPECT_TRUE(check_options(*parsed, *parse_source("srv:/e"))) << asked;
  return show_options(parsed->values);
}

// The failure text of a remount; empty: accepted.
std::string said(const std::string& asked, const std::string& given, bool found_transport = false) {
  const auto done = check_remount(in_force(asked), found_transport, *split_options("remount," + given));
  if (done) return "";
  EXPECT_EQ(done.error().exit_code, 1);
  return done.error().text;
}

std::string refused(const char* name) {
  return std::string("option ") + name + " cannot be changed by remount";
}

TEST(Remount, WhatIsInForce_MayBeGivenAgain) {
  for (const char* list : {"actimeo=7", "proto=tcp", "proto=tcp6", "proto=rdma,rdmavers=1,inline=8k,ccp",
                           "vers=3,nolock", "vers=4", "v4.1", "minorversion=1", "sync", "bg", "nodelegations",
                           "rsize=32k", "poll_us=5,rdma_dev=rxe0:1", "noac", "soft,timeo=50",
                           "local_lock=flock", "xprtsec=none", "acregmin=90", "conf=/etc/other"})
    EXPECT_EQ(said(list, list), "") << list;
  for (const char* list : {"tcp", "v4.1", "vers=4", "minorversion=1", "async", "fg", "delegations", "noccp",
                           "xprtsec=none", "rdmavers=auto", "rdma_dev=auto", "poll_us=0", "rsize=0",
                           "actimeo=8,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60"})
    EXPECT_EQ(said("proto=tcp", list), "") << list;
}

TEST(Remount, WhatTheKernelChangesOrShows_IsTaken) {
  EXPECT_EQ(said("ro", "rw,nosuid,nodev,noexec,relatime,noatime,user_id=0,group_id=0,_netdev,x-any"), "");
  EXPECT_EQ(said("", "ro,suid,exec,unheard-of"), "");
  EXPECT_EQ(said("dev", "ro,dev,suid"), "");
  EXPECT_NE(said("", "dev"), "") << "the kernel would open devices for everybody";
}

TEST(Remount, WhatANewMountTakes_IsRefusedByItsName) {
  const char* cases[][3] = {{"actimeo=7", "actimeo=8", "actimeo"},
                            {"actimeo=7", "acregmin=6", "acregmin"},
                            {"", "vers=3", "vers"},
                            {"", "v3", "v3"},
                            {"v3", "v4.1", "v4.1"},
                            {"v3", "v4", "v4"},
                            {"v3", "minorversion=1", "minorversion"},
                            {"proto=rdma", "tcp", "tcp"},
                            {"proto=tcp6", "tcp", "tcp"},
                            {"tcp", "rdma", "rdma"},
                            {"tcp", "proto=auto", "proto"},
                            {"rdma", "proto=auto", "proto"},
                            {"rdmavers=1", "rdmavers=auto", "rdmavers"},
                            {"rdma_dev=rxe0", "rdma_dev=auto", "rdma_dev"},
                            {"poll_us=5", "poll_us=0", "poll_us"},
                            {"rdma,ccp", "noccp", "noccp"},
                            {"rsize=64k", "rsize=0", "rsize"},
                            {"sync", "async", "async"},
                            {"", "sync", "sync"},
                            {"nodelegations", "delegations", "delegations"},
                            {"bg", "fg", "fg"},
                            {"", "log_level=debug", "log_level"},
                            {"", "actimeo=9,ro,acregmin=3", "actimeo"}};
  for (const auto& [asked, given, name] : cases) EXPECT_EQ(said(asked, given), refused(name)) << asked;
}

TEST(Remount, OfAPair_TheRightmostCounts) {
  EXPECT_EQ(said("", "soft,hard"), "");
  EXPECT_EQ(said("", "hard,soft"), refused("soft"));
}

// An fstab line with proto=auto is still accepted.
TEST(Remount, TransportThatWasFound_IsStillTheOneAskedFor) {
  EXPECT_EQ(said("tcp", "proto=auto", true), "");
  EXPECT_EQ(said("rdma", "proto=auto", true), "");
  EXPECT_EQ(said("tcp", "tcp", true), "");
  EXPECT_EQ(said("tcp", "rdma", true), refused("rdma"));
}

}  // namespace
}  // namespace nfsrdma::cli
