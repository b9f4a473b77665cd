// SPDX-License-Identifier: Apache-2.0
// MemoryFilesystem: a small but complete file system behind client::Filesystem, for tests of the FUSE side.
//
// It keeps nodes, names, data (sparse), byte-range locks and flocks, checks permissions by the credential it
// is given, and clears set-user-ID bits on writes as a server does. Tests control it: hold() makes an
// operation wait, fail_with() makes it fail, asynchronous() makes every method suspend at least once as a
// network would, external_write() changes a file as another client would. Used by all loops; one mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "client/api/filesystem.h"
#include "transport/memory/buffer.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse::test {

using namespace nfsrdma::client;

struct Inode;
using InodePtr = std::shared_ptr<Inode>;

struct PosixLock {
  uint64_t owner = 0;
  LockType type = LockType::kRead;
  uint64_t start = 0;
  uint64_t end = 0;  // inclusive
};

struct Inode {
  static constexpr uint64_t kChunk = 65536;

  Attributes attributes;
  std::string target;  // symbolic link
  // Directory: names by name, and by their cookies, which are never reused.
  struct Name {
    InodePtr inode;
    uint64_t cookie;
  };
  std::map<std::string, Name> names;
  std::map<uint64_t, std::string> by_cookie;
  uint64_t next_cookie = 3;  // cookies 1 and 2 belong to "." and ".."
  std::weak_ptr<Inode> parent;
  // Regular file.
  std::map<uint64_t, std::array<std::byte, kChunk>> chunks;
  std::list<PosixLock> locks;
  std::map<uint64_t, LockType> flocks;  // by owner
};

struct Lifetimes {
  Duration attributes = std::chrono::seconds(1);
  Duration entries = std::chrono::seconds(1);
  Duration absent = std::chrono::seconds(0);
};

class MemoryFilesystem final : public Filesystem {
 public:
  explicit MemoryFilesystem(BufferPool& pool, Lifetimes lifetimes = {});
  ~MemoryFilesystem() override;

  // --- for tests; any thread
  std::atomic<unsigned> errors_told{0};
  Entry root();
  void asynchronous(bool on) { asynchronous_ = on; }
  void keep_cache(bool on) { keep_cache_ = on; }
  void errors_taken(bool on) { errors_taken_ = on; }
  void not_responding(bool on) { responding_ = !on; }
  void soft_timeout(bool on) { soft_timed_out_ = on; }
  void hold(const std::string& operation);
  void let_go(const std::string& operation);
  void let_everything_go();
  void fail_with(const std::string& operation, int errnum);  // 0: stop failing
  size_t held(const std::string& operation) const;           // requests waiting in it now
  size_t calls(const std::string& operation) const;
  size_t asked_whether_responding() const { return asked_whether_responding_; }
  size_t asked_whether_timed_out() const { return asked_whether_timed_out_; }
  size_t live_nodes() const;
  size_t open_files() const { return open_files_; }
  size_t open_directories() const { return open_directories_; }
  size_t locks(const std::string& path) const;
  NodeRef node(const std::string& path);
  // From now on a lock is granted only after the kernel has dropped the file's pages.
  void drop_data_on_lock(FrontEnd* front_end) { dropper_ = front_end; }
  void external_create(const std::string& name);  // in the root
  void external_write(const std::string& path, const std::string& data);
  void external_remove(const std::string& path);
  std::string contents(const std::string& path) const;
  rpc::CredentialPtr last_credential(const std::string& operation) const;
  // Whether the last WRITE's data was in a buffer much larger than the data, so it was not copied.
  bool last_write_in_place() const { return last_write_in_place_; }
  bool last_write_direct() const { return last_write_direct_; }
  // The number of different addresses at which the data of all WRITEs was.
  size_t write_places() const;

  // --- Filesystem
  Task<Result<Entry>> mount(FrontEnd* front_end) override;
  Task<bool> unmount(Duration patience) override;
  Task<Result<Entry>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<AttributesReply>> getattr(RequestContext ctx, NodeRef node, OpenFileRef file) override;
  Task<Result<AttributesReply>> setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                        OpenFileRef file) override;
  Task<Result<>> access(RequestContext ctx, NodeRef node, int mask) override;
  Task<Result<std::string>> readlink(RequestContext ctx, NodeRef node) override;
  Task<Result<Entry>> mknod(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                            uint32_t rdev_major, uint32_t rdev_minor) override;
  Task<Result<Entry>> mkdir(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode) override;
  Task<Result<Entry>> symlink(RequestContext ctx, NodeRef directory, std::string name,
                              std::string target) override;
  Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from, NodeRef to_directory,
                        std::string to, unsigned flags) override;
  Task<Result<OpenReply>> open(RequestContext ctx, NodeRef node, int flags) override;
  Task<Result<CreateReply>> create(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                                   int flags) override;
  Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset, size_t size) override;
  Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) override;
  Task<Result<>> flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) override;
  std::optional<Error> take_error(const OpenFileRef&) override;
  Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) override;
  Task<> release(RequestContext ctx, OpenFileRef file) override;
  Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) override;
  Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                      size_t bytes, bool plus) override;
  Task<> releasedir(OpenDirectoryRef directory) override;
  Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) override;
  Task<Result<FilesystemStatus>> statfs(RequestContext ctx, NodeRef node) override;
  Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) override;
  Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock, bool wait) override;
  Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                       bool wait) override;
  bool soft_timed_out() const override {
    ++asked_whether_timed_out_;
    return soft_timed_out_;
  }
  int soft_errno() const override { return ETIMEDOUT; }
  bool responding() const override {
    ++asked_whether_responding_;
    return responding_;
  }
  Statistics statistics() const override { return {}; }

 private:
  class MemoryNode;
  class OpenMemoryFile;
  class OpenMemoryDirectory;

  // Every method calls it first: counts the call, suspends, waits while held, fails when told to.
  Task<Result<>> enter(std::string operation, rpc::CredentialPtr credential);

  // The functions below are called with mutex_ held.
  NodeRef node_of(const InodePtr& inode);
  static InodePtr inode_of(const NodeRef& node);
  Entry entry_of(const InodePtr& inode);
  InodePtr find(const std::string& path) const;
  InodePtr make(const RequestContext& ctx, uint32_t mode);
  Result<Entry> add(const RequestContext& ctx, const InodePtr& directory, const std::string& name,
                    InodePtr inode);
  void attach(Inode& directory, const std::string& name, InodePtr inode);
  void detach(Inode& directory, const std::string& name);
  Result<> remove(const RequestContext& ctx, const InodePtr& directory, const std::string& name,
                  bool is_directory);
  Result<InodePtr> child(const InodePtr& directory, const std::string& name) const;
  static Result<> permit(const RequestContext& ctx, const Inode& inode, int mask);
  static void touch(Inode& inode, bool data);
  static void resize(Inode& inode, uint64_t size);
  static void store(Inode& inode, uint64_t offset, ConstBytes data);
  static void load(const Inode& inode, uint64_t offset, MutableBytes to);
  static constexpr size_t kPipedMin = 30000;
  void to_pipe(BulkData& data);
  static bool conflicts(const Inode& inode, uint64_t owner, const Lock& lock, PosixLock* with);
  static void apply(Inode& inode, uint64_t owner, const Lock& lock);
  OpenReply open_inode(const InodePtr& inode, int flags);
  void node_gone(uint64_t ino);

  BufferPool& pool_;
  const Lifetimes lifetimes_;
  std::atomic<bool> asynchronous_{false};
  std::atomic<bool> keep_cache_{false};
  std::atomic<bool> responding_{true};
  mutable std::atomic<size_t> asked_whether_responding_{0};
  std::atomic<bool> soft_timed_out_{false};
  mutable std::atomic<size_t> asked_whether_timed_out_{0};
  std::atomic<bool> last_write_in_place_{false};
  std::atomic<bool> last_write_direct_{false};
  std::set<const std::byte*> write_places_;
  std::atomic<FrontEnd*> dropper_{nullptr};
  std::atomic<size_t> open_files_{0};
  std::atomic<size_t> open_directories_{0};

  mutable Mutex mutex_{LockRank::kTable};
  WaitQueue gate_;
  WaitQueue lock_waiters_;
  std::set<std::string> held_;
  std::map<std::string, size_t> waiting_;
  std::map<std::string, size_t> calls_;
  std::map<std::string, int> failures_;
  std::atomic<bool> errors_taken_{false};
  std::map<std::string, rpc::CredentialPtr> credentials_;
  uint64_t next_ino_ = 1;
  InodePtr root_;
  std::unordered_map<uint64_t, MemoryNode*> nodes_;
};

}  // namespace nfsrdma::fuse::test
