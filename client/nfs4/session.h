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
// While broken the slot table is closed: requests wait, and those that were under way come back here and go
// out again in the new session, marked as possibly executed before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/nfs4/compound.h"
#include "client/nfs4/recovery_pace.h"
#include "client/nfs4/slot_table.h"
#include "client/operation_counters.h"
#include "client/options.h"
#include "client/statistics.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/gate.h"
#include "transport/runtime/suspension.h"
#include "transport/runtime/sync.h"
#include "transport/tcp/server_address.h"

namespace nfsrdma::fabric::verbs {
class Domains;
}

namespace nfsrdma::client {

// Writes the operations of a request after its SEQUENCE; called once for each time the request is sent anew.
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

class Cancellation;

inline constexpr uint32_t kNoBackChannel =
    nfs4::SEQ4_STATUS_CB_PATH_DOWN | nfs4::SEQ4_STATUS_CB_PATH_DOWN_SESSION;

struct Request {
  nfs4::nfs_opnum4 op;  // what the COMPOUND is for: name and statistics
  rpc::CredentialPtr credential;
  bool cache_this = false;  // not idempotent: the server is to keep the reply (sa_cachethis)
  BuildRef build;           // refers to a callable in the caller's frame
  Slice sink{};             // READ's destination, as given to expect_read()
  // Once cancelled it is not sent any more (EINTR), except an OPEN that may have been executed: nobody would
  // close the file.
  // In the caller's frame; null: never.
  const Cancellation* cancellation = nullptr;
};

// Runs COMPOUNDs while the session is being recovered: over loop 0's connection, before anybody else. Several
// at a time, each in a slot of its own; what has no slot waits for one. Loop 0.
class RecoveryChannel {
 public:
  virtual ~RecoveryChannel() = default;
  // kReconnect: the connection was lost, recovery starts over. Everything else is the server's answer.
  virtual Task<Result<CompoundReply>> run(Request request) = 0;
};

// What the state of a mount (opens, locks, unstable writes) does when the server lost or revoked it. Loop 0.
class StateKeeper {
 public:
  virtual ~StateKeeper() = default;
  // A new client ID after a restart: reclaim opens and locks (RFC 8881 section 8.4.2.1), before
  // RECLAIM_COMPLETE and before any other request. What cannot be reclaimed is marked: opens for reopening,
  // locks as lost. An error (kReconnect) makes recovery start over; what was reclaimed under the same epoch
  // is not reclaimed again.
  virtual Task<Result<>> reclaim(RecoveryChannel& channel, uint64_t epoch) = 0;
  // Instead of reclaim(): nothing is to be had back; everything is marked.
  virtual void lose_all(const char* why) = 0;
  // The new session is in use again after a restart: open anew what is marked, send unstable writes again.
  virtual Task<> recovered() = 0;
  // SEQ4_STATUS_*_REVOKED: find out what is gone (TEST_STATEID, FREE_STATEID) and open it anew. May use
  // Session::run. `recallable`: it can only be delegations.
  virtual Task<> state_revoked(bool recallable) = 0;
  // There is no back channel to be had: what the server could want back goes back by itself (section 10.2).
  virtual void cannot_be_recalled() = 0;
};

// Answers the back channel; loop of the connection the call came on.
class CallbackService {
 public:
  virtual ~CallbackService() = default;
  virtual Task<ByteVector> serve(ByteVector call) = 0;
  // A new session, with the attributes that CREATE_SESSION granted the back channel: forget its old slots.
  virtual void session_opened(const nfs4::sessionid4& session, const nfs4::channel_attrs4& back_channel) = 0;
};

class Session {
 public:
  Session(LoopPool& loops, BufferPool& buffers, const ClientOptions& options, rpc::CredentialPtr machine);
  ~Session();
  void attach(StateKeeper* keeper, CallbackService* callbacks);

  // Loop 0. Connects all loops; ready when it returns without error. One attempt, then stop() or ready for
  // good.
  Task<Result<>> start();
  // Loop 0. DESTROY_SESSION, DESTROY_CLIENTID within `patience`, then closes every transport and waits until
  // nothing of its own runs any more: the Session may be destroyed then, though the loops go on. False: not
  // answered.
  Task<bool> stop(Duration patience);

  // Runs one COMPOUND to its answer: waits for a slot, for the connection, for recovery, for DELAY and GRACE.
  // Returns the server's answer (errors inside are the caller's to read), or an Error: kInterrupted when shut
  // down, kPermanent when the RPC was rejected or malformed.
  Task<Result<CompoundReply>> run(Request request);

  nfs4::clientid4 client_id() const { return client_id_.load(std::memory_order_acquire); }
  // The server counts our lease as running, by its last answer: state that it has given us it keeps, and it
  // calls us before it lets anybody have what a delegation of ours excludes. Not while it says that some
  // state was revoked (SEQ4_STATUS_*_REVOKED).
  // Counted while this machine is suspended, too.
  bool lease_holds() const { return since_boot() < Duration(lease_until_.load(std::memory_order_acquire)); }
  // Of buffers, with the RDMA devices in use (fabric/verbs/verbs.h).
  uint64_t registrable_bytes() const;
  // Asks the server whether it does. Returns when it does, or the server keeps saying something else.
  Task<> confirm_lease();
  // Counts the client IDs established so far, and the restarts that one survived: state of an earlier epoch
  // is gone on the server.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  uint32_t max_request_bytes() const { return max_request_.load(std::memory_order_relaxed); }
  uint32_t max_response_bytes() const { return max_response_.load(std::memory_order_relaxed); }
  uint32_t max_operations() const { return max_operations_.load(std::memory_order_relaxed); }
  std::chrono::seconds lease() const { return std::chrono::seconds(lease_seconds_.load()); }
  // Loop 0. The server's lease_time, once it is known.
  void set_lease(std::chrono::seconds lease);

  LoopPool& loops() { return loops_; }
  const rpc::CredentialPtr& machine_credential() const { return machine_; }
  // For the back channel: CB_RECALL_SLOT, referring calls.
  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  // RpcTransport::credits() of that loop's connection.
  uint32_t credits(unsigned loop) const { return transports_[loop]->credits(); }
  bool responding() const;
  // The server can call us, as far as is known.
  bool back_channel() const { return back_channel_.load(std::memory_order_relaxed); }
  // Since when the oldest call has gone unanswered; zero while responding.
  TimePoint stalled_since() const;
  OperationCounters& counters() { return counters_; }
  std::vector<rpc::TransportStatus> transport_status() const;
  SessionStatistics statistics() const;

 private:
  class Channel;
  enum class Verdict : uint8_t {
    kAnswered,       // the caller's to read
    kAgain,          // at once, in another slot or session
    kUncached,       // as kAgain, without sa_cachethis
    kAgainExecuted,  // as kAgain; the server had executed the request and kept no reply
    kDelay,          // later (DELAY)
    kSameSlot,       // later, in the same slot, which is not released (DELAY of SEQUENCE)
    kGrace,          // when grace is over
  };
  struct CallSize {
    TimePoint queued = Clock::now();
    unsigned transmissions = 0;
    size_t sent = 0, received = 0;
    uint32_t place = 0;  // of the operation that the COMPOUND is for
  };
  // Every COMPOUND that was answered, DELAY and GRACE included.
  static void trace(const char* op, const std::string& operations, const std::string& status, TimePoint sent);
  void count(nfs4::nfs_opnum4 op, const CallSize& size, TimePoint sent, const Result<CompoundReply>& reply);

  rpc::RpcTransport& transport_here();
  // Handshake hook of transport `index`.
  Task<Result<>> on_connected(unsigned index);
  Task<Result<>> bind(unsigned index);
  // Makes a usable session over loop 0's connection; recovery_mutex_ held.
  Task<Result<>> recover();
  Task<Result<>> exchange_id();
  Task<Result<>> create_session();
  Task<Result<>> fetch_lease(RecoveryChannel& channel);
  Task<Result<>> reclaim(RecoveryChannel& channel);
  Task<Result<>> reclaim_complete(RecoveryChannel& channel);
  Task<> drop_pending(Error error);
  // The first connection is made, perhaps to another address than before: the others follow.
  Task<> send_others_after();
  // The session of `generation` is unusable: close the slots, recover on loop 0.
  void invalidate(uint64_t generation, const char* why);
  Task<> recover_live();
  Task<> restore_state();
  // The server lost its state and kept the session of `generation`: as invalidate(), and the state is
  // reclaimed.
  // Of a call before others that wait (rpc::Call).
  enum class Precedence : uint8_t { kNone, kHandshake, kRenewal };
  void owe_state();
  void believe_no_promise();  // until the state is had back
  void reclaim_soon(uint64_t generation);
  // How long a recovery that begins now has to wait.
  Duration next_recovery();
  void note_session_works();
  Task<> reclaim_live();
  // As invalidate(), for a session that still works: without interrupting anybody.
  Task<> replace_session(uint64_t generation);
  // The slots are closed: until those in use are released.
  Task<> outstanding_requests();
  // One operation in a COMPOUND of its own, without SEQUENCE, as part of a handshake; waits out DELAY.
  Task<Result<CompoundReply>> run_alone(unsigned transport, nfs4::nfs_opnum4 op, BuildRef build);
  // `patient`: also over the next connection, when this one is lost. Otherwise that is an error, and the
  // session still to be destroyed: a server that has one does not let go of the client ID.
  Task<Result<>> destroy_session(bool patient);
  Task<> destroy_all();
  std::unique_ptr<rpc::RpcTransport> make_transport(Loop& loop, BufferPool& buffers,
                                                    rpc::TransportHooks hooks);
  Task<> pause(Duration d);  // ends early when stopping

  // References: to the frame of the caller, which awaits.
  Task<Result<CompoundReply>> attempt(unsigned transport, const Request& request, const SlotTicket& ticket,
                                      Precedence precedence, CallSize& size);
  // What the SEQUENCE result says about the slot and the session; releases the slot of an ordinary request.
  Verdict judge(const Request& request, const CompoundReply& reply, const SlotTicket& ticket);
  // SEQ4_STATUS_RESTART_RECLAIM_NEEDED in this reply: from a server without the state it is about.
  bool without_state(const CompoundReply& reply, const SlotTicket& ticket) const;
  void note_sequence(const nfs4::SEQUENCE4res& sequence, const SlotTicket& ticket);
  // RFC 8881 section 8.3: the lease begins anew with a SEQUENCE, at the earliest when that was `sent`.
  void note_renewal(const nfs4::SEQUENCE4res& sequence, Duration sent);
  Task<> probe_slot(SlotTicket ticket, Precedence precedence);
  Task<> renew_lease();
  Task<> mend_back_channel(uint64_t generation);
  Task<> handle_status_flags(uint32_t flags, uint64_t generation);
  Task<bool> wait_ready();
  void set_ready(bool ready);

  LoopPool& loops_;
  const ClientOptions& options_;
  const rpc::CredentialPtr machine_;
  StateKeeper* keeper_ = nullptr;
  CallbackService* callbacks_ = nullptr;
  const std::shared_ptr<tcp::ServerAddress> server_address_ = std::make_shared<tcp::ServerAddress>();
  const std::shared_ptr<fabric::verbs::Domains> rdma_domains_;
  const std::shared_ptr<rdma::VersionMemory> rdma_memory_;
  std::string address_;  // as text; loop 0
  std::vector<std::unique_ptr<rpc::RpcTransport>> transports_;
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
  bool other_scope_ = false;          // the new client ID is of a server of another scope
  uint32_t granted_slots_ = 1;
  bool destroyed_ = false;  // the server answered DESTROY_CLIENTID
  bool reclaim_owed_ =
      false;  // a new client ID: RECLAIM_COMPLETE, and what comes before it, has not been done
  Timer renew_timer_;

  mutable std::mutex info_mutex_;  // guards server_* and the session ID's copy
  std::string server_owner_, server_scope_, server_implementation_;
  nfs4::sessionid4 session_copy_{};

  std::atomic<nfs4::clientid4> client_id_{0};
  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint32_t> max_request_{0}, max_response_{0}, max_operations_{0};
  std::atomic<uint32_t> lease_seconds_{90};
  std::atomic<int64_t> last_sequence_{0};  // steady clock ticks of the last SEQUENCE that was answered
  std::mutex lease_mutex_;                 // of these three
  std::atomic<int64_t> lease_until_{0};    // since_boot(); written with the lock held
  std::atomic<int64_t> last_renewal_{0};   // since_boot(): when the last SEQUENCE that succeeded was sent
  Duration lease_known_since_{};           // likewise; what was sent before says nothing of it
  bool state_owed_ = false;                // likewise: what the server had promised is still to be had back
  std::atomic<int64_t> confirm_again_{0};  // steady clock ticks: confirm_lease() was in vain, not before then
  std::atomic<bool> flags_in_hand_{false};
  std::atomic<unsigned> same_flags_{0};         // times in a row that SEQUENCE said last_flags_
  uint32_t last_flags_ = 0;                     // of handle_status_flags()
  std::atomic<unsigned> reclaims_in_a_row_{0};  // since a SEQUENCE without RESTART_RECLAIM_NEEDED
  std::mutex pace_mutex_;
  RecoveryPace pace_;                              // with pace_mutex_
  std::atomic<bool> recovered_lately_{false};      // pace_ waits to hear how the session does
  std::atomic<bool> sessions_end_at_once_{false};  // that has been logged
  // Times the back channel was mended since a SEQUENCE has last said nothing against it.
  std::atomic<unsigned> back_channel_mendings_{0};
  std::atomic<int64_t> no_reclaim_before_{0};  // steady clock ticks; see reclaim_soon()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> back_channel_{false};
  std::atomic<uint64_t> sessions_created_{0}, recoveries_{0};

  // Waiters for "ready" (connections of the other loops).
  std::mutex ready_mutex_;
  WaitQueue ready_waiters_;
  bool ready_ = false;
};

}  // namespace nfsrdma::client
