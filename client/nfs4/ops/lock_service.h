// SPDX-License-Identifier: Apache-2.0
// LockService: byte-range locks, POSIX and flock (RFC 8881 sections 9.1-9.8, 18.10-18.12). One per mount; any
// loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/core/attribute_service.h"
#include "client/core/kept_data.h"
#include "client/core/mount_parts.h"
#include "client/core/write_back.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/lock_waits.h"
#include "client/nfs4/state/state_manager.h"

namespace nfsrdma::client::nfs4 {

class LockService {
 public:
  LockService(const MountParts& parts, Session& session, StateManager& states, KeptData& kept,
              WriteBack& write_back, AttributeService& attributes)
      : loops_(parts.loops),
        session_(session),
        states_(states),
        kept_(kept),
        write_back_(write_back),
        attributes_(attributes) {}
  LockService(const LockService&) = delete;
  LockService& operator=(const LockService&) = delete;

  Task<Result<Lock>> getlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock);
  Task<Result<>> setlk(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock, bool wait);
  Task<Result<>> flock(RequestContext ctx, OpenFileRef file, uint64_t owner, LockType type, bool wait);
  // On close: ends the lock-owner `locker`, or (null) those that were used through `file` alone. It does so
  // at once, so that they are not mistaken for later owners of the same name. Returns those that may hold a
  // lock.
  std::vector<LockUse> end_owners(Nfs4File& file, const std::string* locker);
  // Unlocks for each of `owners`, after the data written under the locks is on the server.
  Task<Result<>> drop_locks_of(OpenFileRef file, std::vector<LockUse> owners, Lock lock);
  // As drop_locks_of() for one owner. The file's lock_mutex is held, and the data is on the server.
  Task<Result<>> unlock_in_turn(OpenFileRef file, const LockUse& use, Lock lock);

 private:
  struct LockHolder {
    Lock lock;          // kUnlock: none
    std::string owner;  // its lock_owner4, if it is of this mount
    bool ours = false;  // the holder is of this mount
  };
  // Completes when every loop has started all requests that the kernel sent before this call.
  Task<> hear_other_loops();
  // The current lock-owner of the kernel's name `locker`; creates it if there is none. `of_description`: only
  // an owner of this open file description.
  Task<LockUse> use_owner(OpenFileRef file, std::string locker, bool of_description);
  Task<Result<LockHolder>> find_lock_holder(RequestContext ctx, OpenFileRef file, uint64_t owner, Lock lock);
  Task<Result<>> lock_owner_request(RequestContext ctx, OpenFileRef file, const LockUse& use, Lock lock,
                                    bool wait, LockWaits::Wait* waiting);
  // The lock was granted: validates cached data, and checks whether the caller still waits. If not, it
  // restores the earlier locks and fails with EINTR. The file's lock_mutex is held.
  Task<Result<>> keep_or_give_back(RequestContext ctx, OpenFileRef file, const LockUse& use, Lock lock,
                                   std::vector<LockRange> held_before);
  // Nothing: granted. Else: the owner of the conflicting lock. The file's lock_mutex is held.
  Task<Result<std::optional<nfs4::lock_owner4>>> try_lock(OpenFileRef file, const LockUse& use, Lock lock,
                                                          bool waiting);
  Task<Result<>> unlock(OpenFileRef file, std::string locker, bool of_description, Lock lock);
  // lock_mutex keeps `owner` alive.
  Task<Result<>> unlock_at_server(Nfs4File& handle, OpenStateRef state, LockState& owner, Lock lock);
  // Updates the lock record. The Node's mutex is held.
  void note_unlocked(FileState& file, LockState& owner, const Lock& lock);
  // Locks are granted locally under a delegation. If the lease may have expired, asks the server whether it
  // revoked the delegation: it could then have given a lock to another client.
  Task<> confirm_local_locks(std::shared_ptr<FileState> file);
  // FREE_STATEID (section 18.38) for lock-owners without locks.
  Task<> forget_idle_owners(std::shared_ptr<FileState> file, OpenStateRef state);
  // Completes when a lock of the file is released here, or after `longest`. Returns false if cancelled.
  Task<bool> wait_for_unlock(RequestContext ctx, std::shared_ptr<FileState> file, Duration longest);

  LoopPool& loops_;
  Session& session_;
  StateManager& states_;
  KeptData& kept_;
  WriteBack& write_back_;
  AttributeService& attributes_;
  LockWaits lock_waits_;
  std::atomic<uint64_t> lock_owners_{0};  // number of lock-owners so far
};

}  // namespace nfsrdma::client::nfs4
