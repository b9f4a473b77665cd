// Attributes of many files of a directory by one READDIR (client/cache/sweeps.h). No clock makes the
// attributes old here: a rename of the file does, or the removal of another of its names.
#include "tests/unit/client/support/test_mount.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
using namespace std::chrono_literals;
using filer::fault::Answer;
namespace on = filer::on;

class SweepLoops : public testing::TestWithParam<unsigned> {
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
                                       if (more) more(o);
                                     }});
  }

  static std::string name(const char* prefix, unsigned i) { return prefix + std::to_string(i); }
  // `n` files d/f0... of which the mount knows old attributes; all of i bytes.
  std::vector<client::NodeRef> old_files(unsigned n) {
    std::vector<client::NodeRef> nodes;
    server->make_directory("/export/d", 0777);
    for (unsigned i = 0; i < n; ++i) {
      server->make_file("/export/d/" + name("made", i), std::string(i, 'x'));
      nodes.push_back(mount->node("d/" + name("made", i)));
    }
    for (unsigned i = 0; i < n; ++i) EXPECT_EQ(mount->rename("d/" + name("made", i), "d/" + name("f", i)), 0);
    return nodes;
  }
  Result<client::AttributesReply> getattr(const client::NodeRef& node) {
    return mount->run(mount->fs().getattr(mount->user(), node, nullptr));
  }
  struct Asked {
    uint64_t getattr, readdir;
    bool operator==(const Asked&) const = default;
    friend void PrintTo(const Asked& a, std::ostream* out) {
      *out << a.getattr << " GETATTR, " << a.readdir << " READDIR";
    }
  };
  template <class F>
  Asked asked(F act) {
    const Asked before{mount->requests("GETATTR"), mount->requests("READDIR")};
    act();
    return {mount->requests("GETATTR") - before.getattr, mount->requests("READDIR") - before.readdir};
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

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

// More than fits one READDIR: its end is where the next one goes on.
TEST_P(SweepLoops, ALargeDirectory_IsReadInPieces) {
  const unsigned n = 1500;
  const auto nodes = old_files(n);
  const Asked all = asked([&] {
    for (unsigned i = 0; i < n; ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
  });
  EXPECT_GT(all.readdir, 1u);
  EXPECT_LE(all.readdir, 8u);
  EXPECT_LE(all.getattr, 8 * all.readdir + 2);
}

TEST_P(SweepLoops, ADirectoryFarLargerThanWhatIsInUse_IsNotReadOn) {
  const auto nodes = old_files(20);
  for (unsigned i = 0; i < 3000; ++i) server->make_file("/export/d/" + name("other", i), "");
  const Asked all = asked([&] {
    for (unsigned i = 0; i < nodes.size(); ++i) EXPECT_EQ(getattr(nodes[i])->attributes.size, i);
  });
  EXPECT_EQ(all.readdir, 1u);
  EXPECT_GE(all.getattr, 2u);
}

// RFC 8881 section 18.23: listing takes a right that GETATTR does not.
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
  // Files d/f0... with more names elsewhere; removing one of those makes their attributes old, and leaves `d`
  // as it is.
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
  EXPECT_EQ(asked([&] { ask_each(); }), (Asked{10, 1}));
  age();
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 1})) << "now somebody has";
}

TEST_P(SweepOpenings, YoungAttributes_AreNotAskedFor) {
  EXPECT_EQ(asked([&] { open_and_close(); }), (Asked{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Loops, SweepLoops, testing::Values(1u, 4u));
INSTANTIATE_TEST_SUITE_P(Loops, SweepOpenings, testing::Values(1u, 4u));

}  // namespace
}  // namespace nfsrdma::test
