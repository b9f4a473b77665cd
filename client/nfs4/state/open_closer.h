// SPDX-License-Identifier: Apache-2.0
// OpenCloser: CLOSE and OPEN_DOWNGRADE, and the LOCKU before them (RFC 8881 sections 18.2, 18.12, 18.18).
//
// If a file's data is on the server and it has no locks here, its CLOSE is delayed for a moment and sent with
// those of other files in one COMPOUND. It is sent at once where a delay would be noticed: before the file's
// name is removed or replaced; and, if it closes an open for writing, before the file is opened for reading
// where a delegation is wanted, which the server would not grant beside an open for writing.
//
// Owned by the StateManager; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/file_state.h"
#include "client/nfs4/state/state_registry.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

class OpenCloser {
 public:
  // `delay`: how long a CLOSE may be delayed.
  OpenCloser(Session& session, StateRegistry& registry, Duration delay)
      : session_(session),
        registry_(registry),
        close_delay_(delay),
        put_off_(delay > Duration::zero()),
        closing_timer_(session.loops()[0]) {}

  // An opener with `access` has closed: drops the locks that are left and sends CLOSE or OPEN_DOWNGRADE as
  // needed, except for access that the file's delegation covers. A CLOSE may be delayed if nobody waits for
  // it. None of the file's mutexes is held.
  Task<> closed(std::shared_ptr<FileState> file, OpenStateRef state, uint32_t access);
  // Closes on the server every open of the file that has no opener here, unless a delegation keeps it.
  // Returns when that is done.
  Task<> close_now(NodeRef node);
  // Closes or downgrades all opens of the file that have lost openers.
  Task<> close_idle(NodeRef node, std::shared_ptr<FileState> file);
  // True if the server still has an open of the file for writing because the CLOSE is delayed.
  static bool open_to_write(Nfs4Node& node);
  // Sends LOCKU for every owner under `state` that holds a lock; `all`: every one that has a stateid.
  // lock_mutex is held.
  Task<> drop_locks(std::shared_ptr<FileState> file, OpenStateRef state, bool all);
  // The CLOSE with the stateid `sent` succeeded.
  static void note_closed(const FileState& file, OpenState& state, const nfs4::stateid4& sent);
  // An OPEN_DOWNGRADE to `access` was answered. The Node's mutex is held.
  static void note_downgraded(OpenState& state, uint32_t access, const Result<nfs4::OPEN_DOWNGRADE4res>& res);

  // No CLOSE is delayed from now on. Loop 0.
  void close_at_once();
  // Returns when all delayed CLOSEs are done. Call close_at_once() before.
  Task<> close_rest();

 private:
  // An open without openers.
  struct Closing {
    NodeRef node;
    std::shared_ptr<FileState> file;
    OpenStateRef state;
  };
  // The same with the file's mutexes held, in this order.
  struct HeldClosing {
    Closing what;
    AsyncMutex::Guard locking, opening, returning;
    nfs4::stateid4 stateid;
  };
  // The file's lock_mutex and open_mutex. A waiter for one of them never holds the other: locks continue
  // while an OPEN waits for another client's delegation.
  struct ClosingGuards {
    AsyncMutex::Guard locking, opening;
  };
  Task<ClosingGuards> lock_for_closing(std::shared_ptr<FileState> file);
  bool may_close_later(const FileState& file, const OpenState& state, uint32_t access) const;
  Task<> close_later(Closing closing);
  Task<> close_when_due();
  Task<> close_queued();
  Task<> close_all(std::vector<Closing> all);
  // `some`: of one user, and not more than fit one COMPOUND. Returns those that must be tried again.
  Task<std::vector<Closing>> close_together(std::vector<Closing> some);
  // Returns false if another coroutine uses the file, or if CLOSE alone is not enough.
  static bool try_hold(HeldClosing& held);
  // Closes or downgrades one state that has lost openers, with the file's mutexes held.
  Task<> trim(std::shared_ptr<FileState> file, OpenStateRef state);
  // What trim() leaves of the open on the server; the Node's mutex is held.
  static uint32_t wanted_access(const FileState& file, const OpenState& state);

  Session& session_;
  StateRegistry& registry_;
  const Duration close_delay_;
  std::atomic<bool> put_off_;
  Timer closing_timer_;  // of close_when_due(), which runs once at a time
  Mutex closing_mutex_;
  std::vector<Closing> closing_ NFSRDMA_GUARDED_BY(closing_mutex_);
  bool closing_timed_ NFSRDMA_GUARDED_BY(closing_mutex_) = false;  // close_when_due() runs
  WaitQueue closing_over_ NFSRDMA_GUARDED_BY(closing_mutex_);
};

}  // namespace nfsrdma::client::nfs4
