// SPDX-License-Identifier: Apache-2.0
// Delegations that are granted again, forgotten, or cannot be recalled: the effects of a server restart, an
// upgrade or a lost back channel (RFC 8881 sections 8.3, 8.4.2, 10.2.1, 10.4, 18.16.3).
#include <algorithm>
#include <cstring>

#include "tests/unit/client/support/delegation_mount.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/rpc_bytes.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using client::LockType;
using filer::fault::Mangle;
using filer::fault::Stall;
using filer::state::StateKind;
namespace on = filer::on;

class AgainLoops : public DelegationLoops {
 protected:
  std::future<Result<>> start_lock(const client::OpenFileRef& file) {
    return mount->start(
        mount->fs().setlk(mount->user(), file, 1, {LockType::kWrite, 0, 9, TestMount::process(1)}, false));
  }
  size_t revoked_states() {
    return static_cast<size_t>(std::ranges::count_if(server->states(), [](const filer::StateFacts& s) {
      return s.revoked != filer::state::Revoked::kNo;
    }));
  }
  // Repeats a request that returns the server's status flags, and gives the client time to react to them.
  bool until_none_is_revoked() {
    return eventually([&] {
      (void)mount->run(mount->fs().statfs(mount->user(), mount->root()));
      return revoked_states() == 0;
    });
  }
  void grant_again(ByteVector& reply);
  using Opening = std::future<Result<client::CreateReply>>;
  std::shared_ptr<Opening> answer_late_what_is_upgraded();
  filer::FaultPlan::RuleId late{};
};

// Replaces the first `from` in the message by `to`.
bool replace(ByteVector& message, ConstBytes from, ConstBytes to) {
  const auto at = std::search(message.begin(), message.end(), from.begin(), from.end());
  if (at == message.end()) return false;
  const auto place = message.erase(at, at + static_cast<std::ptrdiff_t>(from.size()));
  message.insert(place, to.begin(), to.end());
  return true;
}

// Section 10.2: a promise ends when "the server may have revoked it", until the delegation is reclaimed.
TEST_P(AgainLoops, WhileStateIsReclaimed_NothingForgottenVouches) {
  start_with_a_short_lease();
  server->configure([](filer::nfs::Switches& s) { s.expiry = filer::nfs::Expiry::kForgetClient; });
  server->make_file("/export/a", "content", 0666);
  server->make_file("/export/b", "content", 0666);
  const auto a = mount->open("a", O_RDWR), b = mount->open("b", O_RDWR);
  ASSERT_EQ(numbers().held_write, 2u);
  cut_off_for_longer_than_the_lease();
  for (const auto& c : server->clients()) server->expire_lease(c.id);
  {
    TestMount other(*server);
    const auto theirs_a = other.open("a", O_RDWR), theirs_b = other.open("b", O_RDWR);
    ASSERT_EQ(other.lock(theirs_a, LockType::kWrite, 0, 9), 0);
    ASSERT_EQ(other.lock(theirs_b, LockType::kWrite, 0, 9), 0);
    const auto second = server->faults().add(on::request_with(OP_OPEN).nth(2), Stall{});
    const uint64_t local = numbers().local_opens;
    server->pause_reading(false);
    ASSERT_TRUE(server->faults().wait_fired(second));
    auto lock_a = start_lock(a), lock_b = start_lock(b);
    auto open_a = mount->start(mount->fs().open(mount->user(), client::cached_open(a).node, O_RDONLY));
    auto open_b = mount->start(mount->fs().open(mount->user(), client::cached_open(b).node, O_RDONLY));
    mount->turn_every_loop();
    EXPECT_NE(lock_a.wait_for(0s), std::future_status::ready);
    EXPECT_NE(lock_b.wait_for(0s), std::future_status::ready);
    EXPECT_EQ(numbers().local_opens, local);
    server->faults().release(second);
    EXPECT_EQ(errno_of(lock_a.get()), EAGAIN);
    EXPECT_EQ(errno_of(lock_b.get()), EAGAIN);
    for (auto* opening : {&open_a, &open_b}) {
      auto opened = opening->get();
      if (opened) mount->close(opened->file, 7);
    }
    other.close(theirs_a);
    other.close(theirs_b);
  }
  mount->close(a);
  mount->close(b);
  mount->expect_leftovers();
}

// Section 18.46.3: "... due to server restart, the client must reclaim locking state". The session survives,
// so pending calls are answered first.
TEST_P(AgainLoops, WhileAKeptSessionsCallsAreAnswered_NothingForgottenVouches) {
  server->configure([](filer::nfs::Switches& s) { s.keep_sessions_on_restart = true; });
  server->make_file("/export/other", "content", 0666);
  const auto file = mount->open("file", O_RDWR), other = mount->open("other", O_RDONLY);
  ASSERT_EQ(numbers().held_write + numbers().held_read, 2u);
  server->restart();
  const auto stall = server->faults().add(on::reply_to(OP_READ), Stall{});
  auto reading = mount->start(mount->fs().read(mount->user(), other, 0, 100));
  ASSERT_TRUE(server->faults().wait_fired(stall));
  auto asking = mount->start(mount->fs().statfs(mount->user(), mount->root()));
  EXPECT_TRUE(eventually([&] { return !mount->fs().statistics().session.lease_holds; })) << "by that answer";
  auto locking = start_lock(file);
  mount->turn_every_loop();
  EXPECT_NE(locking.wait_for(0s), std::future_status::ready);
  server->faults().release(stall);
  EXPECT_TRUE(reading.get());
  EXPECT_TRUE(asking.get());
  EXPECT_TRUE(locking.get());
  mount->close(other);
  mount->close(file);
  mount->expect_leftovers();
}

// Section 18.46.3: the flag stays set until the client acknowledges the revocation.
TEST_P(AgainLoops, RevokedOpenThatOnlyTheDelegationKeeps_IsAcknowledged) {
  server->make_file("/export/other", "content", 0666);
  EXPECT_EQ(mount->read_file("file"), "content");
  ASSERT_EQ(numbers().held_read, 1u);
  const auto file = mount->open("other", O_RDWR);
  server->with_core([](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind == StateKind::kOpen && (s.access & OPEN4_SHARE_ACCESS_WRITE) == 0)
        core.states.revoke(s, filer::state::Revoked::kAdmin);
    });
  });
  ASSERT_EQ(revoked_states(), 1u);
  EXPECT_TRUE(until_none_is_revoked());
  EXPECT_EQ(mount->read_file("file"), "content");
  mount->close(file);
  mount->expect_leftovers();
}

// Section 10.2.1: a server may grant less in a reclaim than the client had. What the lost part covered is
// reclaimed.
TEST_P(AgainLoops, WriteDelegationThatComesBackAsOneForReading_LeavesNoLockBehind) {
  const auto file = mount->open("file", O_RDWR);
  auto second = mount->run(mount->fs().open(mount->user(1000, 1000), mount->node("file"), O_RDWR));
  ASSERT_TRUE(second);
  ASSERT_EQ(mount->lock(second->file, LockType::kWrite, 100, UINT64_MAX, 2), 0);
  ASSERT_EQ(live(StateKind::kLock).size(), 0u);
  // OPEN_DELEGATE_WRITE's space limit is 21 bytes behind the type; stateid and recall are in between.
  server->faults().add(on::reply_to(OP_OPEN), Mangle{[](ByteVector& reply) {
                         const ByteVector limit = words({1, 0xffffffff, 0xffffffff});
                         const auto at = std::search(reply.begin(), reply.end(), limit.begin(), limit.end());
                         ASSERT_NE(at, reply.end());
                         const auto begin = at - reply.begin();
                         *(at - 21) = std::byte{1};
                         reply.erase(reply.begin() + begin, reply.begin() + begin + 12);
                       }});
  server->restart();
  EXPECT_EQ(mount->read(file, 0, 3).value_or("error"), "con");
  server->with_core([](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind == StateKind::kDelegation) s.write = false;
    });
  });
  EXPECT_TRUE(eventually([&] { return live(StateKind::kLock).size() == 1; }));
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 100, 200, 3), EAGAIN);
  TestMount other(*server);
  const auto theirs = other.open("file", O_RDONLY);
  EXPECT_EQ(other.lock(theirs, LockType::kRead, 100, 200), EAGAIN);
  other.close(theirs);
  mount->close(second->file, 2);
  mount->close(file);
  mount->expect_leftovers();
}

// Upgrades the delegation at the server, and puts it into the reply.
void AgainLoops::grant_again(ByteVector& reply) {
  open_delegation4 granted;
  granted.delegation_type = OPEN_DELEGATE_WRITE;
  granted.space_limit.limitby = NFS_LIMIT_SIZE;
  granted.space_limit.filesize = NFS4_UINT64_MAX;
  granted.permissions.who = "EVERYONE@";
  server->with_core([&](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind != StateKind::kDelegation) return;
      s.write = true;
      granted.stateid = core.states.advance(s);
    });
  });
  ByteVector bytes;
  xdr::Encoder encoder(bytes);
  encoder(granted);
  ASSERT_TRUE(replace(reply, words({OPEN_DELEGATE_NONE_EXT, WND4_NOT_SUPP_UPGRADE}), bytes));
}

// Opens one file by two names that the client takes for two files. The reply to the first OPEN waits until
// `late` is released. The client holds what the second OPEN upgraded.
std::shared_ptr<AgainLoops::Opening> AgainLoops::answer_late_what_is_upgraded() {
  {
    TestMount other(*server);
    EXPECT_EQ(other.link("file", "again"), 0);
  }
  const auto create = [this](const char* name, int flags) {
    return mount->start(mount->fs().create(mount->user(), mount->root(), name, 0644, flags));
  };
  late = server->faults().add(on::reply_to(OP_OPEN), Stall{});
  auto opening = std::make_shared<Opening>(create("again", O_RDONLY));
  EXPECT_TRUE(server->faults().wait_fired(late));
  server->faults().add(on::reply_to(OP_OPEN), Mangle{[this](ByteVector& reply) { grant_again(reply); }});
  auto writer = create("file", O_RDWR).get();
  EXPECT_TRUE(writer);
  if (writer) mount->close(writer->open.file);
  return opening;
}

// Section 18.16.3: a server with "atomic upgrade" of delegations returns the same state again.
TEST_P(AgainLoops, DelegationThatIsUpgraded_TakesItsOwnPlace) {
  const auto first = server->faults().add(on::reply_to(OP_OPEN), Stall{});
  const auto node = mount->node("file");
  auto reading = mount->start(mount->fs().open(mount->user(), node, O_RDONLY));
  ASSERT_TRUE(server->faults().wait_fired(first));
  auto writing = mount->start(mount->fs().open(mount->user(), node, O_RDWR));
  mount->turn_every_loop();  // it waits for the first one
  server->faults().add(on::reply_to(OP_OPEN), Mangle{[this](ByteVector& reply) { grant_again(reply); }});
  server->faults().release(first);
  const auto reader = reading.get(), writer = writing.get();
  ASSERT_TRUE(reader);
  ASSERT_TRUE(writer);
  mount->close(writer->file);
  mount->close(reader->file);
  EXPECT_EQ(mount->stat("file")->size, 7u);
  EXPECT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(numbers().held_read, 0u);
  EXPECT_EQ(live(StateKind::kDelegation).size(), 1u);
  {
    TestMount other(*server);
    const auto theirs = other.open("file", O_RDWR);
    EXPECT_EQ(other.write(theirs, 0, "other content"), 0);
    EXPECT_EQ(other.close(theirs), 0);
  }
  EXPECT_EQ(mount->stat("file")->size, 13u);
  EXPECT_EQ(mount->read_file("file"), "other content");
  mount->expect_leftovers();
}

// Section 8.2.2: "... this field may be used by clients to order the responses". A reply from before the
// upgrade that arrives after it is out of date.
TEST_P(AgainLoops, DelegationThatWasUpgradedMeanwhile_IsNotTakenForWhatItWas) {
  const auto answer = answer_late_what_is_upgraded();
  EXPECT_EQ(numbers().held_write, 1u);
  server->faults().release(late);
  const auto reader = answer->get();
  ASSERT_TRUE(reader);
  EXPECT_EQ(numbers().held_write, 1u);
  EXPECT_EQ(numbers().held_read, 0u);
  EXPECT_EQ(mount->close(reader->open.file), 0);
  {
    TestMount other(*server);
    const auto theirs = other.open("file", O_RDWR);
    EXPECT_EQ(other.write(theirs, 0, "other content"), 0);
    EXPECT_EQ(other.close(theirs), 0);
  }
  EXPECT_EQ(mount->read_file("file"), "other content");
  mount->expect_leftovers();
}

// The delegation was returned before the first reply arrived. That reply does not bring it back.
TEST_P(AgainLoops, DelegationThatWentBackMeanwhile_IsNotHeld) {
  const auto answer = answer_late_what_is_upgraded();
  server->recall("/export/file");
  ASSERT_TRUE(returned());
  server->faults().release(late);
  const auto reader = answer->get();
  ASSERT_TRUE(reader);
  EXPECT_EQ(numbers().held_write + numbers().held_read, 0u);
  {
    TestMount other(*server);
    const auto theirs = other.open("file", O_RDWR);
    EXPECT_EQ(other.write(theirs, 0, "other content"), 0);
    EXPECT_EQ(other.close(theirs), 0);
  }
  EXPECT_EQ(mount->close(reader->open.file), 0);
  EXPECT_EQ(mount->read_file("file"), "other content");
  mount->expect_leftovers();
}

// Section 8.2.2: "... a seqid value of zero". An upgraded delegation is returned even if the client does not
// know of the upgrade.
TEST_P(AgainLoops, DelegationThatWasUpgradedWithoutAWord_GoesBackAsItIs) {
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  ASSERT_EQ(numbers().held_write, 1u);
  server->with_core([](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind == StateKind::kDelegation) (void)core.states.advance(s);
    });
  });
  server->recall("/export/file");
  EXPECT_TRUE(returned());
  EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  EXPECT_EQ(mount->write(file, 0, "X"), 0);
  EXPECT_EQ(mount->close(file), 0);
  mount->expect_leftovers();
}

// Section 10.2: without a back channel nothing can be recalled, so all delegations are returned.
TEST_P(AgainLoops, WhereNoBackChannelIsToBeHad_DelegationsGoBack) {
  mount = std::make_unique<TestMount>(
      *server, TestMount::Settings{.loops = GetParam(),
                                   .options = [](client::ClientOptions& o) { o.flags_pause = 50ms; }});
  const auto file = mount->open("file", O_RDWR);
  ASSERT_EQ(numbers().held_write, 1u);
  server->configure([](filer::nfs::Switches& s) { s.back_channels = false; });
  server->drop_connections();
  EXPECT_TRUE(eventually([&] {
    (void)mount->run(mount->fs().statfs(mount->user(), mount->root()));
    return live(StateKind::kDelegation).empty();
  }));
  EXPECT_EQ(numbers().held_write, 0u);
  EXPECT_EQ(mount->lock(file, LockType::kWrite, 0, 9), 0);
  EXPECT_EQ(live(StateKind::kLock).size(), 1u);
  mount->close(file);
  mount->expect_leftovers();
}

TEST_P(AgainLoops, RecallThatIsSaidAgain_HoldsUpNoOther) {
  server->make_file("/export/other", "content", 0666);
  const auto file = mount->open("file", O_RDWR), other = mount->open("other", O_RDWR);
  ASSERT_EQ(numbers().held_write, 2u);
  const auto write = server->faults().add(on::request_with(OP_WRITE), Stall{});
  ASSERT_EQ(mount->write(file, 0, "X"), 0);
  const auto recall = [&](const char* path) {
    server->with_core(
        [](filer::nfs::Core& core) { core.states.each([](filer::state::State& s) { s.recalled = false; }); });
    const uint64_t before = numbers().recalled;
    server->recall(path);
    ASSERT_TRUE(eventually([&] { return numbers().recalled > before; }));
  };
  for (int i = 0; i < 40; ++i) recall("/export/file");
  recall("/export/other");
  EXPECT_TRUE(eventually([&] { return live(StateKind::kDelegation).size() == 1; }));
  server->faults().release(write);
  EXPECT_TRUE(returned());
  mount->close(file);
  mount->close(other);
}

// Our change began under a delegation. It was executed after the delegation was returned and another client
// had written.
TEST_P(AgainLoops, ChangeThatAReturnOvertakes_IsNotTakenForTheOnlyOne) {
  const std::string before(8192, 'a');
  server->make_file("/export/long", before, 0666);
  auto file = mount->open("long", O_RDWR);
  ASSERT_EQ(mount->read(file, 0, before.size()).value_or("error"), before);
  mount->close(std::exchange(file, nullptr));
  const auto node = mount->node("long");
  const auto stall = server->faults().add(on::request_with(OP_SETATTR), Stall{});
  client::SetAttributes set;
  set.mode = 0640;
  auto setting = mount->start(mount->fs().setattr(mount->user(), node, set, nullptr));
  ASSERT_TRUE(server->faults().wait_fired(stall));
  {
    TestMount other(*server);
    const auto theirs = other.open("long", O_RDWR);
    ASSERT_EQ(other.write(theirs, 0, std::string(8192, 'b')), 0);
    ASSERT_EQ(other.close(theirs), 0);
  }
  const unsigned drops = mount->front_end.data(node);
  server->faults().release(stall);
  ASSERT_TRUE(setting.get());
  const auto opened = mount->run(mount->fs().open(mount->user(), node, O_RDONLY));
  ASSERT_TRUE(opened);
  EXPECT_TRUE(!opened->keep_cache || mount->front_end.data(node) > drops);
  mount->close(opened->file);
}

INSTANTIATE_TEST_SUITE_P(Loops, AgainLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
