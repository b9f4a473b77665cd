// SPDX-License-Identifier: Apache-2.0
// Delegations and the back channel of a mount: CB_GETATTR for a file that is written here, recalls that
// overtake the OPEN, and a missing back channel (RFC 8881 sections 2.10.6.3, 10.2, 10.4.3).
#include <thread>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using filer::state::StateKind;
namespace fault = filer::fault;
namespace on = filer::on;

class BackChannelLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
    server->make_file("/export/file", "content", 0666);
    make_mount();
  }
  void make_mount() {
    mount.reset();
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }
  client::DelegationStatistics numbers() { return mount->fs().statistics().delegations; }
  std::vector<filer::StateFacts> delegations() { return live_states(*server, StateKind::kDelegation); }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

// --- CB_GETATTR (sections 10.4.3, 20.1) ---

class DelegatedAttributes : public BackChannelLoops {
 protected:
  void SetUp() override {
    BackChannelLoops::SetUp();
    file = mount->open("file", O_RDWR);
    ASSERT_EQ(numbers().held_write, 1u);
    before = *server->stat("/export/file");
    writing = server->faults().add(on::request_with(OP_WRITE).always(), fault::Stall{});
  }
  void TearDown() override {
    server->faults().release(writing);
    EXPECT_EQ(mount->close(std::move(file)), 0);
  }
  client::Attributes seen_by_another_client() {
    TestMount other(*server);
    const auto seen = other.stat("file");
    EXPECT_TRUE(seen) << describe(seen.error());
    return seen ? *seen : client::Attributes();
  }
  void expect_only_asked() {
    EXPECT_EQ(numbers().recalled, 0u);
    EXPECT_EQ(numbers().held_write, 1u);
  }

  client::OpenFileRef file;
  filer::FileFacts before;
  filer::FaultPlan::RuleId writing = 0;
};

// Section 10.4.3: "the client holding the OPEN_DELEGATE_WRITE delegation may have modified the data, and the
// server needs to reflect this change to the second client". "The client will create a value greater than c
// that will be used for communicating that modified data is held at the client."
TEST_P(DelegatedAttributes, WhileAWriteIsUnderWay_TellWhatIsWritten) {
  ASSERT_EQ(mount->write(file, 0, std::string(200'000, 'w')), 0);
  ASSERT_TRUE(server->faults().wait_fired(writing));
  const auto seen = seen_by_another_client();
  EXPECT_EQ(seen.size, 200'000u);
  EXPECT_GT(seen.change, before.change);
  EXPECT_EQ(server->stat("/export/file")->size, before.size) << "the server has none of it yet";
  expect_only_asked();
}

// Section 10.4.3: "the client will report its current view of the file size."
TEST_P(DelegatedAttributes, WhileWhatIsWrittenIsHeldBack_TellOfIt) {
  ASSERT_EQ(mount->write(file, before.size, " and more"), 0);
  const auto seen = seen_by_another_client();
  EXPECT_EQ(seen.size, before.size + 9);
  EXPECT_GT(seen.change, before.change);
  EXPECT_EQ(server->executed(OP_WRITE).executed, 0u);
  expect_only_asked();
}

// If a write does not change the size, only the change attribute shows it.
TEST_P(DelegatedAttributes, OfAFileThatKeepsItsSize_TellThatItIsAnother) {
  ASSERT_EQ(mount->write(file, 0, "CONTENT"), 0);
  const auto seen = seen_by_another_client();
  EXPECT_EQ(seen.size, before.size);
  EXPECT_GT(seen.change, before.change);
  expect_only_asked();
}

// Section 10.4.3: "If this file is not currently modified, the client returns the value c for the change
// attribute."
TEST_P(DelegatedAttributes, OfWhatNobodyHasWritten_AreTheServers) {
  EXPECT_EQ(seen_by_another_client().change, before.change);
  server->faults().release(writing);
  ASSERT_EQ(mount->write(file, 0, std::string(200'000, 'w')), 0);
  ASSERT_EQ(mount->fsync(file), 0);
  const auto written = *server->stat("/export/file");
  const auto seen = seen_by_another_client();
  EXPECT_EQ(seen.size, written.size);
  EXPECT_EQ(seen.change, written.change) << "all that was written is there";
  expect_only_asked();
}

INSTANTIATE_TEST_SUITE_P(Loops, DelegatedAttributes, testing::Values(1u, 4u));

// --- recalls that overtake the OPEN (section 2.10.6.3) ---

using OvertakenOpen = BackChannelLoops;

// "It is possible for server callbacks to arrive at the client before the reply from related fore channel
// operations." The recall "MUST carry an array of these referring identifiers"; there are servers that name
// none.
TEST_P(OvertakenOpen, ByARecallThatNamesNoReferringCall_TheRecallIsHeeded) {
  filer::nfs::Callback behind;
  behind.ops = {{CB_WANTS_CANCELLED4args{}}};
  server->wait_callback(*server->call_back(behind));  // over RDMA the first reply grants more than one credit
  const auto node = mount->node("file");
  const auto answering = server->faults().add(on::reply_to(OP_OPEN), fault::Stall{});
  auto opening = start_on(mount->loops()[0], mount->fs().open(mount->user(), node, O_RDONLY));
  ASSERT_TRUE(server->faults().wait_fired(answering));
  ASSERT_EQ(delegations().size(), 1u);
  filer::nfs::Callback recall;
  recall.ops = {{CB_RECALL4args{delegations()[0].id, false, server->stat("/export/file")->handle}}};
  const auto id = server->call_back(recall);
  ASSERT_TRUE(id);
  // The callback behind the recall is answered after the recall's search has failed.
  behind.done = [&](const CB_COMPOUND4res&) { server->faults().release(answering); };
  ASSERT_TRUE(server->call_back(behind));
  EXPECT_EQ(server->wait_callback(*id).reply.status, NFS4_OK);
  const auto opened = opening.get();
  ASSERT_TRUE(opened) << describe(opened.error());
  EXPECT_TRUE(server->wait_until(
      [](filer::nfs::Core& core) { return core.journal.count(OP_DELEGRETURN).succeeded == 1; }));
  EXPECT_TRUE(delegations().empty());
  EXPECT_EQ(*mount->read(opened->file), "content");
  EXPECT_EQ(numbers().recalled, 1u);
  EXPECT_EQ(mount->close(opened->file), 0);
}

// One connection, so that callbacks arrive in the order of sending.
INSTANTIATE_TEST_SUITE_P(OneLoop, OvertakenOpen, testing::Values(1u));

// --- without a back channel (sections 10.2, 18.34, 18.36) ---

// Section 10.2: "Because the backchannel may be down, even temporarily, correct protocol operation does not
// depend on them." A delegation that could not be recalled is not asked for.
class WithoutABackChannel : public BackChannelLoops {
 protected:
  void SetUp() override {
    BackChannelLoops::SetUp();
    for (const char* name : {"second", "third"})
      server->make_file("/export/" + std::string(name), "content", 0666);
    server->faults().add(on::reply_to(OP_OPEN).always(),
                         fault::Mangle{[this](ByteVector& reply) { note_why_none(reply); }});
  }
  // The server's reason for granting no delegation, from the reply to the OPEN that it just executed.
  void note_why_none(const ByteVector& reply) {
    xdr::Decoder x(reply);
    rpc::reply_header header;
    COMPOUND4res res;
    ASSERT_TRUE(x(header) && x(res));
    for (const nfs_resop4& op : res.resarray) {
      const auto* open = std::get_if<OPEN4res>(&op.op);
      if (open == nullptr) continue;
      const open_delegation4& d = open->resok4.delegation;
      not_wanted = d.delegation_type == OPEN_DELEGATE_NONE_EXT && d.ond_why == WND4_NOT_WANTED;
    }
  }
  void bind_anew(bool with_back_channel) {
    server->configure([=](filer::nfs::Switches& s) { s.back_channels = with_back_channel; });
    server->drop_connections();
    EXPECT_TRUE(mount->run(mount->fs().statfs(mount->user(), mount->root())));
    const auto bound = [&] { return mount->fs().statistics().session.back_channel == with_back_channel; };
    ASSERT_TRUE(eventually(bound));
  }
  void expect_asked_for(const std::string& name, bool asked) {
    const auto held = delegations().size();
    EXPECT_EQ(mount->read_file(name), "content");
    EXPECT_EQ(not_wanted, !asked) << name;
    EXPECT_EQ(delegations().size(), held + (asked ? 1 : 0)) << name;
  }

  std::atomic<bool> not_wanted{false};
};

using SessionWithoutABackChannel = WithoutABackChannel;

// Section 18.36.3: "If the server agrees, it sets CREATE_SESSION4_FLAG_CONN_BACK_CHAN in the result field
// csr_flags."
TEST_P(SessionWithoutABackChannel, NoDelegationIsAskedForUntilItIsBound) {
  mount.reset();
  server->configure([](filer::nfs::Switches& s) { s.back_channels = false; });
  // SEQUENCE's flags report no back channel, and the client tries to bind one. Another test covers the reply
  // to that.
  const auto binding = server->faults().add(on::request_with(OP_BIND_CONN_TO_SESSION), fault::Stall{});
  make_mount();
  expect_asked_for("file", false);
  server->faults().release(binding);
  bind_anew(true);
  expect_asked_for("file", true);
}

TEST_P(WithoutABackChannel, AfterALostConnection_NoDelegationIsAskedForUntilItIsBound) {
  expect_asked_for("file", true);
  bind_anew(false);
  expect_asked_for("second", false);
  bind_anew(true);
  expect_asked_for("third", true);
}

INSTANTIATE_TEST_SUITE_P(OneLoop, SessionWithoutABackChannel, testing::Values(1u));
INSTANTIATE_TEST_SUITE_P(Loops, WithoutABackChannel, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
