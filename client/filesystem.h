// SPDX-License-Identifier: Apache-2.0
// Filesystem: the NFS client as its front ends see it. No FUSE type and no wire type crosses this line.
//
// One object per mount, shared by all loops. A method is a coroutine that runs on the loop that calls it and
// uses that loop's connection; parameters are by value because the caller's frame may be gone before a
// request on a dead filer is answered. Methods never block a loop and never fail to answer; they may wait for
// ever on a hard mount.
//
// Nobody cancels a method: the server's slot must see its reply (RFC 8881 section 2.10.6). A front end that
// gave the application an early answer (interrupt, soft mount) lets the coroutine run on and undoes what it
// returns: release() what open() gave, and so on. Only what is not sent yet ends early, through Cancellation:
// blocking lock waits, changes that the server puts off, writes that there is no room for.
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
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/node.h"
#include "client/statistics.h"
#include "transport/memory/buffer.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"
#include "xdr/support/result.h"

namespace nfsrdma::client {

// Nobody waits for a request any more: a blocking lock wait ends, a change is not sent again. Shared by the
// front end and the coroutine; cancel() may come from any thread.
class Cancellation {
 public:
  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return cancelled_; }
  // At most one; called at once when already cancelled. Any thread may end up calling `fn`.
  void on_cancel(std::function<void()> fn);

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::function<void()> callback_;
};

// On whose behalf a request runs.
struct RequestContext {
  rpc::CredentialPtr credential;
  // Of lock requests, of changes of names and attributes, and of writes, else null: nobody waits for the
  // answer any more.
  // A lock that is granted afterwards is given back; a change that is not on its way is not made, because
  // what its caller does next must not be undone by it; a write that waits for room is not kept.
  std::shared_ptr<Cancellation> cancellation;
  // The calling thread in the daemon's PID namespace; 0: not known, as of pages that the kernel writes back.
  // Looked at by what locks have to do with: read, write, setattr.
  uint32_t thread = 0;
  // O_DIRECT: read() asks the server, whatever is kept here; what write() brings is on the server when it
  // returns.
  bool direct = false;
  // O_APPEND: write() puts it at the file's end, which the front end may know from before somebody else's
  // change.
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
  Duration ttl{};  // how long they may be believed without asking again
};

// A name's answer. `node` is null for "no such name, and you may remember that for entry_ttl".
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

// An open file or directory; defined by each Filesystem. Any thread may drop the last reference, after
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
  bool keep_cache = false;  // the kernel's pages for this file are still what the server has
  // The front end was last told another size of the file, and an answer to open() tells it none.
  bool size_is_news = false;
};
struct CreateReply {
  Entry entry;
  OpenReply open;
};
struct OpenDirectoryReply {
  OpenDirectoryRef directory;
  bool keep_cache = false;  // the kernel's cached listing is still what the server has
};

struct DirectoryEntry {
  std::string name;
  uint64_t ino = 0;
  uint32_t type = 0;  // S_IFMT bits
  uint64_t next = 0;  // offset from which the following entry is read
  std::optional<Entry>
      entry;  // with plus: what lookup() would answer; absent for ".", ".." and where unknown
};
struct DirectoryPage {
  std::vector<DirectoryEntry> entries;  // empty: end of directory
};

struct ReadReply {
  // In file order; together `size` bytes, shorter than asked only at end of file. To be landed before it is
  // looked at.
  std::vector<BulkData> data;
  size_t size = 0;
};

struct FilesystemStatus {
  uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0;
  uint64_t total_files = 0, free_files = 0, available_files = 0;
  uint32_t block_size = 4096;
  uint32_t name_max = 255;
};

// What is known of how to find a Node, for people. No server is asked.
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
  uint32_t pid = 0;           // getlk answer: the holder, 0 when on another client
};

// What a Filesystem asks of its front end: to make the kernel forget. Any loop may call; never blocks.
class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  virtual void invalidate_data(NodeRef node) = 0;  // pages and attributes
  // As invalidate_data(), and returns when the kernel has done it: for whoever just got a lock. Never from a
  // request that holds up the file's pages (read, write).
  virtual Task<> drop_data(NodeRef node) = 0;
  virtual void invalidate_attributes(NodeRef node) = 0;  // attributes only
  // The name is looked up before it is used again.
  virtual void invalidate_entry(NodeRef directory, std::string name) = 0;
};

class Filesystem {
 public:
  virtual ~Filesystem() = default;

  // Connects every loop, establishes client ID and session, walks from the pseudo-root to the export. One
  // attempt; the caller repeats within `retry`.
  virtual Task<Result<Entry>> mount(FrontEnd* front_end) = 0;
  // Writes back, closes, returns delegations, destroys session and client ID, closes connections. Bounded by
  // `patience` when the server does not answer; false then.
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
  // All of `data` or an error. Keeps `data` as long as a server restart could lose it. Where too much is kept
  // it waits before it does.
  virtual Task<Result<>> write(RequestContext ctx, OpenFileRef file, uint64_t offset, Slice data) = 0;
  // close(2) of one descriptor: writes back, reports write errors once, drops `lock_owner`'s POSIX locks.
  virtual Task<Result<>> flush(RequestContext ctx, OpenFileRef file, uint64_t lock_owner) = 0;
  // The error of writing that flush() or fsync(), which fail with nothing else, is about to tell the
  // application: the latest. Nothing when another caller has been told meanwhile. Until it is taken the next
  // of them gives it again: their callers may have been answered early.
  virtual std::optional<Error> take_error(const OpenFileRef& file) = 0;
  virtual Task<Result<>> fsync(RequestContext ctx, OpenFileRef file, bool data_only) = 0;
  // Last reference of an open file description: its locks go.
  virtual Task<> release(RequestContext ctx, OpenFileRef file) = 0;

  virtual Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node) = 0;
  // Entries after `offset` (0 = from the start), as many as fit about `bytes` of names; offsets stay valid
  // for seekdir. `plus` asks for entries with attributes.
  virtual Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                              size_t bytes, bool plus) = 0;
  virtual Task<> releasedir(OpenDirectoryRef directory) = 0;
  virtual Task<Result<>> fsyncdir(RequestContext ctx, OpenDirectoryRef directory) = 0;

  virtual Task<Result<FilesystemStatus>> statfs(RequestContext ctx, NodeRef node) = 0;

  // POSIX byte-range locks. getlk: the first conflicting lock, or kUnlock.
  virtual Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock) = 0;
  // `wait`: until granted, or EINTR through ctx.cancellation.
  virtual Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock,
                               bool wait) = 0;
  virtual Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type,
                               bool wait) = 0;

  // True while the server does not answer for longer than a soft mount waits (timeo, retrans of nfs(5));
  // always false on hard mounts. The front end then gives waiting applications soft_errno().
  virtual bool soft_timed_out() const = 0;
  virtual int soft_errno() const = 0;
  // The front end found no memory for a request, and tries again: what is kept is to be given up for it. On a
  // loop.
  virtual void memory_refused() {}

  // True while the server is not answering at all ("not responding" was logged). Any thread.
  virtual bool responding() const = 0;

  // Any thread.
  virtual Statistics statistics() const = 0;
  virtual Whereabouts whereabouts(const NodeRef&) const { return {}; }
};

}  // namespace nfsrdma::client
