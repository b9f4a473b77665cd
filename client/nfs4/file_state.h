// FileState: what a file has on the server and in memory while it is open: opens, byte-range locks, unwritten
// data.
//
// Hangs in its Nfs4Node, guarded by the Node's mutex unless said otherwise. One OpenState per file and
// open-owner (RFC 8881 section 9.1: the open-owner is the user), however many descriptors share it; one
// LockState per lock-owner (a process for POSIX locks, an open file description for flock) under the
// OpenState it was made with.
#pragma once

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/filesystem.h"
#include "client/nfs4/node.h"
#include "client/nfs4/write_extents.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/open_ops.h"

namespace nfsrdma::client {

struct LockRange {
  uint64_t start = 0;
  uint64_t end = UINT64_MAX;  // inclusive
  LockType type = LockType::kRead;
};

struct LockState {
  std::string owner;  // lock_owner4.owner, unique per mount
  uint32_t pid = 0;   // of the last lock request, for F_GETLK
  nfs4::stateid4 stateid;
  bool established = false;  // stateid is valid; else the next LOCK is made from the open stateid
  bool lost = false;  // the server revoked or could not give back a lock: I/O fails until it is unlocked
  std::vector<LockRange> ranges;  // held, disjoint, ascending
};

struct OpenState {
  uint32_t uid = 0;
  rpc::CredentialPtr credential;  // of the user's first open; recovery uses it
  nfs4::stateid4 stateid;
  bool established = false;           // the server has it; else it must be opened anew before use
  uint64_t epoch = 0;                 // Session::epoch() it was made in
  uint64_t version = 0;               // changes when `stateid` was replaced by recovery
  int failed = 0;                     // errno: could not be opened anew; I/O fails with it
  std::array<uint32_t, 4> openers{};  // descriptors by share access (1 read, 2 write, 3 both)
  uint32_t held_access = 0;           // what the server has
  std::list<LockState> locks;

  uint32_t needed_access() const {
    uint32_t access = 0;
    for (uint32_t a = 1; a < openers.size(); ++a) access |= openers[a] != 0 ? a : 0;
    return access;
  }
  // Each to be opened by itself when the state is made anew: an OPEN_DOWNGRADE must name "the union of the
  // share_access ... for some subset of the OPENs in effect" (RFC 8881 section 18.18.3). `unsaved`: there is
  // data to be written, perhaps of a descriptor that is closed.
  std::vector<uint32_t> modes(bool unsaved) const {
    std::vector<uint32_t> all;
    for (uint32_t a = 1; a < openers.size(); ++a) {
      if (openers[a] != 0) all.push_back(a);
    }
    const bool writes = (needed_access() & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
    if (all.empty() || (unsaved && !writes)) all.push_back(nfs4::OPEN4_SHARE_ACCESS_WRITE);
    return all;
  }
};
using OpenStateRef = std::shared_ptr<OpenState>;

struct FileState {
  explicit FileState(Nfs4Node& n) : node(n) {}

  Nfs4Node& node;
  // Held across OPEN by file handle, OPEN_DOWNGRADE, CLOSE and reopening: one at a time per file.
  AsyncMutex open_mutex;
  // Held across LOCK and LOCKU of the file, so that the book of held ranges follows the server's order.
  AsyncMutex lock_mutex;
  // Held across COMMIT.
  AsyncMutex commit_mutex;

  std::vector<OpenStateRef> opens;
  WaitQueue unlocked;  // lock waits of this mount, woken when a lock is dropped here
  // Of locks of this mount: from before the data written under them is sent until LOCKU is answered.
  unsigned unlocks_under_way = 0;
  uint64_t unlocks_ended = 0;

  // Written data; see write_extents.h. Disjoint across the three maps.
  ExtentMap writes;              // held, or WRITE is under way
  WriteExtent* held = nullptr;   // of `writes`, not sent: may still grow (adjacent small writes are gathered)
  std::set<uint64_t> under_way;  // serials of `writes`
  ExtentMap unstable;            // WRITE was answered UNSTABLE4: kept until COMMIT gives the same verifier
  ExtentMap committing;          // of `unstable`, while COMMIT is under way
  uint64_t next_serial = 1;
  WaitQueue written;              // an extent left `writes`, or a COMMIT is over
  uint64_t unstable_epoch = 0;    // Session::epoch() of the oldest of `unstable`
  uint64_t committing_epoch = 0;  // of `committing`; 0: no COMMIT is under way
  bool commit_spawned = false;
  uint64_t dirty_bytes = 0;        // of `writes`
  uint64_t unstable_bytes = 0;     // of `unstable`
  uint32_t writes_under_way = 0;   // write-through WRITEs and SETATTRs of the size
  Error write_error;               // the latest of write-behind
  uint64_t write_errors = 0;       // how many; each descriptor is told once of what it has not seen
  bool preserve_unlinked = false;  // OPEN4_RESULT_PRESERVE_UNLINKED
  // Silly rename: the name to remove at the last close.
  NodeRef hidden_directory;
  std::string hidden_name;
  rpc::CredentialPtr hidden_by;  // who removed the name, and may remove this one

  uint32_t pins = 0;  // OPENs under way

  // Where the file ends at least, whatever the server says before it has everything. What it has answered
  // counts only if it restarted since: somebody else may have truncated the file.
  uint64_t written_end(uint64_t epoch) const {
    uint64_t end = writes.end_offset();
    if (unstable_epoch != epoch) end = std::max(end, unstable.end_offset());
    if (committing_epoch != epoch) end = std::max(end, committing.end_offset());
    return end;
  }

  // Something is not on stable storage.
  bool unsaved() const { return !writes.empty() || !unstable.empty() || committing_epoch != 0; }
  bool in_use() const { return pins != 0 || !opens.empty() || unsaved(); }
};

// An open file description of the front end.
class Nfs4File final : public OpenFile {
 public:
  Nfs4File(NodeRef n, std::shared_ptr<FileState> f, OpenStateRef s, rpc::CredentialPtr c, uint32_t a,
           bool sync)
      : node(std::move(n)),
        file(std::move(f)),
        state(std::move(s)),
        credential(std::move(c)),
        access(a),
        synchronous(sync) {
    std::lock_guard lock(file->node.mutex);
    errors_seen = file->write_errors;
  }

  const NodeRef node;
  const std::shared_ptr<FileState> file;
  const OpenStateRef state;
  const rpc::CredentialPtr credential;
  const uint32_t access;               // OPEN4_SHARE_ACCESS_*
  const bool synchronous;              // O_SYNC, O_DSYNC, O_DIRECT or `sync`
  std::atomic<bool> lock_used{false};  // a lock was taken through it: a lost lock of its owner fails its I/O
  uint64_t errors_seen = 0;            // of FileState::write_errors; guarded by the Node's mutex
};

inline Nfs4File& nfs4_file(const OpenFileRef& f) {
  return static_cast<Nfs4File&>(*f);
}

}  // namespace nfsrdma::client
