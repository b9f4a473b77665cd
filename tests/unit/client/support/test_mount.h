// SPDX-License-Identifier: Apache-2.0
// TestMount: one Nfs4Filesystem mounted from an embedded filer, without FUSE, as blocking calls on paths.
//
// The calls run on the mount's loops in turn, so with several loops most files are used from all of them.
// Errors are errno values, 0 for none. The destructor unmounts and checks that nothing remains: no coroutine
// on a loop, no buffer, no client on the server (unless the test has said that the server will not answer).
//
// The transport is TCP. With NFSRDMA_TEST_TRANSPORT=rdma1 or rdma2 in the environment it is software RDMA, so
// that every test of the client also tests that transport. With NFSRDMA_TEST_LOOPS=N, mounts that do not say
// otherwise have N loops, for TSan.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "client/nfs4/ops/nfs4_filesystem.h"
#include "filer/server.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::test {

client::TransportKind transport_under_test();
unsigned loops_under_test();

// Records what the client asks its front end to invalidate.
class RecordingFrontEnd final : public client::FrontEnd {
 public:
  void invalidate_data(client::NodeRef node) override;
  Task<> drop_data(client::NodeRef node) override;
  void invalidate_attributes(client::NodeRef node) override;
  void invalidate_entry(client::NodeRef directory, std::string name) override;
  // How often data of the node was invalidated.
  unsigned data(const client::NodeRef& node) const;
  // How often only its attributes were invalidated.
  unsigned attributes(const client::NodeRef& node) const;
  // The invalidated names of the directory.
  std::set<std::string> names(const client::NodeRef& directory) const;
  // True: drop_data() does not complete from now on, as if the kernel waits for a page. False: it does again.
  void hold_drops(bool hold);

 private:
  mutable Mutex mutex_;
  bool held_ = false;
  WaitQueue released_;
  std::map<const client::Node*, unsigned> data_, attributes_;
  std::map<const client::Node*, std::set<std::string>> names_;
};

template <class T>
int errno_of(const Result<T>& result) {
  if (result) return 0;
  EXPECT_NE(result.error().errnum, 0) << describe(result.error());
  return result.error().errnum;
}

// The server's states of this kind that are not revoked.
inline std::vector<filer::StateFacts> live_states(filer::Server& server, filer::state::StateKind kind) {
  std::vector<filer::StateFacts> all = server.states();
  std::erase_if(all,
                [kind](const auto& s) { return s.kind != kind || s.revoked != filer::state::Revoked::kNo; });
  return all;
}

class TestMount {
 public:
  struct Settings {
    unsigned loops = loops_under_test();
    std::string export_path = "/export";
    std::function<void(client::ClientOptions&)> options = nullptr;
    bool mount = true;  // false: the test calls mount()
  };
  explicit TestMount(filer::Server& server) : TestMount(server, Settings{}) {}
  TestMount(filer::Server& server, Settings settings);
  ~TestMount();
  TestMount(const TestMount&) = delete;
  TestMount& operator=(const TestMount&) = delete;

  Result<client::Entry> mount();
  // Returns false if the server did not answer within `patience`.
  bool unmount(Duration patience = std::chrono::seconds(20));
  // The server does not come back: the destructor does not expect or wait for its replies.
  void abandon_server() { abandoned_ = true; }
  // The server may hold state whose reply was made unreadable, so the client ID may remain.
  void expect_leftovers() { leftovers_ = true; }

  client::nfs4::Nfs4Filesystem& fs() { return *fs_; }
  const client::NodeRef& root() const { return root_; }
  RecordingFrontEnd front_end;
  client::RequestContext user(uint32_t uid = 0, uint32_t gid = 0);

  // --- running ---
  Loop& next_loop() { return loops_[turn_++ % loops_.size()]; }
  template <class T>
  std::future<T> start(Task<T> task) {
    return start_on(next_loop(), std::move(task));
  }
  template <class T>
  T run(Task<T> task) {
    return start(std::move(task)).get();
  }
  LoopPool& loops() { return loops_; }
  // Lets the loops run as far as they can without a reply.
  void turn_every_loop() { test::turn_every_loop(loops_); }
  // Lets happen what can happen now with up to two requests, one after the other: returns when on every
  // connection requests that were sent after those are answered. Requests that a fault holds are not waited
  // for.
  void settle();
  const BufferPool& buffers() const { return buffers_; }
  Slice memory(size_t bytes) { return buffers_.slice(bytes); }

  // --- names. Paths are relative to the export: "a/b"; "" is its root. ---
  Result<client::Entry> lookup(std::string_view path);
  client::NodeRef node(std::string_view path);  // which must exist
  Result<client::Attributes> stat(std::string_view path);
  int mkdir(std::string_view path, uint32_t mode = 0755);
  int unlink(std::string_view path);
  int rmdir(std::string_view path);
  int rename(std::string_view from, std::string_view to, unsigned flags = 0);
  int link(std::string_view existing, std::string_view path);
  int symlink(std::string target, std::string_view path);
  std::vector<std::string> list(std::string_view path);  // without . and ..

  // --- files ---
  Result<client::OpenFileRef> try_open(std::string_view path, int flags = O_RDONLY);
  client::OpenFileRef open(std::string_view path, int flags = O_RDONLY);
  Result<client::OpenFileRef> try_create(std::string_view path, int flags = O_RDWR, uint32_t mode = 0644);
  client::OpenFileRef create(std::string_view path, int flags = O_RDWR);
  int write(const client::OpenFileRef& file, uint64_t offset, std::string_view text);
  Task<Result<>> write_task(client::OpenFileRef file, uint64_t offset, std::string_view text);
  Result<std::string> read(const client::OpenFileRef& file, uint64_t offset = 0, size_t size = 1 << 16);
  int fsync(const client::OpenFileRef& file);
  // close(2): flush, whose error it returns, and release.
  int close(client::OpenFileRef file, uint64_t owner = 1);
  std::string read_file(std::string_view path);                  // open, read and close
  int write_file(std::string_view path, std::string_view text);  // create, write and close

  // --- locks. An owner number stands for a process with as many threads as the test uses; none is real. ---
  static constexpr uint32_t process(uint64_t owner) { return 1u << 30 | static_cast<uint32_t>(owner); }
  // The calling thread from now on.
  void call_as(uint32_t thread) { thread_ = thread; }
  int lock(const client::OpenFileRef& file, client::LockType type, uint64_t start = 0,
           uint64_t end = UINT64_MAX, uint64_t owner = 1);
  Result<client::Lock> test_lock(const client::OpenFileRef& file, client::LockType type, uint64_t start = 0,
                                 uint64_t end = UINT64_MAX, uint64_t owner = 1);

  // The number of COMPOUNDs completed for `op`.
  uint64_t requests(const std::string& op);

 private:
  struct Place {
    client::NodeRef directory;
    std::string name;
  };
  Result<Place> place(std::string_view path);  // directory and last component

  filer::Server& server_;
  std::atomic<unsigned> turn_{0};
  std::atomic<uint32_t> thread_{process(1)};
  LoopPool loops_;
  BufferPool buffers_;
  std::unique_ptr<client::nfs4::Nfs4Filesystem> fs_;
  client::NodeRef root_;
  // Keeps the node of each reply, as the kernel does.
  Result<client::Entry> remember(Result<client::Entry> entry);
  std::map<const client::Node*, client::NodeRef> known_;
  std::string client_name_;
  bool mounted_ = false;
  bool abandoned_ = false;
  bool leftovers_ = false;
};

// A filer whose clock stands still, with exports (one, unless the options say otherwise) that everybody may
// use.
std::unique_ptr<filer::Server> start_filer(filer::nfs::Options options = {.manual_clock = true});

}  // namespace nfsrdma::test
