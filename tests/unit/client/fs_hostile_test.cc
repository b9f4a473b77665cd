// SPDX-License-Identifier: Apache-2.0
// Replies that no server should send: truncated, damaged, unrequested. They cost at most their own request
// (EIO) or the connection. They never cause a hang or a crash, and never end the mount.
#include <algorithm>
#include <random>

#include "tests/unit/client/support/situations.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
namespace on = filer::on;
namespace fault = filer::fault;

class Hostile : public testing::TestWithParam<Situation> {
 protected:
  // No caches, so that attempts are independent. The client is not responsible for leftovers on the server,
  // because it never learnt of them.
  std::unique_ptr<TestMount> mount(filer::Server& server) {
    auto m = std::make_unique<TestMount>(server, TestMount::Settings{.options = [](client::ClientOptions& o) {
                                           // Lost replies cost this time; a busy machine needs less.
                                           o.timeo = 500ms;
                                           o.retrans = 0;
                                           o.acdirmin = o.acdirmax = std::chrono::seconds(0);
                                         }});
    m->expect_leftovers();
    return m;
  }
  // The size of a reply without a fault.
  size_t reply_bytes(filer::Server& server, TestMount& m) {
    size_t bytes = 0;
    server.faults().add(on::reply_to(GetParam().op),
                        fault::Mangle{[&bytes](ByteVector& r) { bytes = r.size(); }});
    prepare(server, GetParam(), "measured");
    EXPECT_EQ(GetParam().act(m, "measured"), 0);
    return bytes;
  }
  // Runs with the fault, and checks that everything works afterwards.
  void attempt(filer::Server& server, TestMount& m, const std::string& name,
               const filer::FaultAction& action) {
    prepare(server, GetParam(), name);
    const auto rule = server.faults().add(on::reply_to(GetParam().op), action);
    (void)GetParam().act(m, name);
    EXPECT_EQ(server.faults().fired(rule), 1u) << name;
    EXPECT_TRUE(m.lookup(name)) << name;
  }
};

// tests/unit/xdr cuts the decoders' input at every byte. Here a step of 7 cuts each field at each of its
// bytes.
TEST_P(Hostile, ReplyCutAnywhere_CostsAtMostTheRequest) {
  auto server = start_filer();
  const auto m = mount(*server);
  const size_t bytes = reply_bytes(*server, *m);
  ASSERT_GT(bytes, 24u);
  for (size_t n = 0; n < bytes; n += 7)
    attempt(*server, *m, "cut at " + std::to_string(n), fault::truncate_to(n));
}

TEST_P(Hostile, ReplyDamagedAtEveryWord_CostsAtMostTheRequest) {
  auto server = start_filer();
  const auto m = mount(*server);
  const size_t bytes = reply_bytes(*server, *m);
  for (size_t at = 4; at + 4 <= bytes; at += 4) {
    constexpr uint32_t kValues[] = {0u, 0xffffffffu, 0x7fffffffu, 0x01000000u};
    const uint32_t value = kValues[at / 4 % std::size(kValues)];
    attempt(*server, *m, std::to_string(at) + " is " + std::to_string(value),
            fault::Mangle{[at, value](ByteVector& r) { store_be32(r.data() + at, value); }});
  }
}

TEST_P(Hostile, ReplyTooLong_IsTheReplyOrAnError) {
  auto server = start_filer();
  const auto m = mount(*server);
  for (const size_t n : {1u, 4u, 100u, 70'000u}) {
    attempt(*server, *m, "longer by " + std::to_string(n), fault::extend_by(n));
  }
}

TEST_P(Hostile, UnaskedMessages_AreIgnored) {
  auto server = start_filer();
  const auto m = mount(*server);
  int n = 0;
  attempt(*server, *m, std::to_string(++n), fault::Duplicate{3});
  attempt(*server, *m, std::to_string(++n), fault::call_flood(5));
  attempt(*server, *m, std::to_string(++n),
          fault::Extra{{ByteVector(3), ByteVector(40)}, {ByteVector(4), ByteVector(400)}, false});
}

TEST_P(Hostile, BrokenFraming_CostsTheConnection) {
  auto server = start_filer();
  const auto m = mount(*server);
  int n = 0;
  attempt(*server, *m, std::to_string(++n), fault::oversized_record(0x7fffffff));
  attempt(*server, *m, std::to_string(++n), fault::garbage(1000));
}

TEST_P(Hostile, RefusedByRpc_IsAnError) {
  for (const rpc::accept_stat stat :
       {rpc::PROG_UNAVAIL, rpc::PROC_UNAVAIL, rpc::GARBAGE_ARGS, rpc::SYSTEM_ERR}) {
    auto server = start_filer();
    const auto m = mount(*server);
    rpc::reply_header header;
    header.accepted = stat;
    prepare(*server, GetParam(), "place");
    server->faults().add(on::request_with(GetParam().op), fault::RefuseRpc{header});
    (void)GetParam().act(*m, "place");
    EXPECT_TRUE(m->lookup("place"));
  }
}

// Any status, of the operation and of SEQUENCE: an error, or recovery and success, within a time limit.
TEST_P(Hostile, AnyStatus_IsAnErrorOrRecoveredFrom) {
  auto server = start_filer();
  const auto m = mount(*server);
  for (uint32_t status = 1; status < 10100; status = status == 100 ? 10000 : status + 1) {
    if (status == NFS4ERR_DELAY || status == NFS4ERR_GRACE) continue;  // see fs_delay_test.cc
    const std::string name = "status " + std::to_string(status);
    prepare(*server, GetParam(), name);
    server->faults().add(on::request_with(GetParam().op), fault::Answer{GetParam().op, nfsstat4{status}});
    (void)GetParam().act(*m, name);
  }
  EXPECT_EQ(m->write_file("afterwards", "works"), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Hostile, testing::ValuesIn(situations()),
                         [](const auto& param) { return std::string(param.param.name); });

// --- names that no file can have: the kernel rejects the rest of the reply and never forgets its lookups ---

TEST(HostileListing, ImpossibleNames_AreLeftOut) {
  for (const char odd : {'/', '\0'}) {
    for (const char* place : {"a?", "b?", "c?"}) {  // the first, one between others, the last
      auto server = start_filer();
      for (const char* name : {"a_", "b_", "c_"}) {
        std::string called = name;
        if (called[0] == place[0]) called[1] = '?';
        server->make_file("/export/" + called, "text");
      }
      TestMount mount(*server);
      server->faults().add(on::reply_to(OP_READDIR), fault::Mangle{[&](ByteVector& reply) {
                             const ByteVector name{std::byte(place[0]), std::byte{'?'}};
                             const auto found =
                                 std::search(reply.begin(), reply.end(), name.begin(), name.end());
                             ASSERT_NE(found, reply.end());
                             found[1] = std::byte(odd);
                           }});
      auto listed = mount.list("");
      std::ranges::sort(listed);
      std::vector<std::string> expected{"a_", "b_", "c_"};
      std::erase_if(expected, [&](const std::string& name) { return name[0] == place[0]; });
      EXPECT_EQ(listed, expected) << place;
    }
  }
}

TEST(HostileListing, AnswersOfImpossibleNamesOnly_AreNotTheEnd) {
  constexpr unsigned kMany = 3000;
  auto server = start_filer();
  server->make_file("/export/first", "");
  for (unsigned i = 0; i < kMany; ++i)
    server->make_file("/export/a?" + std::to_string(i) + std::string(200, 'x'), "");
  server->make_file("/export/last", "");
  TestMount mount(*server);
  server->faults().add(on::reply_to(OP_READDIR).always(), fault::Mangle{[](ByteVector& reply) {
                         const ByteVector name{std::byte{'a'}, std::byte{'?'}};
                         for (auto at = reply.begin();;) {
                           const auto found = std::search(at, reply.end(), name.begin(), name.end());
                           if (found == reply.end()) break;
                           found[1] = std::byte{'/'};
                           at = found + 2;
                         }
                       }});
  auto listed = mount.list("");
  std::ranges::sort(listed);
  EXPECT_EQ(listed, (std::vector<std::string>{"first", "last"}));
  EXPECT_GT(mount.requests("READDIR"), 2u) << "one of them has none else";
}

// --- lost and late replies ---

TEST(HostileTiming, RepliesOutOfOrder_FindTheirRequests) {
  auto server = start_filer();
  for (int i = 0; i < 20; ++i) server->make_file("/export/" + std::to_string(i), std::to_string(i));
  TestMount mount(*server);
  server->faults().add(on::reply_to(OP_LOOKUP).times(5), fault::HoldBehind{2});
  std::vector<std::future<Result<client::Entry>>> lookups;
  for (int i = 0; i < 20; ++i) {
    lookups.push_back(mount.start(mount.fs().lookup(mount.user(), mount.root(), std::to_string(i))));
  }
  for (int i = 0; i < 20; ++i) {
    const auto entry = lookups[static_cast<size_t>(i)].get();
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->attributes.size, std::to_string(i).size());
  }
}

// A reply never arrives on a connection that stays up: nfs(5)'s timeo and retrans decide when the client
// closes it.
TEST(HostileTiming, ReplyThatNeverComes_IsHadOverTheNextConnection) {
  auto server = start_filer();
  TestMount mount(*server, {.options = [](client::ClientOptions& o) {
    o.timeo = 200ms;
    o.retrans = 1;
  }});
  server->faults().add(on::reply_to(OP_CREATE), fault::Drop{});
  EXPECT_EQ(mount.mkdir("d"), 0);
  EXPECT_EQ(server->executed(OP_CREATE).succeeded, 1u);
}

TEST(HostileTiming, SoftMount_SaysWhenItsPatienceIsOver) {
  auto server = start_filer();
  TestMount mount(*server, {.options = [](client::ClientOptions& o) {
    o.soft = true;
    o.timeo = 100ms;
    o.retrans = 1;
  }});
  EXPECT_FALSE(mount.fs().soft_timed_out());
  EXPECT_EQ(mount.fs().soft_errno(), EIO);
  const auto rule = server->faults().add(on::request_with(OP_CREATE).always(), fault::Stall{});
  auto made = mount.start(mount.fs().mkdir(mount.user(), mount.root(), "d", 0755));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  ASSERT_TRUE(eventually([&] { return mount.fs().soft_timed_out(); }));
  EXPECT_TRUE(mount.fs().soft_timed_out());
  EXPECT_FALSE(mount.fs().responding());
  server->faults().clear();
  server->faults().release_all();
  server->faults().release(rule);
  EXPECT_TRUE(made.get()) << "the request itself runs on to its answer";
  EXPECT_FALSE(mount.fs().soft_timed_out());
}

// Random damage to random replies of all kinds, for a while.
TEST(HostileMix, AnythingDamaged_LeavesTheMountUsable) {
  auto server = start_filer();
  TestMount mount(*server, {.loops = 4, .options = [](client::ClientOptions& o) {
                              o.timeo = 500ms;
                              o.retrans = 0;
                            }});
  mount.expect_leftovers();
  std::minstd_rand random(7);
  std::mutex mutex;
  const auto damage = [&random, &mutex](ByteVector& r) {
    std::lock_guard lock(mutex);
    if (random() % 8 != 0 || r.size() < 28) return;
    for (unsigned i = 0; i <= random() % 3; ++i)
      r[4 + random() % (r.size() - 4)] = static_cast<std::byte>(random());
  };
  const auto rule = server->faults().add(on::any_reply().always(), fault::Mangle{damage});
  const auto& all = situations();
  for (int round = 0; round < 8; ++round) {
    for (const Situation& s : all) {
      const std::string name = std::to_string(round) + " " + s.name;
      prepare(*server, s, name);
      (void)s.act(mount, name);
    }
  }
  EXPECT_GT(server->faults().fired(rule), 500u);
  server->faults().clear();
  EXPECT_EQ(mount.write_file("afterwards", "works"), 0);
  EXPECT_EQ(mount.read_file("afterwards"), "works");
}

}  // namespace
}  // namespace nfsrdma::test
