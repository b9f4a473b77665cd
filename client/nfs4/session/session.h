// SPDX-License-Identifier: Apache-2.0
// Session: one client ID and one session with the filer, over one transport per loop (RFC 8881
// sections 2.4, 2.10).
//
// Owned by the Nfs4Filesystem of a mount; created and destroyed while no loop uses it. run() may be called on
// any loop and uses that loop's transport. Everything about establishing, binding and recovering happens on
// loop 0, by one coroutine at a time:
//
//   none --EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE--> ready
//   ready --connection lost--> connected again, BIND_CONN_TO_SESSION --> ready; pending calls are sent again
//   ready --BADSESSION, DEADSESSION...--> broken --CREATE_SESSION--> ready            (state is still there)
//                                         broken --STALE_CLIENTID: EXCHANGE_ID, CREATE_SESSION,
//                                                  reclaim, RECLAIM_COMPLETE--> ready   (the filer restarted)
//
// While broken, the slot table is closed and new requests wait. run() sends requests that were in flight
// again in the new session, and marks them as possibly executed before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "client/api/statistics.h"
#include "client/core/operation_counters.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/compound.h"
#include "client/nfs4/session/connections.h"
#include "client/nfs4/session/lease.h"
#include "client/nfs4/session/readiness.h"
#include "client/nfs4/session/recovery_pace.h"
#include "client/nfs4/session/server_identity.h"
#include "client/nfs4/session/slot_table.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/gate.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/suspension.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::client::nfs4 {

// Writes the operations of a request after its SEQUENCE. Called again for each attempt to send the request.
class BuildRef {
 public:
  template <class F>
  BuildRef(F& f)
      : object_(&f), call_([](void* o, CompoundBuilder& b) { (*static_cast<F*>(o))(b); }) {}  // NOLINT
  void operator()(CompoundBuilder& b) const { call_(object_, b); }

 private:
  void* object_;
  void (*call_)(void*, CompoundBuilder&);
};

inline constexpr uint32_t kNoBackChannel =
    nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;

struct Request {
  nfs4::nfs_opnum4 op;  // what the COMPOUND is for: name and statistics
  rpc::CredentialPtr credential;
  bool cache_this = false;  // not idempotent: the server is to keep the reply (sa_cachethis)
  BuildRef build;           // refers to a callable in the caller's frame
  Slice sink{};             // READ's destination, as given to expect_read()
  // A cancelled request is not sent any more (EINTR), except an OPEN that the server may have executed:
  // nobody would close the file.
  // In the caller's frame; null: never cancelled.
  const Cancellation* cancellation = nullptr;
};

// Runs COMPOUNDs during recovery of the session, over loop 0's connection and before all other requests.
// Several run at a time, each in its own slot; further ones wait for a slot. Loop 0.
class RecoveryChannel {
 public:
  virtual ~RecoveryChannel() = default;
  // kReconnect: the connection was lost, and recovery starts over. Everything else is the server's answer.
  virtual Task<Result<CompoundReply>> run(Request request) = 0;
};

// Restores the state of a mount (opens, locks, unstable writes) after the server lost or revoked it. Loop 0.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // Reclaims opens and locks after a restart (RFC 8881 section 8.4.2.1), before RECLAIM_COMPLETE and before
  // any other request. Marks what cannot be reclaimed: opens for reopening, locks as lost. An error
  // (kReconnect) makes recovery start over. State that was already reclaimed in the same epoch is not
  // reclaimed again.
  virtual Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) = 0;
  // Called instead of reclaim() if nothing can be reclaimed: marks everything.
  virtual void lose_all(const char* why) = 0;
  // Called after a restart when the new session is in use: reopens what is marked and sends unstable writes
  // again.
  virtual Task<> recovered() = 0;
  // SEQ4_STATUS_*_REVOKED: finds revoked stateids (TEST_STATEID), frees them (FREE_STATEID) and reopens the
  // files. May use Session::run(). `recallable`: only delegations can be revoked.
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
  // until its own coroutines have ended. Then the Session may be destroyed while the loops still run. False:
  // the server did not answer.
  Task<bool> stop(Duration patience);

  // Runs one COMPOUND until it is answered: waits for a slot, for the connection and for recovery, and
  // retries after DELAY and GRACE. Returns the server's reply, which may contain error statuses, or an Error:
  // kInterrupted at shutdown, kPermanent if the RPC was rejected or malformed.
  Task<Result<CompoundReply>> run(Request request);

  nfs4::clientid4 client_id() const { return client_id_.load(std::memory_order_acquire); }
  // True if, according to the last replies, our lease has not expired: the server keeps our state, and it
  // recalls a delegation before it grants what conflicts with it. False while the server reports revoked
  // state (SEQ4_STATUS_*_REVOKED). The clock includes time in which this machine is suspended.
  bool lease_holds() const { return lease_.holds(); }
  // How many bytes of buffers the RDMA devices in use can register (fabric/verbs/verbs.h).
  uint64_t registrable_bytes() const { return connections_.registrable_bytes(); }
  // Sends SEQUENCE until lease_holds(), or until the server has denied it too many times.
  Task<> confirm_lease();
  // Counts the client IDs established so far, and the restarts after which the client ID stayed valid. The
  // server has no state of an earlier epoch.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  uint32_t max_request_bytes() const { return max_request_.load(std::memory_order_relaxed); }
  uint32_t max_response_bytes() const { return max_response_.load(std::memory_order_relaxed); }
  uint32_t max_operations() const { return max_operations_.load(std::memory_order_relaxed); }
  std::chrono::seconds lease() const { return lease_.period(); }
  // Loop 0. The server's lease_time, once it is known.
  void set_lease(std::chrono::seconds lease);

  LoopPool& loops() { return loops_; }
  const rpc::CredentialPtr& machine_credential() const { return machine_; }
  // For the back channel: CB_RECALL_SLOT, referring calls.
  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  // RpcTransport::credits() of that loop's connection.
  uint32_t credits(unsigned loop) const { return connections_.credits(loop); }
  bool responding() const { return connections_.responding(); }
  // As far as we know, the back channel works.
  bool back_channel() const { return back_channel_.load(std::memory_order_relaxed); }
  // Since when the oldest call is unanswered; zero while the server responds.
  TimePoint stalled_since() const { return connections_.stalled_since(); }
  OperationCounters& counters() { return counters_; }
  std::vector<rpc::TransportStatus> transport_status() const { return connections_.status(); }
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
  struct CallSize {
    TimePoint queued = Clock::now();
    unsigned transmissions = 0;
    size_t sent = 0, received = 0;
    uint32_t place = 0;  // of the operation that the COMPOUND is for
  };
  static void trace(const char* op, const std::string& operations, const std::string& status, TimePoint sent);
  // Counts every COMPOUND that was answered, DELAY and GRACE included.
  void count(nfs4::nfs_opnum4 op, const CallSize& size, TimePoint sent, const Result<CompoundReply>& reply);

  // Handshake hook of transport `index`.
  Task<Result<>> on_connected(unsigned index);
  Task<Result<>> bind(unsigned index);
  // Establishes a usable session over loop 0's connection. recovery_mutex_ is held.
  Task<Result<>> recover();
  Task<Result<>> exchange_id();
  Task<Result<>> create_session();
  Task<Result<>> fetch_lease(RecoveryChannel& channel);
  Task<Result<>> reclaim(RecoveryChannel& channel);
  Task<Result<>> reclaim_complete(RecoveryChannel& channel);
  // The session of `generation` is unusable: close the slots, recover on loop 0.
  void invalidate(uint64_t generation, const char* why);
  Task<> recover_live();
  Task<> restore_state();
  // Whether a call is sent before others that wait (rpc::Call).
  enum class Precedence : uint8_t { kNone, kHandshake, kRenewal };
  void owe_state();
  // The server lost its state and kept the session of `generation`: as invalidate(), and the state is
  // reclaimed.
  void reclaim_soon(uint64_t generation);
  // Returns how long a recovery that begins now must wait.
  Duration next_recovery();
  void note_session_works();
  Task<> reclaim_live();
  // As invalidate(), for a session that still works: requests in flight finish first.
  Task<> replace_session(uint64_t generation);
  // Waits until the slots in use are released; the table is closed.
  Task<> outstanding_requests();
  // Runs one operation in its own COMPOUND without SEQUENCE, as part of a handshake. Retries after DELAY.
  Task<Result<CompoundReply>> run_alone(unsigned transport, nfs4::nfs_opnum4 op, BuildRef build);
  // `patient`: if the connection is lost, continues over the next one. Otherwise that is an error, and the
  // session must still be destroyed later: a server does not destroy a client ID that has a session.
  Task<Result<>> destroy_session(bool patient);
  Task<> destroy_all();
  Task<> pause(Duration d);  // ends early when stopping

  // The references are to the frame of the caller, which awaits.
  Task<Result<CompoundReply>> attempt(unsigned transport, const Request& request, const SlotTicket& ticket,
                                      Precedence precedence, CallSize& size);
  // Decides by the SEQUENCE result and the status what happens next. Releases the slot, except for kSameSlot.
  Verdict judge(const Request& request, const CompoundReply& reply, const SlotTicket& ticket);
  // True: a server without our state sent this reply (SEQ4_STATUS_RESTART_RECLAIM_NEEDED, and recovery has
  // begun).
  bool without_state(const CompoundReply& reply, const SlotTicket& ticket) const;
  void note_sequence(const nfs4::SEQUENCE4res& sequence, const SlotTicket& ticket);
  Task<> probe_slot(SlotTicket ticket, Precedence precedence);
  Task<> renew_lease();
  Task<> mend_back_channel(uint64_t generation);
  Task<> handle_status_flags(uint32_t flags, uint64_t generation);

  LoopPool& loops_;
  const ClientOptions& options_;
  const rpc::CredentialPtr machine_;
  StateKeeper* keeper_ = nullptr;
  CallbackService* callbacks_ = nullptr;
  Connections connections_;
  SlotTable slots_;
  OperationCounters counters_;

  // Loop 0 only.
  Gate gate_;  // the coroutines that nobody awaits
  AsyncMutex recovery_mutex_;
  nfs4::verifier4 boot_verifier_;
  std::string owner_id_;
  bool have_client_id_ = false;
  nfs4::sequenceid4 create_sequence_ = 0;
  nfs4::sessionid4 session_id_{};
  bool have_session_ = false;
  bool client_id_confirmed_ = false;  // a session was made with client_id_
  bool other_scope_ = false;          // the server of the new client ID has another server scope
  uint32_t granted_slots_ = 1;
  bool destroyed_ = false;     // the server answered DESTROY_CLIENTID
  bool reclaim_owed_ = false;  // reclaim and RECLAIM_COMPLETE are not done yet
  Timer renew_timer_;

  ServerIdentity identity_;
  Lease lease_;
  std::atomic<nfs4::clientid4> client_id_{0};
  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint32_t> max_request_{0}, max_response_{0}, max_operations_{0};
  std::atomic<int64_t> last_sequence_{0};  // steady clock ticks of the last SEQUENCE that was answered
  std::atomic<int64_t> confirm_again_{0};  // steady clock ticks: until then confirm_lease() tries once
  std::atomic<bool> flags_in_hand_{false};
  std::atomic<unsigned> same_flags_{0};         // how many times in a row SEQUENCE returned last_flags_
  uint32_t last_flags_ = 0;                     // of handle_status_flags()
  std::atomic<unsigned> reclaims_in_a_row_{0};  // since a SEQUENCE without RESTART_RECLAIM_NEEDED
  Mutex pace_mutex_;
  RecoveryPace pace_ NFSRDMA_GUARDED_BY(pace_mutex_);
  std::atomic<bool> recovered_lately_{false};      // note_session_works() is to be called
  std::atomic<bool> sessions_end_at_once_{false};  // and a warning was logged
  // Attempts to repair the back channel since a SEQUENCE last reported no fault of it.
  std::atomic<unsigned> back_channel_mendings_{0};
  std::atomic<int64_t> no_reclaim_before_{0};  // steady clock ticks; see reclaim_soon()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> back_channel_{false};
  std::atomic<uint64_t> sessions_created_{0}, recoveries_{0};
  Readiness readiness_;  // for the connections of the other loops
};

}  // namespace nfsrdma::client::nfs4
