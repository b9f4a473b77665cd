// SPDX-License-Identifier: Apache-2.0
// Sweeps: one READDIR for many files (client/core/names/sweeps.h), for their attributes, or for their names,
// too. Here attributes do not expire by the clock: a rename of the file, or the removal of another of its
// names, expires them.
#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using filer::fault::Answer;
namespace on = filer::on;

class Sweeping : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    start();
  }
  void start(std::function<void(client::ClientOptions&)> more = nullptr) {
    mount.reset();
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [more](client::ClientOptions& o) {
                                       o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = 1h;
                                       o.brought_names = 1h;
                                       if (more) more(o);
                                     }});
  }

  static std::string name(const char* prefix, unsigned i) { return prefix + std::to_string(i); }
  // `n` files d/f0... with expired attributes in the mount's cache. File i has i bytes.
  std::vector<client::NodeRef> old_files(unsigned n) {
    std::vector<client::NodeRef> nodes;
    EXPECT_EQ(mount->mkdir("d"), 0);
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(mount->write_file("d/" + name("made", i), std::string(i, 'x')), 0);
      nodes.push_back(mount->node("d/" + name("made", i)));
    }
    for (unsigned i = 0; i < n; ++i) EXPECT_EQ(mount->rename("d/" + name("made", i), "d/" + name("f", i)), 0);
    return nodes;
  }
  Result<client::AttributesReply> getattr(const client::NodeRef& node) {
    return mount->run(mount->fs().getattr(mount->user(), node, nullptr));
  }
  struct Asked {
    uint64_t each, readdir;
    bool operator==(const Asked&) const = default;
    friend void PrintTo(const Asked& a, std::ostream* out) {
      *out << a.each << " for one, " << a.readdir << " READDIR";
    }
  };
  template <class F>
  Asked asked(F act) {
    const Asked before{mount->requests(each_by), mount->requests("READDIR")};
    act();
    return {mount->requests(each_by) - before.each, mount->requests("READDIR") - before.readdir};
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
  const char* each_by = "GETATTR";
};

class SweepLoops : public Sweeping {};

TEST_P(SweepLoops, FilesAskedForOneByOne_AreBroughtByOneReaddir) {
  const auto nodes = old_files(30);
  EXPECT_EQ(asked([&] {
              for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
            }),
            (Asked{2, 1}));
  EXPECT_EQ(asked([&] {
              for (const auto& node : nodes) EXPECT_TRUE(getattr(node));
            }),
            (Asked{0, 0}));
}

TEST_P(SweepLoops, WhatOthersHaveChanged_IsSeen) {
  const auto nodes = old_files(10);
  for (unsigned i = 0; i < nodes.size(); ++i)
    server->write_file("/export/d/" + name("f", i), 100 + i, "more");
  for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, 104 + i);
}

TEST_P(SweepLoops, AllAtOnce_AreAnsweredByOneReaddir) {
  const auto nodes = old_files(30);
  const Asked all = asked([&] {
    std::vector<std::future<Result<client::AttributesReply>>> replies;
    for (const auto& node : nodes)
      replies.push_back(mount->start(mount->fs().getattr(mount->user(), node, nullptr)));
    for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(replies[i].get()->attributes.size, i);
  });
  EXPECT_EQ(all, (Asked{2, 1}));
}

// The directory does not fit into one READDIR: the next one continues where the last one ended.
TEST_P(SweepLoops, ALargeDirectory_IsReadInPieces) {
  const unsigned n = 1500;
  const auto nodes = old_files(n);
  const Asked all = asked([&] {
    for (unsigned i = 0; i < n; ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
  });
  EXPECT_GT(all.readdir, 1u);
  EXPECT_LE(all.readdir, 8u);
  EXPECT_LE(all.each, all.readdir + 2);
}

TEST_P(SweepLoops, ADirectoryFarLargerThanWhatIsInUse_IsNotReadOn) {
  const auto nodes = old_files(20);
  for (unsigned i = 0; i < 3000; ++i) server->make_file("/export/d/" + name("other", i), "");
  const Asked all = asked([&] {
    for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
  });
  EXPECT_EQ(all.readdir, 1u);
  EXPECT_GE(all.each, 2u);
}

// RFC 8881 section 18.23: READDIR needs a permission that GETATTR does not need.
TEST_P(SweepLoops, WhereTheDirectoryCannotBeRead_EachIsAskedFor) {
  const auto nodes = old_files(10);
  server->faults().add(on::request_with(OP_READDIR).always(), Answer{OP_READDIR, NFS4ERR_ACCESS});
  EXPECT_EQ(asked([&] {
              for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
            }),
            (Asked{10, 1}));
}

TEST_P(SweepLoops, WithoutReaddirplusOrAnyTrust_EachIsAskedFor) {
  const auto without = [&](std::function<void(client::ClientOptions&)> option) {
    start(std::move(option));
    const auto nodes = old_files(10);
    const Asked all = asked([&] {
      for (const auto& node : nodes) EXPECT_TRUE(getattr(node));
    });
    for (unsigned i = 0; i < nodes.size(); ++i) mount->unlink("d/" + name("f", i));
    mount->rmdir("d");
    return all;
  };
  EXPECT_EQ(without([](client::ClientOptions& o) { o.readdirplus = false; }), (Asked{10, 0}));
  EXPECT_EQ(without([](client::ClientOptions& o) { o.noac = true; }), (Asked{10, 0}));
}

// --- with the opening of a directory ---

class SweepOpenings : public SweepLoops {
 protected:
  // Files d/f0... with more names elsewhere. Removing such a name expires their attributes and leaves `d`
  // unchanged.
  void SetUp() override {
    SweepLoops::SetUp();
    EXPECT_EQ(mount->mkdir("d"), 0);
    for (int t = 0; t < kTurns; ++t) EXPECT_EQ(mount->mkdir(elsewhere(t)), 0);
    for (unsigned i = 0; i < kFiles; ++i) {
      const std::string first = elsewhere(kTurns - 1) + "/" + name("f", i);
      EXPECT_EQ(mount->write_file(first, "text"), 0);
      for (int t = kTurns - 2; t >= 0; --t)
        EXPECT_EQ(mount->link(first, elsewhere(t) + "/" + name("f", i)), 0);
      EXPECT_EQ(mount->link(first, "d/" + name("f", i)), 0);
      nodes.push_back(mount->node("d/" + name("f", i)));
    }
    EXPECT_EQ(mount->list("d").size(), kFiles);
    for (const auto& node : nodes) EXPECT_TRUE(getattr(node));
  }
  static std::string elsewhere(int t) { return "turn" + std::to_string(t); }
  void age() {
    for (unsigned i = 0; i < kFiles; ++i) EXPECT_EQ(mount->unlink(elsewhere(turn) + "/" + name("f", i)), 0);
    ++turn;
  }
  void open_and_close() {
    const auto opened = mount->run(mount->fs().opendir(mount->user(), mount->node("d")));
    ASSERT_TRUE(opened);
    EXPECT_TRUE(opened->keep_cache) << "the directory has not changed";
    mount->run(mount->fs().releasedir(opened->directory));
  }
  void ask_each() {
    for (const auto& node : nodes)
      EXPECT_EQ(getattr(node)->attributes.nlink, static_cast<uint32_t>(1 + kTurns - turn));
  }

  static constexpr unsigned kFiles = 12;
  static constexpr int kTurns = 5;
  std::vector<client::NodeRef> nodes;
  int turn = 0;
};

TEST_P(SweepOpenings, OldAttributes_ComeWithTheOpening) {
  for (int times = 0; times < 3; ++times) {
    age();
    EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 1}));
    EXPECT_EQ(asked([&] { ask_each(); }), (Asked{0, 0}));
  }
}

TEST_P(SweepOpenings, AttributesThatNobodyAskedFor_DoNotComeAgain) {
  age();
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 1}));
  age();
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 0})) << "nobody has looked at what came before";
  EXPECT_EQ(asked([&] { ask_each(); }), (Asked{2, 1}));
  age();
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 1})) << "now somebody has";
}

TEST_P(SweepOpenings, YoungAttributes_AreNotAskedFor) {
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 0}));
}

// --- names that nobody has looked up yet ---

class SweepNames : public Sweeping {
 protected:
  void SetUp() override {
    Sweeping::SetUp();
    each_by = "LOOKUP";
    server->make_directory("/export/d", 0777);
  }
  void make(unsigned n) {
    for (unsigned i = 0; i < n; ++i) server->make_file("/export/d/" + name("f", i), std::string(i, 'x'));
  }
  // Looks up the first files, which earns a READDIR for all. `n`: the number of files.
  void look_up_first(unsigned n) {
    make(n);
    EXPECT_EQ(asked([&] { look_up(0, 4); }), (Asked{4, 1})) << "of d itself, too";
  }
  void look_up(unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) EXPECT_EQ(size_of(name("f", i)), i);
  }
  uint64_t size_of(const std::string& file) {
    const auto found = mount->stat("d/" + file);
    EXPECT_TRUE(found) << file << ": " << describe(found.error());
    return found ? found->size : UINT64_MAX;
  }
};

TEST_P(SweepNames, LookedUpOneByOne_AreBroughtByOneReaddir) {
  make(30);
  EXPECT_EQ(asked([&] { look_up(0, 30); }), (Asked{4, 1})) << "of d itself, too";
  EXPECT_EQ(asked([&] { look_up(0, 30); }), (Asked{0, 0}));
}

TEST_P(SweepNames, ALargeDirectory_IsReadInPieces) {
  make(1500);
  const Asked all = asked([&] { look_up(0, 1500); });
  EXPECT_LE(all.readdir, 8u);
  EXPECT_LE(all.each, all.readdir + 3);
}

// The number of useless entries of a sweep is limited by the number of lookups.
TEST_P(SweepNames, AFewOfALargeDirectory_AreLookedUp) {
  make(1500);
  const Asked few = asked([&] {
    for (unsigned i = 1499; i > 1400; i -= 10) EXPECT_EQ(size_of(name("f", i)), i);
  });
  EXPECT_LE(few.readdir, 2u);
  EXPECT_GE(few.each, 8u);
}

TEST_P(SweepNames, AllAtOnce_AreFound) {
  make(40);
  const client::NodeRef d = mount->node("d");
  std::vector<std::future<Result<client::Entry>>> replies;
  for (unsigned i = 0; i < 40; ++i)
    replies.push_back(mount->start(mount->fs().lookup(mount->user(), d, name("f", i))));
  for (unsigned i = 0; i < 40; ++i) {
    const Result<client::Entry> entry = replies[i].get();
    ASSERT_TRUE(entry && entry->node);
    EXPECT_EQ(entry->attributes.size, i);
  }
}

TEST_P(SweepNames, AbsentNames_AreWorthNoReaddir) {
  make(10);
  EXPECT_EQ(asked([&] {
              for (unsigned i = 0; i < 10; ++i) EXPECT_FALSE(mount->lookup("d/" + name("absent", i)));
            }),
            (Asked{11, 0}));
}

TEST_P(SweepNames, ALookup_DoesNotWaitForAReaddir) {
  make(10);
  const client::NodeRef d = mount->node("d");
  const auto stall = server->faults().add(on::reply_to(OP_READDIR), filer::fault::Stall{});
  look_up(0, 3);
  auto waits = mount->start(mount->fs().lookup(mount->user(), d, "f3"));
  ASSERT_TRUE(eventually([&] { return server->faults().fired(stall) != 0; }));
  EXPECT_EQ(size_of("f9"), 9u);
  server->faults().release(stall);
  EXPECT_EQ(waits.get()->attributes.size, 3u);
}

TEST_P(SweepNames, WhereTheDirectoryCannotBeRead_EachIsAskedFor) {
  server->faults().add(on::request_with(OP_READDIR).always(), Answer{OP_READDIR, NFS4ERR_ACCESS});
  make(10);
  EXPECT_EQ(asked([&] { look_up(0, 10); }), (Asked{11, 1}));
}

TEST_P(SweepNames, WithoutReaddirplusOrAnyTrust_EachIsAskedFor) {
  make(10);
  const auto without = [&](std::function<void(client::ClientOptions&)> option) {
    start(std::move(option));
    const client::NodeRef d = mount->node("d");
    return asked([&] {
      for (unsigned i = 0; i < 10; ++i)
        EXPECT_TRUE(mount->run(mount->fs().lookup(mount->user(), d, name("f", i))));
    });
  };
  EXPECT_EQ(without([](client::ClientOptions& o) { o.readdirplus = false; }), (Asked{10, 0}));
  EXPECT_EQ(without([](client::ClientOptions& o) { o.noac = true; }), (Asked{10, 0}));
  EXPECT_EQ(without([](client::ClientOptions& o) { o.lookupcache = client::LookupCache::kNone; }),
            (Asked{10, 0}));
}

TEST_P(SweepNames, WhatCameLongAgo_IsAskedForAgain) {
  start([](client::ClientOptions& o) { o.brought_names = 0ms; });  // anything is long ago
  make(10);
  look_up(0, 4);
  server->write_file("/export/d/f9", 100, "more");
  EXPECT_EQ(size_of("f9"), 104u);
}

// RFC 8881 section 10.8: names are valid for one change attribute of the directory.
TEST_P(SweepNames, AfterAChangeByOthers_EachIsAskedForAgain) {
  look_up_first(10);
  server->write_file("/export/d/f8", 100, "more");
  server->remove_file("/export/d/f9");
  EXPECT_EQ(mount->write_file("d/mine", ""), 0) << "its answer tells of the change";
  EXPECT_EQ(size_of("f8"), 104u);
  EXPECT_FALSE(mount->lookup("d/f9"));
}

TEST_P(SweepNames, OwnChanges_AreSeen) {
  look_up_first(10);
  EXPECT_EQ(mount->rename("d/f8", "d/moved"), 0);
  EXPECT_EQ(mount->unlink("d/f9"), 0);
  EXPECT_EQ(mount->rename("d/f7", "d/f6"), 0);
  EXPECT_EQ(mount->link("d/f4", "d/also4"), 0);
  EXPECT_FALSE(mount->lookup("d/f8"));
  EXPECT_EQ(size_of("moved"), 8u);
  EXPECT_FALSE(mount->lookup("d/f9"));
  EXPECT_FALSE(mount->lookup("d/f7"));
  EXPECT_EQ(size_of("f6"), 7u);
  EXPECT_EQ(mount->stat("d/f4")->nlink, 2u);
}

// A file was changed through another of its names, and its Node was dropped.
TEST_P(SweepNames, OwnChangesOfWhatIsForgotten_AreSeen) {
  make(10);
  EXPECT_EQ(mount->link("d/f9", "elsewhere"), 0);
  start();
  look_up(0, 4);
  client::SetAttributes set;
  set.size = 77;
  {
    const auto other = mount->run(mount->fs().lookup(mount->user(), mount->root(), "elsewhere"));
    ASSERT_TRUE(other && other->node);
    ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), other->node, set, nullptr)));
  }
  EXPECT_EQ(size_of("f9"), 77u);
}

// The server executes REMOVE, and delays the rest of the COMPOUND, so REMOVE is repeated. Only the second
// reply says that the name is gone.
TEST_P(SweepNames, ARemovalWhoseAnswerSaysLittle_IsSeen) {
  look_up_first(10);
  server->faults().add(on::request_with(OP_REMOVE), Answer{OP_GETATTR, NFS4ERR_DELAY});
  EXPECT_EQ(mount->unlink("d/f9"), 0);
  EXPECT_FALSE(mount->lookup("d/f9"));
}

// The same for a listing that was read long before its entries are returned.
TEST_P(SweepNames, OwnChangesOfWhatIsForgotten_AreSeenInAListing) {
  make(10);
  EXPECT_EQ(mount->link("d/f9", "elsewhere"), 0);
  start();
  const auto listing = mount->run(mount->fs().opendir(mount->user(), mount->node("d")));
  ASSERT_TRUE(listing);
  client::SetAttributes set;
  set.size = 77;
  {
    const auto other = mount->run(mount->fs().lookup(mount->user(), mount->root(), "elsewhere"));
    ASSERT_TRUE(other && other->node);
    ASSERT_TRUE(mount->run(mount->fs().setattr(mount->user(), other->node, set, nullptr)));
  }
  const auto page = mount->run(mount->fs().readdir(mount->user(), listing->directory, 0, 1 << 16, true));
  ASSERT_TRUE(page);
  for (const auto& entry : page->entries) {
    const bool has_old = entry.name == "f9" && entry.entry && entry.entry->attributes.size != 77;
    EXPECT_FALSE(has_old);
  }
  EXPECT_EQ(size_of("f9"), 77u);
  mount->run(mount->fs().releasedir(listing->directory));
}

// A hostile server's names that no lookup can contain do no harm.
TEST_P(SweepNames, NoNames_HurtNobody) {
  make(10);
  const auto damage = [](ByteVector& reply) {
    const std::string_view all(reinterpret_cast<const char*>(reply.data()), reply.size());
    for (const char* name : {"f8", "f9"}) {
      const size_t at = all.find(name);
      if (at != std::string_view::npos) reply[at] = std::byte{'/'};
    }
  };
  server->faults().add(on::reply_to(OP_READDIR).always(), filer::fault::Mangle{damage});
  EXPECT_EQ(asked([&] { look_up(0, 8); }), (Asked{4, 1}));
  EXPECT_EQ(size_of("f9"), 9u);
}

// RFC 8881 section 18.13.3: LOOKUP needs the search permission, whoever listed the directory.
TEST_P(SweepNames, WhoMayNotSearch_FindsNothing) {
  start([](client::ClientOptions& o) { o.many_users = true; });
  server->make_directory("/export/closed", 0700);
  for (unsigned i = 0; i < 10; ++i) server->make_file("/export/closed/" + name("f", i), "");
  const client::NodeRef closed = mount->node("closed");
  for (unsigned i = 0; i < 5; ++i)
    EXPECT_TRUE(mount->run(mount->fs().lookup(mount->user(), closed, name("f", i))));
  EXPECT_EQ(errno_of(mount->run(mount->fs().lookup(mount->user(1000, 1000), closed, "f9"))), EACCES);
}

INSTANTIATE_TEST_SUITE_P(Loops, SweepNames, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, SweepLoops, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, SweepOpenings, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
