// SPDX-License-Identifier: Apache-2.0
// Session: one client ID and one session with the server, over one transport per loop (RFC 8881
// sections 2.4, 2.10).
//
// Owned by the Nfs4Filesystem of a mount; created and destroyed while no loop uses it. run() may be called on
// any loop and uses that loop's transport. The session is established and recovered on loop 0, by one
// coroutine at a time; each loop binds its own connection. Readiness (readiness.h) and the client ID
// (registration.h) have declared states. What follows each event:
//
//   connection lost: connected again, BIND_CONN_TO_SESSION; pending calls are sent again
//   BADSESSION, DEADSESSION...: CREATE_SESSION; state is still there
//   STALE_CLIENTID: the server restarted; EXCHANGE_ID, CREATE_SESSION, reclaim, RECLAIM_COMPLETE
//
// While the session is broken, the slot table is closed and new requests wait. run() sends requests that were
// in flight again in the new session, and marks them as possibly executed before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "client/api/statistics.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/connections.h"
#include "client/nfs4/session/fore_channel.h"
#include "client/nfs4/session/lease.h"
#include "client/nfs4/session/readiness.h"
#include "client/nfs4/session/recovery_throttle.h"
#include "client/nfs4/session/registration.h"
#include "client/nfs4/session/request.h"
#include "client/nfs4/session/request_sender.h"
#include "client/nfs4/session/server_identity.h"
#include "client/nfs4/session/slot_table.h"
#include "client/nfs4/session/status_flags.h"
#include "client/nfs4/session/stop_flag.h"
#include "transport/runtime/gate.h"
#include "transport/runtime/sync.h"
#include "transport/runtime/value_task.h"

namespace nfsrdma::client::nfs4 {

// Restores the state of a mount (opens, locks, unstable writes) after the server lost or revoked it. Loop 0.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // Reclaims opens and locks after a restart (RFC 8881 section 8.4.2.1), before RECLAIM_COMPLETE and before
  // any other request. Marks what cannot be reclaimed: opens for reopening, locks as lost. An error
  // (kReconnect) makes recovery start over. State that was already reclaimed in the same epoch is not
  // reclaimed again.
  virtual Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) = 0;
  // Called instead of reclaim() if nothing can be reclaimed: marks all opens for reopening and all locks as
  // lost.
  virtual void lose_all(const char* why) = 0;
  // Called after a restart when the new session is in use: reopens what is marked and sends unstable writes
  // again.
  virtual Task<> recovered() = 0;
  // SEQ4_STATUS_*_REVOKED: finds revoked stateids (TEST_STATEID), frees them (FREE_STATEID) and reopens the
  // files. May use Session::run(). `recallable`: only recallable state (delegations) was revoked.
  virtual Task<> state_revoked(bool recallable) = 0;
  // The server offers no working back channel and cannot recall anything: returns all delegations (section
  // 10.2).
  virtual void cannot_be_recalled() = 0;
};

// Answers callbacks, on the loop of the connection that the call came on.
class CallbackService {
 public:
  virtual ~CallbackService() = default;
  virtual Task<ByteVector> serve(ByteVector call) = 0;
  // A new session, with the attributes that CREATE_SESSION granted the back channel: forgets the old slots.
  virtual void session_opened(const nfs4::sessionid4& session, const nfs4::channel_attrs4& back_channel) = 0;
};

class Session {
 public:
  Session(LoopPool& loops, BufferPool& buffers, const ClientOptions& options, rpc::CredentialPtr machine);
  ~Session();
  void attach(StateKeeper* keeper, CallbackService* callbacks);

  // Loop 0. Connects all loops. The session is ready when it returns without error; after an error, only
  // stop() may follow.
  Task<Result<>> start();
  // Loop 0. Sends DESTROY_SESSION and DESTROY_CLIENTID within `patience`, closes every transport, and waits
  // until its own coroutines have ended. Then the Session may be destroyed while the loops still run. Returns
  // false if the server did not answer.
  Task<bool> stop(Duration patience);

  // Runs one COMPOUND until it is answered: waits for a slot, for the connection and for recovery, and
  // retries after DELAY and GRACE. Returns the server's reply, which may contain error statuses, or an Error:
  // kInterrupted at shutdown, kPermanent if the RPC was rejected or malformed. `request` outlives the call.
  Task<Result<CompoundReply>> run(const Request& request);

  nfs4::clientid4 client_id() const { return registration_.id(); }
  // Registration::epoch().
  uint64_t epoch() const { return registration_.epoch(); }
  const ForeChannel& fore_channel() const { return fore_channel_; }
  const Connections& connections() const { return connections_; }
  const Lease& lease() const { return lease_; }
  // Loop 0. The server's lease_time, once it is known.
  void set_lease(std::chrono::seconds lease);
  // Sends SEQUENCE until Lease::holds(), but only a limited number of times.
  Task<> confirm_lease();

  LoopPool& loops() { return loops_; }
  const rpc::CredentialPtr& machine_credential() const { return machine_; }
  // For the back channel: CB_RECALL_SLOT, referring calls.
  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  // As far as we know, the back channel works.
  bool back_channel() const { return back_channel_.load(std::memory_order_relaxed); }
  OperationCounters& counters() { return sender_.counters(); }
  SessionStatistics statistics() const;

 private:
  class Channel;
  enum class Verdict : uint8_t {
    kAnswered,       // the caller reads the reply
    kAgain,          // retry at once, in another slot or session
    kUncached,       // as kAgain, without sa_cachethis
    kAgainExecuted,  // as kAgain; the server had executed the request and kept no reply
    kDelay,          // retry later (DELAY)
    kSameSlot,       // retry later, in the same slot, which is not released (DELAY of SEQUENCE)
    kGrace,          // retry later (GRACE)
  };

  // --- session.cc ---
  // A slot whose sequence ID is known. Fails if `request` was cancelled (EINTR), and at shutdown. A free slot
  // costs no coroutine frame. The references point into the frame of the caller, which awaits the slot.
  // `size` begins anew after the probe of an uncertain slot.
  ValueTask<Result<SlotTicket>> take_slot(unsigned transport, const Request& request, bool executed_before,
                                          CallSize& size);
  // The same. `ticket`: what SlotTable::try_acquire() returned.
  Task<Result<SlotTicket>> wait_for_slot(const Request& request, bool executed_before, CallSize& size,
                                         std::optional<SlotTicket> ticket);
  // RPCSEC_GSS: makes the context that the request needs.
  Task<Result<>> secure(unsigned transport, const Request& request, bool executed_before);
  // secure(), then wait_for_slot().
  Task<Result<SlotTicket>> take_slot_securely(unsigned transport, const Request& request,
                                              bool executed_before, CallSize& size);
  // Decides by the SEQUENCE result and the status what happens next. Releases the slot, except for kSameSlot.
  Verdict judge(const Request& request, const CompoundReply& reply, const SlotTicket& ticket);
  // The same for an error of SEQUENCE.
  Verdict judge_sequence(const Request& request, nfs4::nfsstat4 status, const SlotTicket& ticket);
  // Returns true if a server without our state sent this reply (SEQ4_STATUS_RESTART_RECLAIM_NEEDED, and
  // recovery has begun).
  bool without_state(const CompoundReply& reply, const SlotTicket& ticket) const;
  void note_sequence(const nfs4::SEQUENCE4res& sequence, const SlotTicket& ticket);
  Task<> probe_slot(SlotTicket ticket, Precedence precedence);

  // --- session_recovery.cc ---
  // Handshake hook of transport `index`.
  Task<Result<>> on_connected(unsigned index);
  Task<Result<>> bind(unsigned index);
  // Closes the slots of that generation. Returns false if they are closed already or belong to another
  // session.
  bool close(uint64_t generation);
  // The session of `generation` is unusable: close the slots, recover on loop 0.
  void invalidate(uint64_t generation, const char* why);
  Task<> recover_live();
  // Establishes a usable session over loop 0's connection. recovery_mutex_ is held.
  Task<Result<>> recover();
  // Makes the session and takes what the server granted.
  Task<Result<>> make_session();
  Task<Result<>> fetch_lease(RecoveryChannel& channel);
  Task<Result<>> reclaim(RecoveryChannel& channel);
  Task<> restore_state();

  // --- session_upkeep.cc ---
  Task<> renew_lease();
  Task<> mend_back_channel(uint64_t generation);
  Task<> handle_status_flags(uint32_t flags, uint64_t generation);
  // The server lost its state and kept the session of `generation`: does what invalidate() does, and reclaims
  // the state.
  void reclaim_soon(uint64_t generation);
  Task<> reclaim_live();
  // As invalidate(), for a session that still works: requests in flight finish first.
  Task<> replace_session(uint64_t generation);
  // Waits until the slots in use are released; the table is closed.
  Task<> outstanding_requests();
  Task<> destroy_all();
  Task<> end_security();

  LoopPool& loops_;
  const ClientOptions& options_;
  const rpc::CredentialPtr machine_;
  StateKeeper* keeper_ = nullptr;
  CallbackService* callbacks_ = nullptr;
  StopFlag stopping_;
  Connections connections_;
  SlotTable slots_;
  ServerIdentity identity_;
  Lease lease_;
  ForeChannel fore_channel_;
  RequestSender sender_;
  StatusFlags flags_;
  RecoveryThrottle throttle_;
  Readiness readiness_;  // for the connections of the other loops

  // Loop 0 only.
  Gate gate_;  // the coroutines that nobody awaits
  AsyncMutex recovery_mutex_;
  Registration registration_;
  uint64_t generation_ = 0;  // of the slots
  Timer renew_timer_;

  std::atomic<bool> back_channel_{false};
  std::atomic<uint64_t> sessions_created_{0}, recoveries_{0};
};

}  // namespace nfsrdma::client::nfs4
