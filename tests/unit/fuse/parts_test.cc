// SPDX-License-Identifier: Apache-2.0
// The parts that need no kernel: errno mapping, parsing of /proc, credentials, the mount table, the
// invalidator's queue.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "fuse/credentials.h"
#include "fuse/errno_map.h"
#include "fuse/handshake.h"
#include "fuse/invalidator.h"
#include "fuse/kernel_mount.h"
#include "fuse/thread_status.h"
#include "tests/unit/fuse/some_node.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::fuse::test {
namespace {

Error error_with(int errnum, Recovery recovery = Recovery::kPermanent) {
  Error e = system_error(errnum, "test");
  e.recovery = recovery;
  return e;
}

// From Linux 6.9 (7.40) on, linux/fuse.h has FUSE_NO_EXPORT_SUPPORT (1ULL << 38) and FUSE_INIT_EXT (1 << 30).
TEST(Handshake, ExportSupport_IsDeniedWhereTheKernelKnowsTheWord) {
  EXPECT_EQ(without_export_support({0x5, 0x10}, 39), (InitFlags{0x5, 0x10}));
  EXPECT_EQ(without_export_support({0x5, 0x10}, 40), (InitFlags{0x40000005, 0x50}));
  EXPECT_EQ(without_export_support({0x40000005, 0x50}, 44), (InitFlags{0x40000005, 0x50}));
}

TEST(ErrnoMap, OrdinaryErrno_Passes) {
  for (int e : {ENOENT, EACCES, EEXIST, ENOSPC, ESTALE, EINTR, ENOTEMPTY})
    EXPECT_EQ(to_errno(error_with(e)), e);
}

TEST(ErrnoMap, WhatTheKernelWouldRefuse_BecomesEio) {
  EXPECT_EQ(to_errno(error_with(0)), EIO);
  EXPECT_EQ(to_errno(error_with(-5)), EIO);
  EXPECT_EQ(to_errno(error_with(512)), EIO);  // ERESTARTSYS
  EXPECT_EQ(to_errno(error_with(10008)), EIO);
  EXPECT_EQ(to_errno(error_with(0, Recovery::kInterrupted)), EINTR);
}

TEST(ErrnoMap, Enosys_NeverReachesTheKernel) {
  EXPECT_EQ(to_errno(error_with(ENOSYS)), EOPNOTSUPP);
}

TEST(ErrnoMap, AbsentNames_AreNotWorthAWarning) {
  EXPECT_TRUE(is_ordinary(ENOENT));
  EXPECT_FALSE(is_ordinary(EIO));
  EXPECT_FALSE(is_ordinary(ESTALE));
}

constexpr char kStatus[] =
    "Name:\tGroups:\nUmask:\t0022\nState:\tS "
    "(sleeping)\nTgid:\t4711\nUid:\t1000\t1000\t1000\t1000\nGroups:\t4 24 "
    "4294967294 \n"
    "SigQ:\t0/1\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000002002\nSigBlk:\t0000000000002000\n"
    "CapPrm:\t0000000000000040\nCapEff:\t0000000000000000\n";

TEST(ThreadStatus, ProcText_IsUnderstood) {
  const auto s = parse_thread_status(kStatus);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->name, "Groups:");
  EXPECT_EQ(s->process, 4711u);
  EXPECT_EQ(s->pending_signals, 0x102u);  // SIGKILL and SIGINT; blocked signals do not count
  EXPECT_EQ(signal_intent(*s), SignalIntent::kFatal);
}

TEST(ThreadStatus, TruncatedText_IsNoStatus) {
  const std::string text = kStatus;
  EXPECT_FALSE(parse_thread_status(""));
  EXPECT_FALSE(parse_thread_status(text.substr(0, text.find("CapPrm"))));
}

TEST(CallerGroups, ProcText_IsUnderstood) {
  const auto c = parse_caller_groups(kStatus);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->groups, (std::vector<uint32_t>{4, 24, 4294967294u}));
  EXPECT_TRUE(c->may_set_groups);
}

// A thread chooses its name. The kernel escapes a line feed in it.
TEST(CallerGroups, KeysInAName_AreNoKeys) {
  for (const std::string name :
       {"Groups:", "xGroups:\t0 1", "CapPrm:\tff", "\\nGroups:\t7", "Groups:\tCapPrm:"}) {
    const auto c = parse_caller_groups("Name:\t" + name + "\nGroups:\t5 6 \nCapInh:\t40\nCapPrm:\t0\n");
    ASSERT_TRUE(c) << name;
    EXPECT_EQ(c->groups, (std::vector<uint32_t>{5, 6})) << name;
    EXPECT_FALSE(c->may_set_groups) << name;
  }
}

TEST(CallerGroups, OfNoGroups_AreEmpty) {
  const auto c = parse_caller_groups("Name:\tx\nGroups:\t \nNStgid:\t7\nCapPrm:\t000001ffffffffff\n");
  ASSERT_TRUE(c);
  EXPECT_TRUE(c->groups.empty());
  EXPECT_TRUE(c->may_set_groups);
}

TEST(CallerGroups, TruncatedText_IsNone) {
  const std::string text = kStatus;
  for (size_t length = 0; length <= text.find("CapPrm:\t") + 8; ++length)
    EXPECT_FALSE(parse_caller_groups(text.substr(0, length))) << length;
}

TEST(CallerGroups, OfTheOwnThread_AreItsGroups) {
  const auto c = read_caller_groups(::gettid());
  ASSERT_TRUE(c);
  std::vector<gid_t> own(static_cast<size_t>(::getgroups(0, nullptr)));
  ASSERT_EQ(::getgroups(static_cast<int>(own.size()), own.data()), static_cast<int>(own.size()));
  EXPECT_EQ(c->groups, std::vector<uint32_t>(own.begin(), own.end()));
  for (const pid_t none : {0, -1, 0x7ffffffe}) EXPECT_FALSE(read_caller_groups(none));
}

TEST(ThreadStatus, OnlyStoppingSignals_AskForAStop) {
  ThreadStatus s;
  const auto intent = [&s](int signal) {
    s.pending_signals = uint64_t{1} << (signal - 1);
    return signal_intent(s);
  };
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT})
    EXPECT_EQ(intent(signal), SignalIntent::kStop) << signal;
  for (int signal : {SIGALRM, SIGCHLD, SIGURG, SIGPROF, SIGUSR1, SIGWINCH, SIGSTOP, SIGIO}) {
    EXPECT_EQ(intent(signal), SignalIntent::kNone) << signal;
  }
  EXPECT_EQ(intent(SIGKILL), SignalIntent::kFatal);
}

TEST(ThreadStatus, OwnThread_IsSeen) {
  const auto s = read_thread_status(::gettid());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->process, static_cast<uint32_t>(::getpid()));
  EXPECT_FALSE(is_exiting(::gettid()));
}

TEST(ThreadStatus, NoThread_IsNone) {
  EXPECT_FALSE(read_thread_status(0));
  EXPECT_FALSE(read_thread_status(-1));
  EXPECT_FALSE(read_thread_status(0x7ffffffe));
}

TEST(ThreadStatus, ExitingFlag_IsFoundBehindAnyName) {
  EXPECT_TRUE(parse_exiting("7 (a) b (c) D 1 1 1 0 -1 4194308 0"));
  EXPECT_FALSE(parse_exiting("7 (x 4 4 4 4 4 4) S 1 1 1 0 -1 4194304 0"));
  EXPECT_FALSE(parse_exiting("7 (x"));
}

TEST(CredentialCache, WithoutPerCaller_IsAlwaysOurOwn) {
  CredentialCache cache("host", false);
  const auto c = cache.get({4711, 4712, 1});
  EXPECT_EQ(c->uid(), ::getuid());
  EXPECT_EQ(c, cache.own());
}

TEST(CredentialCache, PerCaller_TakesGroupsFromTheThread) {
  CredentialCache cache("host", true);
  const auto c = cache.get({::getuid(), ::getgid(), ::gettid()});
  EXPECT_EQ(c->uid(), ::getuid());
  EXPECT_EQ(c->gid(), ::getgid());
  const auto s = read_caller_groups(::gettid());
  ASSERT_TRUE(s);
  std::vector<uint32_t> groups = s->groups;
  if (groups.size() > rpc::Credential::kMaxGroups) groups.resize(rpc::Credential::kMaxGroups);
  EXPECT_EQ(c->groups(), groups);
}

TEST(CredentialCache, SameIdentity_IsOneObject) {
  CredentialCache cache("host", true);
  const auto a = cache.get({::getuid(), ::getgid(), ::gettid()});
  rpc::CredentialPtr b;
  std::thread([&] { b = cache.get({::getuid(), ::getgid(), ::gettid()}); }).join();
  EXPECT_EQ(a, b);
}

TEST(CredentialCache, VanishedCaller_HasNoGroups) {
  CredentialCache cache("host", true);
  EXPECT_TRUE(cache.get({12, 34, 0})->groups().empty());
}

TEST(CredentialCache, ChangedGroupsOfAPrivilegedThread_AreSeenAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root changes its groups";
  CredentialCache cache("host", true);
  std::thread([&] {
    // The system call changes the groups of this thread only.
    const gid_t first[] = {100};
    const gid_t second[] = {200, 300};
    ASSERT_EQ(::syscall(SYS_setgroups, 1, first), 0);
    EXPECT_EQ(cache.get({1000, 1000, ::gettid()})->groups(), (std::vector<uint32_t>{100}));
    ASSERT_EQ(::syscall(SYS_setgroups, 2, second), 0);
    EXPECT_EQ(cache.get({1000, 1000, ::gettid()})->groups(), (std::vector<uint32_t>{200, 300}));
    // Also for root: a server may squash it, and its groups count then.
    EXPECT_EQ(cache.get({0, 0, ::gettid()})->groups(), (std::vector<uint32_t>{200, 300}));
    ASSERT_EQ(::syscall(SYS_setgroups, 0, nullptr), 0);
    EXPECT_TRUE(cache.get({0, 0, ::gettid()})->groups().empty());
  }).join();
}

// user_namespaces(7): lines of "ID-inside-ns ID-outside-ns length".
TEST(UserIds, OfANamespace_AreOuterOnTheWireAndInnerToTheKernel) {
  const UserIds ids(IdMap::parse("         0       1001          1\n         1     100000      65535\n"),
                    IdMap::parse("0 5000 1\n"));
  EXPECT_TRUE(ids.mapped());
  EXPECT_EQ(ids.outer_user(0), 1001u);
  EXPECT_EQ(ids.outer_user(33), 100032u);
  EXPECT_EQ(ids.outer_user(65536), UserIds::kNobody);
  EXPECT_EQ(ids.inner_user(1001), 0u);
  EXPECT_EQ(ids.inner_user(165534), 65535u);
  EXPECT_EQ(ids.inner_user(0), UserIds::kNobody);
  EXPECT_EQ(ids.inner_group(5000), 0u);
  std::vector<uint32_t> groups{65534, 0};
  ids.make_outer(groups);
  EXPECT_EQ(groups, std::vector<uint32_t>{5000});

  CredentialCache cache("host", true, ids);
  EXPECT_EQ(cache.get({33, 0, 0})->uid(), 100032u);
  EXPECT_EQ(cache.get({33, 0, 0})->gid(), 5000u);
  EXPECT_EQ(CredentialCache("host", false, ids).own()->uid(), ids.outer_user(::getuid()));
}

TEST(UserIds, OfTheInitialNamespace_AreThemselves) {
  const UserIds ids(IdMap::parse("         0          0 4294967295\n"), IdMap::parse("0 0 4294967295\n"));
  EXPECT_FALSE(ids.mapped());
  EXPECT_EQ(ids.outer_user(7), 7u);
  EXPECT_EQ(ids.inner_user(4294967294u), 4294967294u);
}

TEST(KernelMount, TopmostMount_IsFoundByItsEscapedPath) {
  constexpr char kText[] =
      "21 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "30 21 0:40 / /mnt/a\\040b rw,nosuid - fuse.rpcrdma h:/e rw\n"
      "31 21 0:41 / /mnt/a\\040b rw,nosuid shared:4 - fuse.rpcrdma h:/f rw\n"
      "32 21 0:42 / /mnt/a rw - tmpfs none rw\n";
  const auto m = find_mount(kText, "/mnt/a b");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->id, 31);
  EXPECT_EQ(m->device, "0:41");
  EXPECT_FALSE(find_mount(kText, "/mnt"));
}

TEST(KernelMount, OptionValues_AreEscaped) {
  FuseOptions o;
  o.source = "[fe80::1]:/a,b\\c";
  EXPECT_EQ(libfuse_options(o), "fsname=[fe80::1]:/a\\,b\\\\c,subtype=rpcrdma");
  o.source = "h:/e";
  o.read_only = o.allow_other = o.suid = o.dev = true;
  o.exec = false;
  o.max_read = 65536;
  EXPECT_EQ(libfuse_options(o), "fsname=h:/e,subtype=rpcrdma,ro,allow_other,dev,suid,noexec,max_read=65536");
}

// --- the invalidator without a session: libfuse answers EINVAL, the queue works

TEST(Invalidator, UnknownNodes_AreNotTheKernelsBusiness) {
  InodeTable inodes;
  Invalidator invalidator(inodes);
  invalidator.start(nullptr);
  invalidator.invalidate_data(client::NodeRef(new SomeNode));
  invalidator.invalidate_entry(client::NodeRef(new SomeNode), "x");
  invalidator.disable();
  invalidator.join();
  EXPECT_EQ(invalidator.numbers().sent, 0u);
}

TEST(Invalidator, BeforeTheStart_NothingIsQueued) {
  InodeTable inodes;
  Invalidator invalidator(inodes);
  client::NodeRef node(new SomeNode);
  inodes.add_lookup(node);
  invalidator.invalidate_data(node);
  EXPECT_EQ(client::NodeTableAccess::references(*node.get()), 2u);
}

TEST(Invalidator, EveryWish_IsSentOrMerged) {
  InodeTable inodes;
  std::vector<client::NodeRef> nodes;
  for (int i = 0; i < 50; ++i) {
    nodes.emplace_back(new SomeNode);
    inodes.add_lookup(nodes.back());
  }
  Invalidator invalidator(inodes, 10);
  invalidator.start(nullptr);
  for (int round = 0; round < 100; ++round) {
    for (const auto& node : nodes) invalidator.invalidate_data(node);
  }
  EXPECT_TRUE(nfsrdma::test::eventually([&] {
    const auto n = invalidator.numbers();
    // A flood sends all 50 at once, in place of at least 11 requests.
    return n.sent + n.merged >= 5000 - 11 * n.floods && n.sent >= 50;
  }));
  invalidator.disable();
  EXPECT_FALSE(invalidator.numbers().sent == 0);
  invalidator.join();
  EXPECT_TRUE(invalidator.idle());
  for (const auto& node : nodes) EXPECT_EQ(client::NodeTableAccess::references(*node.get()), 2u);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
