// SPDX-License-Identifier: Apache-2.0
// The data cache and read-ahead: they answer reads, and never with stale data. Each test makes data stale in
// another way, by a second client or directly on the server.
#include <set>
#include <thread>

#include "tests/unit/client/support/data_cache_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using client::LockType;
namespace on = filer::on;
namespace fault = filer::fault;

// --- answering ---

TEST_P(DataCacheLoops, AFileReadFromItsBeginning_IsReadAheadOf_AndAskedForOnce) {
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at)) << at;
  EXPECT_EQ(*mount->read(file, 4 * kMiB, kRead), "");
  const auto n = numbers();
  EXPECT_GE(n.ahead_bytes, 3 * kMiB);
  EXPECT_GE(n.data_hit_bytes, 3 * kMiB);
  EXPECT_EQ(n.ahead_wasted_bytes + n.ahead_refused_bytes, 0u);
  uint64_t placed = 0, copied = 0;
  for (const auto& t : mount->fs().statistics().transports) {
    placed += t.bytes_placed;
    copied += t.bytes_copied;
  }
  EXPECT_EQ(placed, 4 * kMiB) << "each byte once, straight into its place";
  EXPECT_EQ(copied, 0u);
  mount->close(file);
}

// Several places of a file read in turn, as by threads that share a descriptor.
TEST_P(DataCacheLoops, StreamsThroughOneDescriptor_AreEachReadAheadOf) {
  for (const uint64_t streams : {2u, 3u, 5u}) {
    mount = make_mount(keep_data);
    const auto file = mount->open("file");
    constexpr uint64_t kEach = 6;
    const uint64_t apart = 4 * kMiB / streams / kRead * kRead;
    std::vector<uint64_t> hits(streams);
    for (uint64_t turn = 0; turn < kEach; ++turn) {
      for (uint64_t s = 0; s < streams; ++s) {
        const uint64_t at = s * apart + turn * kRead, before = numbers().data_hit_bytes;
        ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
        hits[s] += numbers().data_hit_bytes - before;
      }
    }
    for (uint64_t s = 0; s < streams; ++s)
      EXPECT_GE(hits[s], (kEach - 2) * kRead) << s << " of " << streams << ": all but the first two";
    mount->close(file);
  }
}

// An application's read does not wait behind read-ahead: some slots stay free.
TEST_P(DataCacheLoops, WhatIsReadAheadAndNotAnswered_HoldsUpNoReader) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.cache_bytes = 256 * kMiB;
  });
  constexpr size_t kFiles = 100;  // more than the number of slots
  std::vector<client::OpenFileRef> files;
  for (size_t i = 0; i < kFiles; ++i) {
    const std::string name = "f" + std::to_string(i);
    server->make_file("/export/" + name, content(kMiB), 0666);
    files.push_back(mount->open(name));
  }
  const auto rule = server->faults().add(read_ahead_reply().always(), fault::Stall{});
  std::vector<std::future<Result<client::ReadReply>>> reads;
  for (const auto& file : files)
    reads.push_back(mount->start(mount->fs().read(mount->user(), file, 0, kRead)));
  // The same files, at offsets that are not in flight.
  for (const auto& file : files)
    reads.push_back(mount->start(mount->fs().read(mount->user(), file, 7 * kRead, kRead)));
  const TimePoint end = Clock::now() + std::chrono::seconds(20);
  for (auto& r : reads) EXPECT_EQ(r.wait_until(end), std::future_status::ready);
  EXPECT_GE(server->faults().fired(rule), 16u) << "and a lot was on its way";
  EXPECT_EQ(numbers().ahead_bytes, 0u);
  server->faults().release(rule);
  for (auto& r : reads) {
    const auto reply = r.get();
    EXPECT_TRUE(reply && reply->size == kRead);
  }
  for (auto& f : files) mount->close(std::move(f));
}

// One reader of one file uses every connection.
TEST_P(DataCacheLoops, OneFile_IsReadOverEveryConnection) {
  const auto connections = [&](size_t least_operations) {
    std::set<filer::links::LinkId> all;
    for (const auto& compound : server->journal()) {
      if (compound.has(OP_READ) && compound.ops.size() >= least_operations) all.insert(compound.link);
    }
    return all.size();
  };
  constexpr size_t kWithGetattr = 4;
  server->clear_journal();
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
  EXPECT_EQ(connections(kWithGetattr), GetParam()) << "what is read ahead";
  server->clear_journal();
  const auto direct = mount->open("file", O_RDONLY | O_DIRECT);
  auto context = mount->user();
  context.direct = true;
  ASSERT_TRUE(mount->run(mount->fs().read(context, direct, 0, 4 * kMiB)));
  EXPECT_EQ(connections(0), GetParam()) << "a large read, in parts";
  mount->close(direct);
  mount->close(file);
}

TEST_P(DataCacheLoops, Backward_IsReadAheadOf) {
  const auto file = mount->open("file");
  for (uint64_t at = 4 * kMiB; at > 0; at -= kRead)
    ASSERT_EQ(*mount->read(file, at - kRead, kRead), content(kRead, 'a', at - kRead));
  EXPECT_GE(numbers().data_hit_bytes, 3 * kMiB);
  mount->close(file);
}

TEST_P(DataCacheLoops, Random_IsNot) {
  const auto file = mount->open("file");
  for (const uint64_t page : {7u, 900u, 33u, 512u, 41u, 2u, 777u, 123u})
    ASSERT_EQ(*mount->read(file, page * 4096, 4096), content(4096, 'a', page * 4096));
  const auto n = numbers();
  EXPECT_EQ(n.ahead_bytes + n.ahead_refused_bytes + n.data_bytes, 0u);
  mount->close(file);
}

TEST_P(DataCacheLoops, AReadOfWhatIsOnItsWay_WaitsForIt) {
  const auto rule = server->faults().add(read_ahead_reply(), fault::Stall{});
  const auto file = mount->open("file");
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto reading = mount->start(mount->fs().read(mount->user(), file, kRead, kRead));
  server->faults().release(rule);
  const auto reply = reading.get();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->size, kRead);
  EXPECT_GE(numbers().data_hit_bytes, kRead);
  mount->close(file);
}

TEST_P(DataCacheLoops, ADescriptorIsClosed_WhenNothingIsReadAheadThroughItAnyMore) {
  const auto rule = server->faults().add(read_ahead_reply(), fault::Stall{});
  auto file = mount->open("file");
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  auto closing = mount->start(mount->fs().release(mount->user(), std::move(file)));
  EXPECT_EQ(mount->stat("file")->size, 4 * kMiB);
  EXPECT_EQ(server->executed(OP_CLOSE).executed, 0u);
  server->faults().release(rule);
  closing.get();
  EXPECT_EQ(server->executed(OP_CLOSE).executed, 1u);
}

TEST_P(DataCacheLoops, OpenedAgainUnchanged_WhatIsKeptAnswers) {
  mount->close(open_with_data_ahead());
  const auto file = mount->open("file");
  const uint64_t before = numbers().data_hit_bytes;
  expect_version(file, 'a', false);
  EXPECT_EQ(numbers().data_hit_bytes, before + kRead);
  mount->close(file);
}

TEST_P(DataCacheLoops, Memory_StaysBelowItsLimit_UnderTenTimesAsMuch) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.cache_bytes = 2 * kMiB;
  });
  for (int i = 0; i < 5; ++i) server->make_file("/export/f" + std::to_string(i), content(4 * kMiB), 0666);
  std::vector<client::OpenFileRef> files;
  for (int i = 0; i < 5; ++i) files.push_back(mount->open("f" + std::to_string(i)));
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead) {
    for (const auto& f : files) {
      ASSERT_EQ(*mount->read(f, at, kRead), content(kRead, 'a', at));
      ASSERT_LE(numbers().data_bytes, 2 * kMiB);
    }
  }
  EXPECT_GT(numbers().evicted_bytes, 8 * kMiB);
  for (auto& f : files) mount->close(std::move(f));
}

// A lack of memory is often short, so a little room for read-ahead stays.
TEST_P(DataCacheLoops, WithoutMemory_ALittleIsReadAhead_UntilThereIsMore) {
  std::atomic<uint64_t> available{0};
  mount = make_mount([&](client::ClientOptions& o) {
    keep_data(o);
    o.memory = [&] { return Memory{64 * kMiB, available}; };
  });
  EXPECT_TRUE(wait_for([](const auto& n) { return n.data_limit_bytes == client::DataCache::kLeastRoom; }));
  auto file = mount->open("file");
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead) {
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
    ASSERT_LE(numbers().data_bytes, client::DataCache::kLeastRoom);
  }
  EXPECT_GE(numbers().data_hit_bytes, 3 * kMiB);
  available = 64 * kMiB;
  EXPECT_TRUE(wait_for([](const auto& n) { return n.data_limit_bytes == 16 * kMiB; }));
  mount->close(std::move(file));
  mount.reset();  // the mount uses `available`
}

// Cached data is dropped, and all idle memory is freed, too.
TEST_P(DataCacheLoops, MemoryThatOthersNeed_IsGivenBack) {
  std::atomic<uint64_t> available{64 * kMiB};
  mount = make_mount([&](client::ClientOptions& o) {
    keep_data(o);
    o.memory = [&] { return Memory{64 * kMiB, available}; };
  });
  auto file = mount->open("file");
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead) ASSERT_TRUE(mount->read(file, at, kRead));
  wait_for_what_is_on_its_way();
  const size_t before = mount->buffers().slabs();
  EXPECT_GT(before, 1u);
  available = 0;
  EXPECT_TRUE(wait_for([](const auto& n) { return n.data_limit_bytes == client::DataCache::kLeastRoom; }));
  mount->close(std::move(file));
  EXPECT_TRUE(wait_for([&](const auto&) { return mount->buffers().idle_bytes() == 0; }));
  EXPECT_LT(mount->buffers().slabs(), before);
  mount.reset();
}

// Read-ahead stays within the file's share: otherwise it would evict itself.
TEST_P(DataCacheLoops, BesideManyFilesThatAreKept_NothingIsReadAheadForNothing) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.cache_bytes = 4 * kMiB;
    o.read_ahead_bytes = 2 * kMiB;
  });
  constexpr size_t kSmall = 64u << 10;
  for (size_t i = 0; i < 4 * kMiB / kSmall; ++i) {
    const std::string name = "s" + std::to_string(i);
    server->make_file("/export/" + name, content(kSmall), 0666);
    const auto small = mount->open(name);
    for (int turn = 0; turn < 2; ++turn) ASSERT_EQ(*mount->read(small, 0, kSmall), content(kSmall));
    mount->close(small);
  }
  ASSERT_GE(numbers().data_bytes, 3 * kMiB);
  const uint64_t hits = numbers().data_hit_bytes;
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead) {
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
    wait_for_what_is_on_its_way();
  }
  EXPECT_GE(numbers().data_hit_bytes, hits + 3 * kMiB);
  EXPECT_EQ(numbers().ahead_wasted_bytes, 0u);
  mount->close(file);
}

// --- reads that are not cached ---

TEST_P(DataCacheLoops, ADirectRead_AsksTheServer_AndLeavesNothing) {
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  const uint64_t hits = numbers().data_hit_bytes;
  auto user = mount->user();
  user.direct = true;
  auto reply = mount->run(mount->fs().read(user, file, kKept, kRead));
  ASSERT_TRUE(reply);
  EXPECT_EQ(landed(*reply), content(kRead, 'b', kKept));
  EXPECT_EQ(numbers().data_hit_bytes, hits);
  mount->close(file);
}

TEST_P(DataCacheLoops, WithoutAttributeCaching_NothingIsKept) {
  for (int how = 0; how < 3; ++how) {
    mount = make_mount([how](client::ClientOptions& o) {
      keep_data(o);
      if (how == 0) o.noac = true;
      if (how == 1) o.attributes_before_reads = true;
      if (how == 2) o.cache_bytes = 0;
    });
    const auto file = mount->open("file");
    for (uint64_t at = 0; at < kMiB; at += kRead)
      ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
    const auto n = numbers();
    EXPECT_EQ(n.ahead_bytes + n.ahead_refused_bytes + n.data_bytes + n.data_hits, 0u);
    EXPECT_EQ(n.data_limit_bytes, 0u);
    mount->close(file);
  }
}

TEST_P(DataCacheLoops, NotConfirmedForAcregmax_IsNotBelieved) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.acregmin = o.acregmax = std::chrono::seconds(0);
  });
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  expect_version(file, 'b', true);
  mount->close(file);
}

// --- other clients change the file ---

TEST_P(DataCacheLoops, AnotherClientsClose_IsSeenByTheNextOpen) {
  auto file = open_with_data_ahead();
  {
    TestMount second(*server);
    const auto theirs = second.open("file", O_RDWR);
    EXPECT_EQ(second.write(theirs, kKept, content(kRead, 'b', kKept)), 0);
    EXPECT_EQ(second.close(theirs), 0);
  }
  const auto again = mount->open("file");
  expect_version(again, 'b', true);
  expect_version(file, 'b', false);
  mount->close(file);
  mount->close(again);
}

// nfs(5), nocto: the open may use cached attributes. This client sends an OPEN anyway and uses its reply.
TEST_P(DataCacheLoops, AnotherClientsClose_IsSeenByTheNextOpen_AlsoWithNocto) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.close_to_open = false;
  });
  mount->close(open_with_data_ahead());
  ASSERT_TRUE(change_behind_our_back());
  const auto again = mount->open("file");
  expect_version(again, 'b', true);
  mount->close(again);
}

TEST_P(DataCacheLoops, AChangeThatAttributesTellOf_IsSeen) {
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  auto other_user = mount->user(1000, 1000);  // asks ACCESS, whose answer has attributes
  EXPECT_EQ(errno_of(mount->run(mount->fs().access(other_user, mount->node("file"), R_OK))), 0);
  expect_version(file, 'b', true);
  mount->close(file);
}

// The server executes READ and the GETATTR behind it after a change, so the data is not of the version that
// the OPEN showed.
TEST_P(DataCacheLoops, AChangeBeforeWhatIsReadAheadIsRead_IsNotKeptUnderTheOldVersion) {
  const auto rule = server->faults().add(read_ahead_request(), fault::Stall{});
  const auto file = mount->open("file");
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  ASSERT_TRUE(server->write_file("/export/file", 0, content(4 * kMiB, 'b')));
  server->faults().release(rule);
  ASSERT_TRUE(wait_for([](const auto& n) { return n.ahead_refused_bytes != 0; }));
  EXPECT_EQ(*mount->read(file, kRead, kRead), content(kRead, 'b', kRead));
  EXPECT_EQ(numbers().data_hits, 0u);
  mount->close(file);
}

// A read-ahead READ detects a change. Cached data of the old version is dropped, the attributes are fetched
// before their next use, and this descriptor reads no further ahead until then.
TEST_P(DataCacheLoops, WhatIsReadAheadOfAnotherVersion_EndsWhatIsKept) {
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.acregmin = o.acregmax = std::chrono::seconds(600);
  });
  const auto file = open_with_data_ahead();
  const uint64_t refused = numbers().ahead_refused_bytes;
  ASSERT_TRUE(change_behind_our_back());
  for (const uint64_t at : {kKept, kKept + kRead}) ASSERT_TRUE(mount->read(file, at, kRead));
  ASSERT_TRUE(wait_for([&](const auto& n) { return n.ahead_refused_bytes > refused; }));
  expect_version(file, 'b', true);
  pass_every_connection();
  server->clear_journal();
  for (uint64_t at = 2 * kMiB; at < 3 * kMiB; at += kRead) ASSERT_TRUE(mount->read(file, at, kRead));
  pass_every_connection();
  for (const auto& compound : server->journal())
    EXPECT_FALSE(compound.has(OP_READ) && compound.has(OP_GETATTR)) << "read ahead of what is not known";
  server->clear_journal();
  EXPECT_TRUE(mount->stat("file"));
  EXPECT_EQ(server->executed(OP_GETATTR).executed, 1u);
  mount->close(file);
}

// A recall means that another client is about to change the file.
TEST_P(DataCacheLoops, ARecallOfWhatIsOpen_LeavesNothingKept) {
  for (const int flags : {O_RDONLY, O_RDWR}) {
    ASSERT_TRUE(server->write_file("/export/file", kKept, content(kRead, 'a', kKept)));
    mount_with_delegations();
    const auto file = open_with_data_ahead(flags);
    EXPECT_EQ(server->recall("/export/file"), 1u);
    ASSERT_TRUE(server->wait_until([](filer::nfs::Core& core) {
      bool any = false;
      core.states.each([&](const filer::state::State& s) {
        any = any || (s.kind == filer::state::StateKind::kDelegation && s.live());
      });
      return !any;
    }));
    ASSERT_TRUE(change_behind_our_back());
    expect_version(file, 'b', true);
    mount->close(file);
  }
}

TEST_P(DataCacheLoops, ARevokedDelegation_LeavesNothingKept) {
  mount_with_delegations();
  const auto file = open_with_data_ahead(O_RDONLY);
  ASSERT_EQ(delegations().size(), 1u);
  server->with_core([](filer::nfs::Core& core) {
    core.states.each([&](filer::state::State& s) {
      if (s.kind == filer::state::StateKind::kDelegation)
        core.states.revoke(s, filer::state::Revoked::kRecall);
    });
  });
  ASSERT_TRUE(change_behind_our_back());
  EXPECT_EQ(*mount->read(file, 4 * kMiB - 10, 10), "aaaaaaaaaa") << "finds out";
  expect_version(file, 'b', true);
  mount->close(file);
  mount->expect_leftovers();
}

TEST_P(DataCacheLoops, UnderADelegation_IsBelievedLongerThanAcregmax) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.acregmin = o.acregmax = std::chrono::seconds(0);
  });
  const auto file = open_with_data_ahead();
  const uint64_t before = numbers().data_hit_bytes;
  expect_version(file, 'a', false);
  EXPECT_EQ(numbers().data_hit_bytes, before + kRead);
  mount->close(file);
}

// A delegation is valid only during the lease. After that, cached data expires as without a delegation.
TEST_P(DataCacheLoops, UnderADelegationWhoseLeaseIsOver_IsNotBelievedLongerThanAcregmax) {
  mount.reset();
  server = start_filer({.lease = std::chrono::seconds(1), .manual_clock = true});
  server->make_file("/export/file", content(4 * kMiB), 0666);
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.acregmin = o.acregmax = std::chrono::seconds(0);
  });
  const auto file = open_with_data_ahead();
  server->pause_reading(true);
  ASSERT_TRUE(eventually([&] { return !mount->fs().statistics().session.lease_holds; }));
  ASSERT_TRUE(change_behind_our_back());
  auto reading = mount->start(mount->fs().read(mount->user(), file, kKept, kRead));
  mount->turn_every_loop();  // otherwise the renewal that waits there, too, may be answered first and make
                             // the delegation valid again
  server->pause_reading(false);
  auto reply = reading.get();
  ASSERT_TRUE(reply);
  EXPECT_EQ(landed(*reply), content(kRead, 'b', kKept));
  mount->close(file);
}

// The time of a suspension counts, although our clock did not run on.
TEST_P(DataCacheLoops, AfterASuspension_IsNotBelieved) {
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  mount->fs().doubt_ages();
  expect_version(file, 'b', true);
  mount->close(file);
}

// A lock orders data (section 10.3.2): it shows what its last holder wrote.
TEST_P(DataCacheLoops, ALock_ShowsWhatItsLastHolderWrote) {
  const auto file = open_with_data_ahead();
  {
    TestMount second(*server);
    const auto theirs = second.open("file", O_RDWR);
    ASSERT_EQ(second.lock(theirs, LockType::kWrite), 0);
    EXPECT_EQ(second.write(theirs, kKept, content(kRead, 'b', kKept)), 0);
    ASSERT_EQ(second.lock(theirs, LockType::kUnlock), 0);
    EXPECT_EQ(second.close(theirs), 0);
  }
  ASSERT_EQ(mount->lock(file, LockType::kRead), 0);
  expect_version(file, 'b', true);
  mount->close(file);
}

// A lost lock protects nothing: the next holder must not get what was read under it.
TEST_P(DataCacheLoops, ALockThatIsLost_LeavesNothingKept) {
  constexpr uint64_t kHolder = 7;
  mount = make_mount([](client::ClientOptions& o) {
    keep_data(o);
    o.acregmin = o.acregmax = std::chrono::seconds(600);
  });
  const auto bystander = mount->open("file");
  const auto locked = mount->open("file", O_RDWR);
  ASSERT_EQ(mount->lock(locked, LockType::kWrite, 0, 9, kHolder), 0);
  const auto file = open_with_data_ahead();
  const unsigned before = mount->front_end.data(mount->node("file"));
  ASSERT_TRUE(change_behind_our_back());
  ASSERT_TRUE(server->revoke(live_states(*server, filer::state::StateKind::kLock).at(0).id));
  ASSERT_EQ(mount->mkdir("notices"), 0);
  ASSERT_TRUE(server->wait_until(
      [](filer::nfs::Core& core) { return core.journal.count(OP_FREE_STATEID).succeeded != 0; }));
  EXPECT_EQ(errno_of(mount->read(locked)), EIO);
  EXPECT_GT(mount->front_end.data(mount->node("file")), before);
  expect_version(bystander, 'b', true);
  EXPECT_EQ(mount->lock(locked, LockType::kUnlock, 0, UINT64_MAX, kHolder), 0);
  for (const auto& f : {bystander, locked, file}) mount->close(f, kHolder);
}

// Our own write moves the change attribute and so hides another client's change.
TEST_P(DataCacheLoops, AChangeBesideOurOwn_IsSeenUnderALock) {
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  EXPECT_EQ(mount->write(file, 3 * kMiB, "mine"), 0);
  EXPECT_EQ(mount->fsync(file), 0);
  ASSERT_EQ(mount->lock(file, LockType::kRead), 0);
  expect_version(file, 'b', true);
  mount->close(file);
}

// So without a promise no cached data survives our own write, wherever in the file it is. Neither a lock nor
// an open triggers this.
TEST_P(DataCacheLoops, AChangeBesideOurOwn_IsSeenWithoutALock) {
  const auto file = open_with_data_ahead();
  ASSERT_TRUE(change_behind_our_back());
  EXPECT_EQ(mount->write(file, 3 * kMiB, "mine"), 0);
  EXPECT_EQ(mount->fsync(file), 0);
  expect_version(file, 'b', true);
  EXPECT_EQ(mount->close(file), 0);
}

// --- our own changes ---

TEST_P(DataCacheLoops, OurOwnWrite_IsReadBack) {
  const auto file = open_with_data_ahead();
  EXPECT_EQ(mount->write(file, kKept, content(kRead, 'c', kKept)), 0);
  expect_version(file, 'c', true);
  EXPECT_EQ(mount->write(file, kKept + 5, "few"), 0);
  EXPECT_EQ(mount->read(file, kKept, kRead)->substr(4, 5),
            content(kRead, 'c', kKept).substr(4, 1) + "few" + content(kRead, 'c', kKept).substr(8, 1));
  mount->close(file);
}

// Under a write delegation no other client changes the file, so cached data outside our writes stays.
TEST_P(DataCacheLoops, OurOwnWriteUnderADelegation_LeavesTheRest) {
  mount_with_delegations();
  const auto file = open_with_data_ahead();
  ASSERT_EQ(mount->fs().statistics().delegations.held_write, 1u);
  EXPECT_EQ(mount->write(file, kKept + 8192, "mine"), 0);
  EXPECT_EQ(mount->fsync(file), 0);
  const uint64_t before = numbers().data_hit_bytes;
  EXPECT_EQ(*mount->read(file, kKept, 4096), content(4096, 'a', kKept));
  EXPECT_EQ(numbers().data_hit_bytes, before + 4096);
  EXPECT_EQ(mount->read(file, kKept + 8192, 4096)->substr(0, 4), "mine");
  mount->close(file);
}

// After a failed WRITE nobody knows what the server stored.
TEST_P(DataCacheLoops, AWriteThatFails_LeavesNothingKept) {
  for (const int synchronous : {0, O_SYNC}) {
    ASSERT_TRUE(server->write_file("/export/file", kKept, content(kRead, 'a', kKept)));
    mount = make_mount(keep_data);
    const auto file = open_with_data_ahead();
    const auto writer = mount->open("file", O_WRONLY | synchronous);
    server->faults().add(on::request_with(OP_WRITE), fault::Answer{OP_WRITE, NFS4ERR_IO});
    ASSERT_TRUE(change_behind_our_back());
    EXPECT_EQ(mount->write(writer, 3 * kMiB, "mine"), synchronous != 0 ? EIO : 0);
    if (synchronous == 0) {
      EXPECT_EQ(mount->fsync(writer), EIO);
    }
    expect_version(file, 'b', true);
    mount->close(writer);
    mount->close(file);
  }
}

// Under a write delegation, where cached data outside our WRITEs would stay.
TEST_P(DataCacheLoops, ACommitThatFails_LeavesNothingKept) {
  mount_with_delegations();
  const auto file = open_with_data_ahead();
  ASSERT_EQ(mount->fs().statistics().delegations.held_write, 1u);
  EXPECT_EQ(mount->write(file, 3 * kMiB, content(kRead, 'c', 3 * kMiB)), 0);
  ASSERT_TRUE(wait_for([](const auto& n) { return n.dirty_bytes == 0; }));
  ASSERT_TRUE(change_behind_our_back());
  server->faults().add(on::request_with(OP_COMMIT), fault::Answer{OP_COMMIT, NFS4ERR_IO});
  EXPECT_EQ(mount->fsync(file), EIO);
  expect_version(file, 'b', true);
  mount->close(file);
}

// Each COMMIT reports that all earlier data is lost (RFC 8881 section 18.32.3), and none says what the file
// contains instead.
TEST_P(DataCacheLoops, AVerifierThatIsAnotherOneEachTime_LeavesNothingKept) {
  server->configure([](filer::nfs::Switches& s) { s.writes_are_unstable = true; });
  uint64_t turn = 0;
  const auto another = [&] {
    server->with_core([&](filer::nfs::Core& c) { c.write_verifier = verifier4::of(++turn); });
  };
  for (const int synchronous : {0, O_SYNC}) {
    ASSERT_TRUE(server->write_file("/export/file", kKept, content(kRead, 'a', kKept)));
    mount_with_delegations();
    const auto file = open_with_data_ahead();
    const auto writer = mount->open("file", O_WRONLY | synchronous);
    ASSERT_EQ(mount->fs().statistics().delegations.held_write, 1u);
    const auto rule = server->faults().add(on::request_with(OP_COMMIT).always(), fault::Call{another});
    ASSERT_TRUE(change_behind_our_back());
    EXPECT_EQ(mount->write(writer, 3 * kMiB, content(kRead, 'c', 3 * kMiB)), synchronous != 0 ? EIO : 0);
    EXPECT_EQ(mount->fsync(writer), synchronous != 0 ? 0 : EIO) << "told once";
    EXPECT_EQ(mount->requests("COMMIT"), 16u);
    EXPECT_EQ(numbers().uncommitted_bytes, 0u);
    expect_version(file, 'b', true);
    server->faults().remove(rule);
    EXPECT_EQ(mount->write(writer, 3 * kMiB, content(kRead, 'd', 3 * kMiB)), 0);
    EXPECT_EQ(mount->fsync(writer), 0) << "and it goes on from there";
    EXPECT_EQ(server->read_file("/export/file")->substr(3 * kMiB, kRead), content(kRead, 'd', 3 * kMiB));
    EXPECT_EQ(mount->close(writer), 0);
    mount->close(file);
  }
}

// The READ found the end of the file, and by the time of its reply the file has grown.
TEST_P(DataCacheLoops, AppendedWhileTheEndIsReadAhead_IsNotTheEnd) {
  server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
  server->make_file("/export/tail", content(3 * kRead), 0666);
  mount = make_mount(keep_data);
  const auto rule = server->faults().add(read_ahead_reply(), fault::Stall{});
  const auto file = mount->open("tail", O_RDWR);
  ASSERT_EQ(mount->fs().statistics().delegations.held_write, 1u);
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  EXPECT_EQ(mount->write(file, 3 * kRead, "appended"), 0);
  server->faults().release(rule);
  ASSERT_TRUE(wait_for([](const auto& n) { return n.ahead_bytes + n.ahead_refused_bytes >= 2 * kRead; }));
  EXPECT_EQ(mount->fsync(file), 0);
  EXPECT_EQ(*mount->read(file, 3 * kRead, 100), "appended");
  EXPECT_EQ(mount->read(file, 3 * kRead - 8, 100)->substr(8), "appended");
  mount->close(file);
}

// The READ was sent before the write and answered after it.
TEST_P(DataCacheLoops, WhatIsReadAheadWhileWeWrite_IsNotKept) {
  const auto rule = server->faults().add(read_ahead_reply(), fault::Stall{});
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  for (uint64_t at = 0; at < 4 * kMiB; at += kMiB)
    EXPECT_EQ(mount->write(file, at, content(kMiB, 'c', at)), 0);
  EXPECT_EQ(mount->fsync(file), 0);
  server->faults().release(rule);
  for (uint64_t at = 0; at < 4 * kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'c', at));
  mount->close(file);
}

TEST_P(DataCacheLoops, Truncated_IsGone) {
  const auto file = open_with_data_ahead();
  client::SetAttributes set;
  for (const uint64_t size : {kKept + 10, 4 * kMiB}) {
    set.size = size;
    ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), mount->node("file"), set, file)));
  }
  const auto text = mount->read(file, kKept, kRead);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->substr(0, 10), content(kRead, 'a', kKept).substr(0, 10));
  EXPECT_EQ(text->substr(10), std::string(kRead - 10, '\0'));
  mount->close(file);
}

TEST_P(DataCacheLoops, TruncatedWhileItIsReadAhead_IsNotKept) {
  const auto rule = server->faults().add(read_ahead_reply(), fault::Stall{});
  const auto file = mount->open("file", O_RDWR);
  EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
  ASSERT_TRUE(server->faults().wait_fired(rule));
  client::SetAttributes set;
  for (const uint64_t size : {uint64_t{kRead}, 4 * kMiB}) {
    set.size = size;
    ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), mount->node("file"), set, file)));
  }
  server->faults().release(rule);
  EXPECT_EQ(*mount->read(file, kRead, kRead), std::string(kRead, '\0'));
  mount->close(file);
}

// --- the server ---

TEST_P(DataCacheLoops, AfterARestartOfTheServer_NothingOfBeforeIsUsed) {
  const auto file = open_with_data_ahead();
  server->restart();
  ASSERT_TRUE(change_behind_our_back());
  EXPECT_TRUE(mount->lookup("file"));
  ASSERT_EQ(mount->mkdir("notices"), 0);
  expect_version(file, 'b', true);
  mount->close(file);
}

TEST_P(DataCacheLoops, AReadAheadThatFails_IsNobodysError) {
  server->faults().add(read_ahead_request().always(), fault::Answer{OP_READ, NFS4ERR_IO});
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
  EXPECT_TRUE(wait_for([](const auto& n) { return n.data_bytes == 0; }))
      << "the last ones are still on their way";
  mount->close(file);
}

// If the reply has no change attribute, the data's version is unknown.
TEST_P(DataCacheLoops, WithoutAChangeAttribute_NothingIsKept) {
  server->faults().add(read_ahead_request().always(), fault::Answer{OP_GETATTR, NFS4ERR_IO});
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
  EXPECT_EQ(numbers().data_hits, 0u);
  mount->close(file);
}

// With few slots, half of them stay free for application reads.
TEST_P(DataCacheLoops, WithoutSlotsToSpare_NothingIsReadAhead) {
  server->set_target_slots(3);
  ASSERT_EQ(mount->mkdir("learns"), 0);
  const auto file = mount->open("file");
  for (uint64_t at = 0; at < kMiB; at += kRead)
    ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, 'a', at));
  EXPECT_EQ(numbers().ahead_bytes, 0u);
  mount->close(file);
}

// --- all at once ---

TEST_P(DataCacheLoops, ReadersAndAWriter_AgreeOnEveryByte) {
  const auto node = mount->node("file");
  const auto reader = [](TestMount& m, client::NodeRef n) -> Task<bool> {
    const client::RequestContext user = m.user();
    bool good = true;
    for (int turn = 0; turn < 4; ++turn) {
      auto opened = co_await m.fs().open(user, n, O_RDONLY);
      if (!opened) co_return false;
      for (uint64_t at = 0; at < 4 * kMiB; at += kRead) {
        auto reply = co_await m.fs().read(user, opened->file, at, kRead);
        if (!reply || reply->size != kRead) co_return false;
        std::string text;
        for (BulkData& d : reply->data) {
          good = d.land() && good;
          text += as_string_view(d.slice.bytes);
        }
        // Each page may have any version, but only one.
        for (size_t i = 0; i < text.size(); i += 4096) {
          const char version = text[i + 100];
          good = good && text.substr(i, 4096) == content(4096, version, at + i);
        }
      }
      co_await m.fs().release(user, opened->file);
    }
    co_return good;
  };
  std::vector<std::future<bool>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(mount->start(reader(*mount, node)));
  const auto file = mount->open("file", O_RDWR);
  for (char version = 'b'; version < 'f'; ++version) {
    for (uint64_t at = 0; at < 4 * kMiB; at += kMiB) {
      ASSERT_EQ(mount->write(file, at, content(kMiB, version, at)), 0);
      ASSERT_EQ(*mount->read(file, at, kRead), content(kRead, version, at)) << "our own, at once";
    }
  }
  for (auto& r : readers) EXPECT_TRUE(r.get());
  EXPECT_EQ(mount->close(file), 0);
  EXPECT_EQ(mount->read_file("file").substr(0, kRead).substr(100, 10), std::string(10, 'e'));
}

INSTANTIATE_TEST_SUITE_P(Loops, DataCacheLoops, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
