// SPDX-License-Identifier: Apache-2.0
// Filesystem: the NFS client as its front ends see it. Its interface contains no FUSE type and no wire type.
//
// One object per mount, shared by all loops. A method is a coroutine that runs on the loop that calls it and
// uses that loop's connection. Parameters are by value, because the caller's frame may be gone before a
// server that does not respond answers. Methods never block a loop and always return a result. On a hard
// mount they may wait without limit.
//
// A method that has sent a request cannot be cancelled: the request keeps its slot until the reply arrives
// (RFC 8881 section 2.10.6). A front end that answered the application early (interrupt, soft mount) lets the
// coroutine finish and undoes its result, for example it calls release() for what open() returned.
// Cancellation ends only what is not sent yet: blocking lock waits, changes that the server delays, writes
// that wait for memory.
//
// Errors: Error.errnum is what the application sees, as the kernel's NFS client would present it.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/api/node.h"
#include "client/api/statistics.h"
#include "transport/memory/buffer.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/task.h"
#include "xdr/support/result.h"

namespace nfsrdma::client {

// Says that nobody waits for a request any more: a blocking lock wait ends, and a change is not sent again.
// Shared by the front end and the coroutine. Any thread may call cancel().
class Cancellation {
 public:
  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return cancelled_; }
  // At most one callback. It is called at once if the request is already cancelled. Any thread may call `fn`.
  void on_cancel(std::function<void()> fn);

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  std::function<void()> callback_ NFSRDMA_GUARDED_BY(mutex_);
};

// The user and the circumstances of a request.
struct RequestContext {
  rpc::CredentialPtr credential;
  // Set for lock requests, for changes of names and attributes, and for writes; else null. After cancel(): a
  // lock that is granted is released again; a change that was not sent is not sent, because it could undo
  // what the caller does next; a write that waits for memory is dropped.
  std::shared_ptr<Cancellation> cancellation;
  // The calling thread in the daemon's PID namespace. 0: not known, for example when the kernel writes back
  // pages. read(), write() and setattr() use it to find the byte-range locks that the caller relies on.
  uint32_t thread = 0;
  // O_DIRECT: read() asks the server and ignores cached data. write() returns when the data is on the server.
  bool direct = false;
  // O_APPEND: write() puts the data at the end of the file. The front end's offset may be wrong, because
  // another client changed the file.
  bool append = false;
};

struct Attributes {
  uint64_t ino = 0;   // st_ino: fileid, made unique across crossed exports
  uint32_t mode = 0;  // type and permission bits as in st_mode
  uint32_t nlink = 1;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t rdev_major = 0;
  uint32_t rdev_minor = 0;
  uint64_t size = 0;
  uint64_t used = 0;  // bytes
  timespec atime{};
  timespec mtime{};
  timespec ctime{};
  uint64_t change = 0;
};

struct AttributesReply {
  Attributes attributes;
  Duration ttl{};  // how long they are valid without asking the server again
};

// The result of a lookup. A null `node` is a negative entry, valid for entry_ttl.
struct Entry {
  NodeRef node;
  Attributes attributes;
  Duration attributes_ttl{};
  Duration entry_ttl{};
};

// What setattr() changes; unset members stay.
struct SetAttributes {
  std::optional<uint32_t> mode;  // permission bits, S_ISUID, S_ISGID, S_ISVTX
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  std::optional<uint64_t> size;
  struct Time {
    bool now = false;  // the server's clock
    timespec value{};
  };
  std::optional<Time> atime;
  std::optional<Time> mtime;

  bool any() const { return mode || uid || gid || size || atime || mtime; }
};

// An open file or directory. Each Filesystem derives its own. Any thread may drop the last reference, after
// release().
class OpenFile {
 public:
  virtual ~OpenFile() = default;
};
class OpenDirectory {
 public:
  virtual ~OpenDirectory() = default;
};
using OpenFileRef = std::shared_ptr<OpenFile>;
using OpenDirectoryRef = std::shared_ptr<OpenDirectory>;

struct OpenReply {
  OpenFileRef file;
  bool keep_cache = false;  // the kernel's cached pages of this file are still valid
  // The size differs from the one that the front end got last. The front end must tell the kernel itself,
  // because a FUSE reply to open() carries no size.
  bool size_is_news = false;
};
struct CreateReply {
  Entry entry;
  OpenReply open;
};
struct OpenDirectoryReply {
  OpenDirectoryRef directory;
  bool keep_cache = false;  // the kernel's cached listing is still valid
};

struct DirectoryEntry {
  std::string name;
  uint64_t ino = 0;
  uint32_t type = 0;  // S_IFMT bits
  uint64_t next = 0;  // the offset that continues after this entry
  std::optional<Entry>
      entry;  // with `plus`: the result of lookup(); absent for ".", ".." and where not known
};
struct DirectoryPage {
  std::vector<DirectoryEntry> entries;  // empty: end of directory
};

struct ReadReply {
  // In file order, `size` bytes in total; shorter than requested only at the end of the file. Call
  // BulkData::land() before you look at the bytes.
  std::vector<BulkData> data;
  size_t size = 0;
};

struct FilesystemStatus {
  uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0;
  uint64_t total_files = 0, free_files = 0, available_files = 0;
  uint32_t block_size = 4096;
  uint32_t name_max = 255;
};

// What is known about a Node's name, for messages to people. The server is not asked.
struct Whereabouts {
  uint64_t ino = 0;   // st_ino; 0: not known
  NodeRef directory;  // null: no name is known
  std::string name;   // in `directory`
};

enum class LockType : uint8_t { kRead, kWrite, kUnlock };
struct Lock {
  LockType type = LockType::kUnlock;
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  // inclusive; UINT64_MAX: to the end of the file
  uint32_t pid = 0;           // getlk answer: the holder's process ID; 0: the holder is on another client
};

// The calls from a Filesystem to its front end: they invalidate what the kernel caches. Any loop; they never
// block.
class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  virtual void invalidate_data(NodeRef node) = 0;  // pages and attributes
  // As invalidate_data(), but completes only when the kernel has dropped the pages, for example before a
  // granted lock is reported. A READ or WRITE of the kernel must not wait for it: the kernel waits for that
  // request before it drops the pages.
  virtual Task<> drop_data(NodeRef node) = 0;
  virtual void invalidate_attributes(NodeRef node) = 0;  // attributes only
  // The kernel must look the name up before it uses it again.
  virtual void invalidate_entry(NodeRef directory, std::string name) = 0;
};

class Filesystem {
 public:
  virtual ~Filesystem() = default;

  // Connects every loop, establishes client ID and session, and walks from the pseudo root to the export. It
  // tries once; the caller repeats it as the mount option `retry` says.
  virtual Task<Result<Entry>> mount(FrontEnd* front_end) = 0;
  // Writes back, closes, returns delegations, destroys session and client ID, and closes the connections. If
  // the server does not answer within `patience`, it gives up and returns false.
  virtual Task<bool> unmount(Duration patience) = 0;

  virtual Task<Result<Entry>> lookup(RequestContext ctx, NodeRef directory, std::string name) = 0;
  // `file` may be null.
  virtual Task<Result<AttributesReply>> getattr(RequestContext ctx, NodeRef node, OpenFileRef file) = 0;
  virtual Task<Result<AttributesReply>> setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                OpenFileRef file) = 0;
  virtual Task<Result<>> access(RequestContext ctx, NodeRef node, int mask) = 0;  // R_OK | W_OK | X_OK
  virtual Task<Result<std::string>> readlink(RequestContext ctx, NodeRef node) = 0;

  virtual Task<Result<Entry>> mknod(RequestContext ctx, NodeRef directory, std::string name, uint32_t mode,
                                    uint32_t rdev_major, uint32_t rdev_minor) = 0;
  virtual Task<Result<Entry>> mkdir(RequestContext ctx, NodeRef directory, std::string name,
                                    uint32_t mode) = 0;
  virtual Task<Result<Entry>> symlink(RequestContext ctx, NodeRef directory, std::string name,
                                      std::string target) = 0;
  virtual Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) = 0;
  virtual Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name) = 0;
  virtual Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name) = 0;
  // `flags`: RENAME_NOREPLACE where the file system can do it atomically, else EINVAL.
  virtual Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                NodeRef to_directory, std::string to, unsigned flags) = 0;

  // `flags` as in open(2): access mode, O_APPEND, O_SYNC, O_DSYNC, O_DIRECT; for create() O_EXCL and O_TRUNC,
  // too. An existing file is truncated by setattr().
  virtual Task<Result<OpenReply>> open(RequestContext ctx, NodeRef node, int flags) = 0;
  virtual Task<Result<CreateReply>> create(RequestContext ctx, NodeRef directory, std::string name,
                                           uint32_t mode, int flags) = 0;
  virtual Task<Result<ReadReply>> read(RequestContext ctx, OpenFileRef file, uint64_t offset,
                                       size_t size) = 0;
  // Writes all of `data` or fails. Keeps `data` as long as a server restart could lose it. If too much is
  // kept already, it waits first.
  virtual Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) = 0;
  // close(2) of one descriptor: writes back, reports a write error once, releases `lock_owner`'s POSIX locks.
  virtual Task<Result<>> flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) = 0;
  // The latest write error. The front end takes it just before it answers flush() or fsync(), which fail for
  // no other reason. Nothing if it was taken for another caller meanwhile. Until the error is taken, each
  // flush() or fsync() reports it again, because an earlier caller may have been answered early.
  virtual std::optional<Error> take_error(const OpenFileRef& file) = 0;
  virtual Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) = 0;
  // The last reference to an open file description is gone: its locks are released.
  virtual Task<> release(RequestContext ctx, OpenFileRef file) = 0;

  virtual Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) = 0;
  // Entries after `offset` (0: from the start), as many as fit into a reply of about `bytes` bytes. Offsets
  // stay valid for seekdir(3). `plus` asks for entries with attributes.
  virtual Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                              size_t bytes, bool plus) = 0;
  virtual Task<> releasedir(OpenDirectoryRef directory) = 0;
  virtual Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) = 0;

  virtual Task<Result<FilesystemStatus>> statfs(RequestContext ctx, NodeRef node) = 0;

  // POSIX byte-range locks. getlk returns the first conflicting lock, or kUnlock.
  virtual Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) = 0;
  // `wait`: completes when the lock is granted, or fails with EINTR through ctx.cancellation.
  virtual Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock,
                               bool wait) = 0;
  virtual Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                               bool wait) = 0;

  // True if the server has not answered for longer than a soft mount waits (timeo and retrans of nfs(5)).
  // Always false on hard mounts. While it is true, the front end fails waiting requests with soft_errno().
  virtual bool soft_timed_out() const = 0;
  virtual int soft_errno() const = 0;
  // The front end found no memory for a request and retries. The Filesystem drops cached data to free some.
  // Called on a loop.
  virtual void memory_refused() {}

  // False while the server does not answer ("not responding" was logged). Any thread.
  virtual bool responding() const = 0;

  // Any thread.
  virtual Statistics statistics() const = 0;
  virtual Whereabouts whereabouts(const NodeRef&) const { return {}; }
};

}  // namespace nfsrdma::client
