// SPDX-License-Identifier: Apache-2.0
// Exactly once (RFC 8881 section 2.10.6): a request that was executed before the connection was cut is not
// executed again. The application gets its result, and not an error that our own success causes.
#include "tests/unit/client/support/situations.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::fault::Cut;
namespace on = filer::on;

class ExactlyOnce : public testing::TestWithParam<std::tuple<unsigned, Situation>> {
 protected:
  unsigned loops() const { return std::get<0>(GetParam()); }
  const Situation& situation() const { return std::get<1>(GetParam()); }

  struct Outcome {
    int error = 0;
    uint64_t executed = 0;
    std::map<std::string, std::string> files;
    size_t states = 0;  // left on the server
    uint64_t replays = 0;
  };
  Outcome run(const std::function<void(filer::Server&)>& disturb = nullptr) {
    auto server = start_filer();
    TestMount mount(*server, {.loops = loops()});
    prepare(*server, situation(), "place");
    const auto before = server->executed(situation().op).succeeded;
    if (disturb) disturb(*server);
    Outcome outcome;
    outcome.error = situation().act(mount, "place");
    outcome.executed = server->executed(situation().op).succeeded - before;
    outcome.files = contents(*server, "/export/place");
    outcome.states = server->states().size();
    outcome.replays = server->replays();
    return outcome;
  }
  // The result is the same as without the fault.
  void expect_undisturbed(const Outcome& outcome) {
    const Outcome undisturbed = run();
    EXPECT_EQ(undisturbed.error, 0);
    EXPECT_GE(undisturbed.executed, 1u);
    EXPECT_EQ(outcome.error, 0);
    // WRITE and COMMIT are idempotent, so the server need not cache their replies (sa_cachethis, RFC 8881
    // section 2.10.6.1.3).
    if (situation().op == OP_WRITE || situation().op == OP_COMMIT) {
      EXPECT_GE(outcome.executed, undisturbed.executed);
    } else {
      EXPECT_EQ(outcome.executed, undisturbed.executed);
    }
    EXPECT_EQ(outcome.files, undisturbed.files);
    EXPECT_EQ(outcome.states, undisturbed.states);
  }
};

TEST_P(ExactlyOnce, ReplyLostWithTheConnection_IsNotExecutedAgain) {
  for (const bool abort : {false, true}) {
    const Outcome outcome =
        run([&](filer::Server& server) { server.faults().add(on::reply_to(situation().op), Cut{abort}); });
    expect_undisturbed(outcome);
    EXPECT_EQ(outcome.replays, 1u) << "answered from the reply cache";
  }
}

TEST_P(ExactlyOnce, RequestLostWithTheConnection_IsExecutedOnce) {
  expect_undisturbed(
      run([&](filer::Server& server) { server.faults().add(on::request_with(situation().op), Cut{}); }));
}

TEST_P(ExactlyOnce, ReplyLostThreeTimes_IsNotExecutedAgain) {
  const Outcome outcome =
      run([&](filer::Server& server) { server.faults().add(on::reply_to(situation().op).times(3), Cut{}); });
  expect_undisturbed(outcome);
  EXPECT_EQ(outcome.replays, 3u);
}

// The server restarts after it executed the request. Its reply cache is gone, and the request is repeated in
// a new session. Success must not be reported as EEXIST or ENOENT, and nothing may stay open.
TEST_P(ExactlyOnce, ServerRestartsBeforeTheReply_IsNotReportedAsAFailure) {
  const Outcome undisturbed = run();
  const Outcome outcome = run([&](filer::Server& server) {
    server.faults().add(on::reply_to(situation().op), filer::fault::Restart{});
  });
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.files, undisturbed.files);
  EXPECT_EQ(outcome.states, undisturbed.states);
}

TEST_P(ExactlyOnce, SessionLostWithTheReply_IsNotReportedAsAFailure) {
  const Outcome undisturbed = run();
  const Outcome outcome = run([&](filer::Server& server) {
    // The reply is lost with its connection, and the session is gone when the client reconnects.
    server.faults().add(on::reply_to(situation().op), filer::fault::Call{[&server] {
                          for (const auto& c : server.clients()) {
                            for (const auto& s : c.sessions) server.forget_session(s);
                          }
                        }});
    server.faults().add(on::reply_to(situation().op), Cut{});
  });
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.files, undisturbed.files);
  EXPECT_EQ(outcome.states, undisturbed.states);
}

INSTANTIATE_TEST_SUITE_P(All, ExactlyOnce,
                         testing::Combine(testing::Values(1u, 4u), testing::ValuesIn(changing_situations())),
                         [](const auto& param) {
                           return std::string(std::get<1>(param.param).name) + "On" +
                                  std::to_string(std::get<0>(param.param)) + "Loops";
                         });

// --- failures caused by other clients stay failures ---

TEST(ExactlyOnceLimits, NameOfSomebodyElse_IsStillInTheWayAfterARestart) {
  auto server = start_filer();
  TestMount mount(*server);
  server->make_directory("/export/d");
  server->make_file("/export/d/occupied", "");
  server->faults().add(on::request_with(OP_CREATE), filer::fault::Restart{});
  EXPECT_EQ(mount.mkdir("d"), EEXIST) << "there was one before, with something in it";
}

TEST(ExactlyOnceLimits, ObjectOfSomebodyElse_IsNotTakenForOwn) {
  auto server = start_filer();
  server->make_directory("/export/old", 0755);
  server->advance_clock(std::chrono::seconds(10));
  server->make_file("/export/younger", "");
  TestMount mount(*server);
  const auto restarts_at = [&](nfs_opnum4 op) {
    server->faults().add(on::request_with(op), filer::fault::Restart{});
  };
  restarts_at(OP_CREATE);
  EXPECT_EQ(mount.mkdir("old", 0755), EEXIST) << "the directory has changed since it was made";
  server->make_directory("/export/other mode", 0700);
  restarts_at(OP_CREATE);
  EXPECT_EQ(mount.mkdir("other mode", 0755), EEXIST);
  server->make_symlink("/export/link", "elsewhere");
  restarts_at(OP_CREATE);
  EXPECT_EQ(mount.symlink("here", "link"), EEXIST);
  server->make_file("/export/file", "");
  restarts_at(OP_CREATE);
  EXPECT_EQ(mount.symlink("here", "file"), EEXIST);
}

// A squashed user's objects have another owner. The client learns it from earlier objects.
TEST(ExactlyOnceLimits, ObjectsOfASquashedUser_AreKnownAsItsOwn) {
  auto server = start_filer();
  server->configure([](filer::nfs::Switches& s) { s.anonymous_root = true; });
  TestMount mount(*server);
  ASSERT_EQ(mount.mkdir("first"), 0);
  ASSERT_NE(mount.stat("first")->uid, 0u) << "root is squashed";
  const auto restarts_after = [&](nfs_opnum4 op) {
    server->faults().add(on::reply_to(op), filer::fault::Restart{});
  };
  restarts_after(OP_CREATE);
  EXPECT_EQ(mount.mkdir("directory"), 0);
  restarts_after(OP_CREATE);
  EXPECT_EQ(mount.symlink("target", "link"), 0);
  restarts_after(OP_CREATE);
  EXPECT_EQ(errno_of(mount.run(mount.fs().mknod(mount.user(), mount.root(), "fifo", S_IFIFO | 0600, 0, 0))),
            0);
  EXPECT_EQ(server->list("/export").size(), 4u);
}

TEST(ExactlyOnceLimits, RenameOfWhatWasNeverThere_IsStillAnError) {
  auto server = start_filer();
  TestMount mount(*server);
  server->make_file("/export/b", "");
  server->faults().add(on::request_with(OP_RENAME), filer::fault::Restart{});
  EXPECT_EQ(mount.rename("a", "b"), ENOENT);
}

// Many writers, and the connection is cut at every 7th reply: each record is written once, at its place.
TEST(ExactlyOnceAppends, UnderRepeatedCuts_LoseAndRepeatNothing) {
  auto server = start_filer();
  TestMount mount(*server, {.loops = 4});
  const auto file = mount.create("log", O_WRONLY | O_SYNC);
  std::string expected;
  std::vector<std::string> records;
  for (int i = 0; i < 60; ++i) records.push_back("record " + std::to_string(1000 + i) + "\n");
  auto replies = std::make_shared<std::atomic<unsigned>>(0);
  const auto every_seventh = [replies](const filer::FaultEvent&) { return ++*replies % 7 == 0; };
  const auto rule = server->faults().add(on::reply_to(OP_WRITE).times(8).if_(every_seventh), Cut{});
  std::vector<std::future<Result<>>> writes;
  for (const std::string& record : records) {
    writes.push_back(mount.start(mount.write_task(file, expected.size(), record)));
    expected += record;
  }
  for (auto& write : writes) EXPECT_EQ(errno_of(write.get()), 0);
  EXPECT_EQ(mount.close(file), 0);
  EXPECT_EQ(server->read_file("/export/log"), expected);
  EXPECT_EQ(server->faults().fired(rule), 8u);
}

}  // namespace
}  // namespace nfsrdma::test
