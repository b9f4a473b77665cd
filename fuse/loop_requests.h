// SPDX-License-Identifier: Apache-2.0
// LoopRequests: the FUSE requests of one loop that have no reply yet, and the rules for replying early.
//
// Most requests are answered before the callback that read them returns and never enter the list. One whose
// coroutine suspended is listed, and only then is libfuse's interrupt callback set. That callback may run on
// any thread that reads the device, with the request's lock of libfuse held, so it does nothing but post the
// record and its number to this loop. It is removed before every reply: fuse_req_interrupt_func waits for a
// callback that is running, so none ever sees a freed record.
//
// An early answer ends the application's wait; the coroutine goes on (the server's slot must see its reply)
// and finds its request answered. The reasons:
//  - a thread that waits in a request is killed: EINTR at once, whatever the request;
//  - somebody wants its program to stop (SIGINT, SIGTERM...) while the filer does not respond: EINTR. Not
//  while it
//    responds: programs do not expect EINTR from a regular file; and not for timers and the like: git runs on
//    SIGALRM;
//  - a blocking lock wait meets any signal: it is cancelled, and answers by itself;
//  - a soft mount timed out;
//  - the mount ends.
// The kernel sends one INTERRUPT per request, for the first signal; later ones are found by looking again
// while such a request waits. Nobody may be waiting in a READ or WRITE (read-ahead, asynchronous O_DIRECT),
// so that none comes: when it is old, its caller is looked at by a CallerInspector. The timer runs only while
// requests wait.
//
// Owner: Adaptor, one per loop. Loop thread only, except on_interrupt().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <asio/steady_timer.hpp>

#include "client/filesystem.h"
#include "fuse/caller_inspector.h"
#include "fuse/caller_table.h"
#include "fuse/credentials.h"
#include "fuse/errno_map.h"
#include "fuse/operation_tracer.h"
#include "fuse/piped_reply.h"
#include "fuse/statistics.h"
#include "fuse/thread_status.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"

struct fuse_req;
using fuse_req_t = fuse_req*;

namespace nfsrdma::fuse {

class LoopRequests;

// One request from its arrival until its coroutine ends. Recycled, never freed while the loop runs.
struct RequestRecord {
  LoopRequests* owner = nullptr;
  fuse_req_t request = nullptr;  // null once answered
  uint64_t number = 0;           // unique per loop
  Operation operation{};
  Caller caller;
  TimePoint started;
  // Of a lock request, a change, or a write; else none, or what the record's last request has left.
  std::shared_ptr<client::Cancellation> cancellation;
  bool waits_for_a_lock = false;
  bool listed = false;
  bool interrupted = false;
  std::unique_ptr<TracedOperation> traced;  // while somebody watches
  RequestRecord* next = nullptr;            // listed, or free
  RequestRecord* prev = nullptr;
};

class LoopRequests : public std::enable_shared_from_this<LoopRequests> {
 public:
  static constexpr std::chrono::milliseconds kInterruptedPeriod{100};
  static constexpr std::chrono::milliseconds kSoftPeriod{500};
  static constexpr std::chrono::milliseconds kOld{1000};

  // `soft_limit` zero: a hard mount.
  LoopRequests(Loop& loop, client::Filesystem& filesystem, ErrnoMap& errors, CallerInspector& inspector,
               OperationTracer& tracer, std::chrono::milliseconds soft_limit);
  ~LoopRequests();

  Loop& loop() { return loop_; }
  OperationCounters& counters() { return counters_; }
  const OperationCounters& counters() const { return counters_; }
  const CallerTable& callers() const { return callers_; }
  ErrnoMap& errors() { return errors_; }
  PipedReply& piped_reply() { return piped_reply_; }

  // For FuseRequest.
  RequestRecord* begin(fuse_req_t request, Operation operation);
  // The libfuse request, for the one reply; null when it was answered before. Counts the operation.
  fuse_req_t take(RequestRecord& record, int errnum);
  void end(RequestRecord* record);
  // What a READ brought its caller, and what he wrote; before the answer.
  void has_read(const RequestRecord& record, size_t bytes) {
    counters_.read_bytes.add(bytes);
    callers_.has_read(record.caller.tid, record.started, bytes);
  }
  void has_written(const RequestRecord& record, size_t bytes) {
    counters_.write_bytes.add(bytes);
    callers_.has_written(record.caller.tid, record.started, bytes);
  }
  // Of the record made last, while somebody watches: what it is about. take() adds the rest and shows it.
  void trace(std::unique_ptr<TracedOperation> about);

  // Runs the coroutine that took the record made last.
  void launch(Task<> task);

  // The mount ends: every waiting request is answered.
  void answer_all(int errnum);

 private:
  // A listed request as somebody remembers it who comes back later: by then it may have been answered, and
  // its record be another's. Thousands may wait, so they are never searched.
  struct Waiting {
    RequestRecord* record;
    uint64_t number;
    bool still() const { return record->listed && record->number == number; }
  };

  static void on_interrupt(fuse_req_t request, void* record);
  void interrupted_ol(Waiting waiting);
  // Answer `r` if its caller's signals ask for it; `r` may be gone afterwards. The first two look at the
  // caller, who waits in that request and so keeps his memory (caller_inspector.h): he met an INTERRUPT, or
  // closes a file, perhaps on his way out, when no INTERRUPT comes.
  void judge(RequestRecord& r);
  void judge_flush(RequestRecord& r);
  void judge(RequestRecord& r, SignalIntent intent);
  // The same of old ones that met no INTERRUPT, perhaps because nobody waits in them. One inquiry at a
  // time.
  void judge_unattended(std::vector<Waiting> requests);
  void inspected_ol(const std::vector<Waiting>& requests, const CallerInspector::Intents& intents);
  static bool may_be_unattended(const RequestRecord& record);
  static SignalIntent intent_of(const RequestRecord& record, const ThreadStatus& status);
  void answer_early(RequestRecord& r, int errnum);
  void list(RequestRecord& r);
  void unlist(RequestRecord& r);
  void traced(RequestRecord& r, int errnum, Duration took);
  void arm(std::chrono::milliseconds period);
  void tick();
  void give_up_old_ones();
  // Calls f for each listed record that is still listed when its turn comes.
  template <class F>
  void for_each_listed(F f);

  Loop& loop_;
  client::Filesystem& filesystem_;
  ErrnoMap& errors_;
  CallerInspector& inspector_;
  OperationTracer& tracer_;
  const std::chrono::milliseconds soft_limit_;
  OperationCounters counters_;
  CallerTable callers_;
  PipedReply piped_reply_;
  uint64_t next_number_ = 1;
  RequestRecord* running_ = nullptr;  // begun, its coroutine not yet suspended
  RequestRecord* head_ = nullptr;
  RequestRecord* free_ = nullptr;
  std::vector<std::unique_ptr<RequestRecord>> records_;
  asio::steady_timer timer_;
  TimePoint armed_until_ = TimePoint::max();  // max: not armed
  bool inspecting_ = false;
};

}  // namespace nfsrdma::fuse
