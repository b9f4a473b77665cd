// SPDX-License-Identifier: Apache-2.0
// An NFSv3 mount of a scripted server: cases that depend on the server's replies and their timing.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>

#include "client/api/make_filesystem.h"
#include "client/api/no_front_end.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/peer.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/memory/buffer.h"

namespace nfsrdma::test {
namespace {

using client::Cancellation;

constexpr uint32_t kNull = 0, kGetattr = 1, kLookup = 3, kAccess = 4, kRemove = 12, kReaddir = 16,
                   kReaddirplus = 17, kFsinfo = 19, kPathconf = 20;
constexpr uint32_t kNotSupported = 10004, kJukebox = 10008;

// The arguments follow the credential and the verifier.
size_t arguments_at(const ByteVector& call) {
  size_t at = 24;
  for (int field = 0; field < 2; ++field) at += 8 + (word_at(call, at + 4) + 3) / 4 * 4;
  return at;
}

// Results by procedure. Nothing: close the connection.
class ScriptedServer {
 public:
  using Results = std::function<std::optional<ByteVector>(const ByteVector& call)>;

  ScriptedServer() {
    const auto always = [](ByteVector results) {
      return [results = std::move(results)](const ByteVector&) { return std::optional(results); };
    };
    // fattr3 of a directory with all permissions for everybody.
    on(kGetattr, always(words({0, 2, 0777, 2, 7, 8, 0, 4096, 0, 4096, 0, 0, 0, 9, 0, 42, 1, 2, 3, 4, 5, 6})));
    on(kNull, always({}));
    on(kAccess, always(words({0, 0, 0x3f})));
    on(kLookup, always(words({2, 0})));
    on(kReaddirplus, always(words({kNotSupported, 0})));
    constexpr uint32_t kIo = 65536;
    on(kFsinfo, always(words({0, 0, kIo, kIo, 1, kIo, kIo, 1, kIo, 0x7fffffff, 0xffffffff, 0, 1, 0x1b})));
    on(kPathconf, always(words({0, 0, 100, 255, 1, 1, 0, 1})));
  }
  void on(uint32_t procedure, Results results) { results_[procedure] = std::move(results); }
  unsigned calls(uint32_t procedure) const { return calls_[procedure].load(); }
  uint16_t port() const { return nfs_.port(); }
  uint16_t mount_port() const { return mountd_.port(); }
  // Call it after the client is closed: then no connection arrives any more.
  void join() {
    done_ = true;
    PeerSocket last(net::Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port = htons(port());
    EXPECT_EQ(::connect(last.fd(), reinterpret_cast<sockaddr*>(&in), sizeof in), 0);
    nfs_.join();
    mountd_.join();
  }

 private:
  void serve(PeerSocket s) {
    while (const auto call = s.read_record()) {
      const uint32_t procedure = word_at(*call, 20);
      ++calls_.at(procedure);
      const auto results = results_.at(procedure)(*call);
      if (!results) return;
      s.write_record(reply(xid_of(*call), *results));
    }
  }

  std::map<uint32_t, Results> results_;
  std::array<std::atomic<unsigned>, 22> calls_{};
  std::atomic<bool> done_{false};
  // MNT, and UMNT at the end, each on its own connection.
  Peer mountd_{[](Listener& l) {
    for (const auto& results : {words({0, 8, 1, 2, 1, 1}), ByteVector()}) {
      PeerSocket s = l.accept();
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), results));
      EXPECT_TRUE(s.closed_by_client());
    }
  }};
  Peer nfs_{[this](Listener& l) {
    while (!done_) {
      PeerSocket s = l.accept();
      if (!done_) serve(std::move(s));
    }
  }};
};

class Nfs3Mounted : public testing::Test {
 protected:
  void mount() {
    client::ClientOptions options;
    options.host = "127.0.0.1";
    options.v3.port = server.port();
    options.v3.mount_port = server.mount_port();
    options.export_path = "/e";
    fs = make_nfs3_filesystem(loops, buffers, options);
    loops.start();
    const auto mounted = run(fs->mount(&front_end));
    ASSERT_TRUE(mounted) << describe(mounted.error());
    root = mounted->node;
  }
  void TearDown() override {
    EXPECT_TRUE(run_on(loops[0], fs->unmount(std::chrono::seconds(20))));
    root.reset();
    EXPECT_TRUE(eventually([&] { return loops[0].live_tasks() == 0; }));
    loops.stop_and_join();
    fs.reset();
    server.join();
  }
  template <class T>
  T run(Task<T> task) {
    return run_on(loops[0], std::move(task));
  }
  client::RequestContext user() {
    return {std::make_shared<rpc::Credential>("host", 0, 0, std::vector<uint32_t>{}), cancellation};
  }
  int unlink(std::string name) {
    const Result<> done = run(fs->unlink(user(), root, std::move(name)));
    return done ? 0 : done.error().errnum;
  }

  ScriptedServer server;
  BufferPool buffers;
  LoopPool loops{1};
  client::NoFrontEnd front_end;
  std::unique_ptr<client::Filesystem> fs;
  client::NodeRef root;
  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
};

// RFC 1813 section 3.3.16: cookies "uniquely identify" entries; only zero is reserved, for the first entry.
// go-nfs uses 0 for ".", 1 for ".." and 2 for the first name.
TEST_F(Nfs3Mounted, CookiesThatOtherVersionsReserve_AreCookies) {
  const std::vector<std::pair<uint32_t, const char*>> names = {
      {0, "."}, {1, ".."}, {2, "a"}, {3, "b"}, {4, "c"}};
  server.on(kReaddir, [&](const ByteVector& call) {
    const size_t handle = arguments_at(call);
    const uint32_t cookie = word_at(call, handle + 4 + word_at(call, handle) + 4);
    ByteVector results = words({0, 0, 0, 0});
    // Three entries per reply.
    size_t next = cookie == 0 ? 0 : cookie + 1;
    for (int n = 0; n < 3 && next < names.size(); ++n, ++next) {
      const std::string_view name = names[next].second;
      ByteVector padded((name.size() + 3) / 4 * 4);
      std::memcpy(padded.data(), name.data(), name.size());
      results = concat({results, words({1, 0, 100 + names[next].first, static_cast<uint32_t>(name.size())}),
                        padded, words({0, names[next].first})});
    }
    return std::optional(concat({results, words({0, next == names.size() ? 1u : 0u})}));
  });
  mount();
  const auto opened = run(fs->opendir(user(), root));
  ASSERT_TRUE(opened) << describe(opened.error());
  std::vector<std::string> seen;
  for (uint64_t offset = 0;;) {
    const auto page = run(fs->readdir(user(), opened->directory, offset, 4096, false));
    ASSERT_TRUE(page) << describe(page.error());
    if (page->entries.empty()) break;
    for (const auto& e : page->entries) seen.push_back(e.name);
    offset = page->entries.back().next;
    ASSERT_LT(seen.size(), 20u);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{".", "..", "a", "b", "c"}));
  // seekdir(3) to the position after the first name.
  const auto first = run(fs->readdir(user(), opened->directory, 2, 4096, false));
  ASSERT_TRUE(first);
  ASSERT_FALSE(first->entries.empty());
  EXPECT_EQ(first->entries.front().name, "a");
  const auto behind = run(fs->readdir(user(), opened->directory, first->entries.front().next, 4096, false));
  ASSERT_TRUE(behind);
  ASSERT_FALSE(behind->entries.empty());
  EXPECT_EQ(behind->entries.front().name, "b");
  run(fs->releasedir(opened->directory));
}

// A change must not undo what its caller does next.
TEST_F(Nfs3Mounted, ARemovalThatIsPutOff_IsNotDoneForACallerWhoIsGone) {
  server.on(kRemove, [&](const ByteVector&) {
    cancellation->cancel();
    return std::optional(words({kJukebox, 0, 0}));
  });
  mount();
  EXPECT_EQ(unlink("f"), EINTR);
  EXPECT_EQ(server.calls(kRemove), 1u);
}

TEST_F(Nfs3Mounted, ARemovalWhoseConnectionIsLost_IsNotSentAgainForACallerWhoIsGone) {
  server.on(kRemove, [&](const ByteVector&) -> std::optional<ByteVector> {
    cancellation->cancel();
    return std::nullopt;
  });
  mount();
  EXPECT_EQ(unlink("f"), EINTR);
  EXPECT_EQ(server.calls(kRemove), 1u);
}

TEST_F(Nfs3Mounted, ARemovalOfACallerWhoIsGone_IsNotSent) {
  mount();
  cancellation->cancel();
  EXPECT_EQ(unlink("f"), EINTR);
  EXPECT_EQ(server.calls(kRemove), 0u);
}

// A caller that waits gets its change.
TEST_F(Nfs3Mounted, ARemovalWhoseConnectionIsLost_IsSentAgain) {
  server.on(kRemove, [&](const ByteVector&) {
    return server.calls(kRemove) == 1 ? std::nullopt : std::optional(words({0, 0, 0}));
  });
  mount();
  EXPECT_EQ(unlink("f"), 0);
  EXPECT_EQ(server.calls(kRemove), 2u);
}

}  // namespace
}  // namespace nfsrdma::test
