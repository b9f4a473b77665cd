// SPDX-License-Identifier: Apache-2.0
// CachedFile: what the client keeps of an open file whatever the protocol's version: written data that is not
// surely on the server's disk, and its name while it is hidden. CachedOpen: an open file description.
//
// Hangs in its CachedNode, guarded by the Node's mutex unless said otherwise. A protocol derives from both
// and adds what it has on the server (opens, locks).
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/cache/cached_node.h"
#include "client/cache/held_extents.h"
#include "client/cache/own_changes.h"
#include "client/cache/read_history.h"
#include "client/cache/write_extents.h"
#include "client/filesystem.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client {

class WriteTurn;

// Where the front end puts a part of an append.
struct AppendPart {
  uint64_t offset = 0, end = 0;
  bool overlaps(const AppendPart& other) const { return offset < other.end && other.offset < end; }
  bool operator==(const AppendPart&) const = default;
};

// The parts of one write(2) with O_APPEND and O_DIRECT.
struct DirectAppend {
  std::vector<AppendPart> parts;  // under way
  std::vector<AppendPart> done;   // until another write begins
  // From the front end's end of the file to where it is; none: the first part is asking. Of `parts` and
  // `done`, if there are any.
  std::optional<Result<int64_t>> shift;

  static bool any_overlaps(const std::vector<AppendPart>& some, const AppendPart& part) {
    return std::any_of(some.begin(), some.end(), [&](const AppendPart& p) { return p.overlaps(part); });
  }
  // A part that came late: those on both sides of it have been.
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
  // Held across what opens and closes the file on the server, where there is such a thing.
  AsyncMutex open_mutex;

  // Written data; see write_extents.h. Disjoint across the three maps.
  ExtentMap writes;  // held, or WRITE is under way
  HeldExtents held;  // of `writes`, not sent: may still grow (adjacent small writes are gathered)
  std::multiset<uint64_t> under_way;  // serials of `writes` and `turns`; a turn's are those of its extents
  std::list<const WriteTurn*> turns;  // writes that wait for such as they overlap, first come first
  ExtentMap unstable;    // WRITE was answered UNSTABLE: kept until COMMIT gives the same verifier
  ExtentMap committing;  // of `unstable`, while COMMIT is under way
  uint64_t next_serial = 1;
  WaitQueue written;  // an extent left `writes`; a COMMIT is over, or a part of an append; a writer is gone
  DirectAppend direct_append;
  TimePoint unstable_since{};     // the oldest of `unstable`
  uint64_t unstable_epoch = 0;    // CachingFilesystem::epoch() of the oldest of `unstable`
  uint64_t committing_epoch = 0;  // of `committing`; 0: no COMMIT is under way
  bool commit_spawned = false;
  OwnChanges own_changes;          // since CachedNode::contents_change
  uint64_t dirty_bytes = 0;        // of `writes`
  uint64_t unstable_bytes = 0;     // of `unstable`
  Error write_error;               // the latest of write-behind
  uint64_t write_errors = 0;       // how many; each descriptor is told once of what it has not seen
  bool preserve_unlinked = false;  // the server keeps a file that is removed while it is open
  // Silly rename: the name to remove at the last close.
  NodeRef hidden_directory;
  std::string hidden_name;
  rpc::CredentialPtr hidden_by;  // who removed the name, and may remove this one

  // A descriptor is open.
  virtual bool opened() const = 0;

  void no_longer_under_way(uint64_t serial) { under_way.erase(under_way.find(serial)); }
  // Where the file ends at least, whatever the server says before it has everything. What it has answered
  // counts only if it restarted since: somebody else may have truncated the file.
  uint64_t written_end(uint64_t epoch) const {
    uint64_t end = writes.end_offset();
    if (unstable_epoch != epoch) end = std::max(end, unstable.end_offset());
    if (committing_epoch != epoch) end = std::max(end, committing.end_offset());
    return end;
  }
  // WRITEs under way. The Node's mutex is held.
  size_t writes_sent() const { return writes.size() - held.size(); }
  // The kernel's pages of a file that we are writing change together with its change attribute.
  bool writing() const { return dirty_bytes != 0; }
  // Answered, and not on stable storage.
  bool uncommitted() const { return !unstable.empty() || committing_epoch != 0; }
  // Something is not on stable storage.
  bool unsaved() const { return !writes.empty() || !turns.empty() || uncommitted(); }
};
using CachedFileRef = std::shared_ptr<CachedFile>;

// An open file description of the front end.
class CachedOpen : public OpenFile {
 public:
  // The bits of OPEN4_SHARE_ACCESS_*.
  static constexpr uint32_t kRead = 1, kWrite = 2;
  // Of open(2)'s flags.
  static uint32_t access_of(int flags) {
    switch (flags & O_ACCMODE) {
      case O_WRONLY: return kWrite;
      case O_RDWR: return kRead | kWrite;
      default: return kRead;
    }
  }

  CachedOpen(NodeRef n, CachedFileRef f, rpc::CredentialPtr c, uint32_t a, bool sync)
      : node(std::move(n)), cached(std::move(f)), credential(std::move(c)), access(a), synchronous(sync) {
    std::lock_guard lock(cached->cached.mutex);
    errors_seen = cached->write_errors;
  }
  // The same with the Node's mutex held: `errors` as CachedFile::write_errors.
  CachedOpen(NodeRef n, CachedFileRef f, rpc::CredentialPtr c, uint32_t a, bool sync, uint64_t errors)
      : node(std::move(n)),
        cached(std::move(f)),
        credential(std::move(c)),
        access(a),
        synchronous(sync),
        errors_seen(errors) {}
  // What I/O through it for `ctx` counts as. The Node's mutex is not held.
  virtual IoAccount account(const RequestContext& ctx) const = 0;

  const NodeRef node;
  const CachedFileRef cached;
  const rpc::CredentialPtr credential;
  const uint32_t access;   // kRead, kWrite
  const bool synchronous;  // O_SYNC, O_DSYNC, O_DIRECT or `sync`
  // Of CachedFile::write_errors, guarded by the Node's mutex: what fsync or close has told the application.
  uint64_t errors_seen = 0;
  ReadHistory reads;
  // Its data came with the OPEN, and nobody has read it yet.
  std::atomic<bool> unread{false};
  // READs that nobody has asked for yet. Guarded by CachingFilesystem::ahead_mutex_.
  unsigned ahead_under_way = 0;
  bool ahead_over = false;  // none are to be sent any more
  // Of CachedNode::contents_change: the server has said that the file is not what it was then. Guarded by the
  // Node's mutex.
  std::optional<uint64_t> outdated_change;
};

inline CachedOpen& cached_open(const OpenFileRef& f) {
  return static_cast<CachedOpen&>(*f);
}

}  // namespace nfsrdma::client
