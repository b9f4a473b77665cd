// SPDX-License-Identifier: Apache-2.0
// CachedFile: what the client keeps for an open file in every protocol version: its written data, and its
// hidden name if it was removed. CachedOpen: an open file description.
//
// The CachedNode owns its CachedFile; the Node's mutex guards the members unless a comment says otherwise. A
// protocol derives from both classes and adds its state on the server (opens, locks).
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/attributes/own_changes.h"
#include "client/core/nodes/cached_node.h"
#include "client/core/read/read_history.h"
#include "client/core/write/file_writes.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client {

// The range of a part of an append, as the front end sent it.
struct AppendPart {
  uint64_t offset = 0, end = 0;
  bool overlaps(const AppendPart& other) const { return offset < other.end && other.offset < end; }
  bool operator==(const AppendPart&) const = default;
};

// The parts of one write(2) with O_APPEND and O_DIRECT (writer.cc).
struct DirectAppend {
  std::vector<AppendPart> parts;  // in progress
  std::vector<AppendPart> done;   // finished; cleared when another write begins
  // The distance from the front end's end of the file to the real end, for `parts` and `done`. Absent: the
  // first part is still asking the server.
  std::optional<Result<int64_t>> shift;

  static bool any_overlaps(const std::vector<AppendPart>& some, const AppendPart& part) {
    return std::any_of(some.begin(), some.end(), [&](const AppendPart& p) { return p.overlaps(part); });
  }
  // True: `part` is a late part of the same write, because a part behind it is done.
  bool belongs_to_done(const AppendPart& part) const {
    return !any_overlaps(done, part) &&
           std::any_of(done.begin(), done.end(), [&](const AppendPart& p) { return p.offset >= part.end; });
  }
};

struct CachedFile {
  explicit CachedFile(CachedNode& n) : cached(n) {}
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;
  virtual ~CachedFile() = default;

  CachedNode& cached;
  // Held across COMMIT.
  AsyncMutex commit_mutex;
  // Held across OPEN and CLOSE, in protocols that have them.
  AsyncMutex open_mutex;

  FileWrites writes;               // change it through LockedWrites, which updates the mount's sums
  DirectAppend direct_append;      // its parts wait for writes.changed()
  OwnChanges own_changes;          // since ContentState::change
  bool preserve_unlinked = false;  // the server keeps a file that is removed while it is open
  // Silly rename: the name to remove at the last close.
  NodeRef hidden_directory;
  std::string hidden_name;
  rpc::CredentialPtr hidden_by;  // the user who removed the file; used to remove the hidden name

  // At least one descriptor is open.
  virtual bool opened() const = 0;

  // See FileWrites.
  uint64_t written_end(uint64_t epoch) const { return writes.written_end(epoch); }
  bool writing() const { return writes.writing(); }
  bool unsaved() const { return writes.unsaved(); }
};
using CachedFileRef = std::shared_ptr<CachedFile>;

// An open file description of the front end.
class CachedOpen : public OpenFile {
 public:
  // The bits of OPEN4_SHARE_ACCESS_*.
  static constexpr uint32_t kRead = 1, kWrite = 2;
  // The access bits for open(2)'s flags.
  static uint32_t access_of(int flags) {
    switch (flags & O_ACCMODE) {
      case O_WRONLY: return kWrite;
      case O_RDWR: return kRead | kWrite;
      default: return kRead;
    }
  }

  CachedOpen(NodeRef n, CachedFileRef f, rpc::CredentialPtr c, uint32_t a, bool sync)
      : node(std::move(n)), cached(std::move(f)), credential(std::move(c)), access(a), synchronous(sync) {
    MutexLock lock(cached->cached.mutex);
    errors_seen = cached->writes.errors();
  }
  // The same with the Node's mutex held; `errors`: FileWrites::errors().
  CachedOpen(NodeRef n, CachedFileRef f, rpc::CredentialPtr c, uint32_t a, bool sync, uint64_t errors)
      : node(std::move(n)),
        cached(std::move(f)),
        credential(std::move(c)),
        access(a),
        synchronous(sync),
        errors_seen(errors) {}
  // The account for I/O of `ctx` through this descriptor. The Node's mutex is not held.
  virtual IoAccount account(const RequestContext& ctx) const = 0;

  const NodeRef node;
  const CachedFileRef cached;
  const rpc::CredentialPtr credential;
  const uint32_t access;   // kRead, kWrite
  const bool synchronous;  // O_SYNC, O_DSYNC, O_DIRECT or `sync`
  // FileWrites::errors() at the time of open(2), or when fsync(2) or close(2) last reported an error. Guarded
  // by the Node's mutex.
  uint64_t errors_seen = 0;
  ReadHistory reads;
  // The file's data came with the OPEN, and was not read yet.
  std::atomic<bool> unread{false};
  // The number of READs for read-ahead in progress. These two are guarded by ReadAheadService::ahead_mutex_.
  unsigned ahead_under_way = 0;
  bool ahead_over = false;  // send no more read-ahead
  // A READ's reply showed that the file no longer has this change attribute. No read-ahead is sent while
  // ContentState::change still has this value. Guarded by the Node's mutex.
  std::optional<uint64_t> outdated_change;
};

inline CachedOpen& cached_open(const OpenFileRef& f) {
  return static_cast<CachedOpen&>(*f);
}

}  // namespace nfsrdma::client
