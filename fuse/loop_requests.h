// SPDX-License-Identifier: Apache-2.0
// LoopRequests: the FUSE requests of one loop that have no reply yet, and the rules for early answers.
//
// Most requests are answered before the callback that read them returns; these never enter the list. A
// request whose coroutine suspended is listed, and only then is libfuse's interrupt callback set. That
// callback may run on any thread that reads the device, with libfuse's lock of the request held, so it only
// posts the record and its number to this loop. It is removed before every reply: fuse_req_interrupt_func
// waits for a running callback, so none ever sees a freed record.
//
// An early answer ends the application's wait. The coroutine goes on (the server's slot must see its reply)
// and finds its request answered. The reasons for an early answer:
//  - A thread that waits in a request is killed: EINTR at once, for every request.
//  - A signal asks the program to stop (SIGINT, SIGTERM...) while the server does not respond: EINTR. Not
//    while it responds, because programs do not expect EINTR from a regular file. Not for SIGALRM and the
//    like, because git runs on SIGALRM.
//  - A blocking lock wait meets any signal: it is cancelled, and its coroutine answers.
//  - The timeout of a soft mount expired.
//  - The mount ends.
// The kernel sends one INTERRUPT per request, for the first signal. Later signals are found by reading the
// caller's status again while the request waits. A READ or WRITE may have no waiting thread (read-ahead,
// asynchronous O_DIRECT), so no INTERRUPT comes: when it is old, a CallerInspector reads its caller's
// signals. The timer runs only while requests wait.
//
// Owner: Adaptor, one per loop. Loop thread only, except on_interrupt().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <asio/steady_timer.hpp>

#include "client/api/filesystem.h"
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

// One request from its arrival until its coroutine ends. Reused, never freed while the loop runs.
struct RequestRecord {
  LoopRequests* owner = nullptr;
  fuse_req_t request = nullptr;  // null once answered
  uint64_t number = 0;           // unique per loop
  Operation operation{};
  Caller caller;
  TimePoint started;
  // Set for lock requests, changes and writes. For others it is null or a leftover of the record's last
  // request.
  std::shared_ptr<client::Cancellation> cancellation;
  bool waits_for_a_lock = false;
  bool listed = false;
  bool interrupted = false;
  std::unique_ptr<TracedOperation> traced;  // while somebody traces
  RequestRecord* next = nullptr;            // in the list of listed or of free records
  RequestRecord* prev = nullptr;
};

class LoopRequests : public std::enable_shared_from_this<LoopRequests> {
 public:
  static constexpr std::chrono::milliseconds kInterruptedPeriod{100};
  static constexpr std::chrono::milliseconds kSoftPeriod{500};
  static constexpr std::chrono::milliseconds kOld{1000};

  // `soft_limit`: zero for a hard mount.
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
  // Returns the libfuse request for the one reply, or null when it was answered before. Counts the operation.
  fuse_req_t take(RequestRecord& record, int errnum);
  void end(RequestRecord* record);
  // Count the bytes of a READ or WRITE. Call them before the reply.
  void has_read(const RequestRecord& record, size_t bytes) {
    counters_.read_bytes.add(bytes);
    callers_.has_read(record.caller.tid, record.started, bytes);
  }
  void has_written(const RequestRecord& record, size_t bytes) {
    counters_.write_bytes.add(bytes);
    callers_.has_written(record.caller.tid, record.started, bytes);
  }
  // Sets what the request that began last is about, while somebody traces. take() adds the result and shows
  // it.
  void trace(std::unique_ptr<TracedOperation> about);

  // Runs the coroutine of the request that began last.
  void launch(Task<> task);

  // The mount ends: answers every waiting request.
  void answer_all(int errnum);

 private:
  // A reference to a listed request for use later, when the request may be answered and its record reused.
  // Checking the number avoids a search: thousands of requests may wait.
  struct Waiting {
    RequestRecord* record;
    uint64_t number;
    bool still() const { return record->listed && record->number == number; }
  };

  static void on_interrupt(fuse_req_t request, void* record);
  void interrupted_ol(Waiting waiting);
  // Answer `r` if its caller's signals ask for it; `r` may be gone afterwards. The first two read the
  // caller's status on this thread: the caller waits in the request and so keeps its memory
  // (caller_inspector.h). judge() is for a request that met an INTERRUPT. judge_flush() is for a FLUSH, which
  // an exiting process may have sent; then no INTERRUPT comes.
  void judge(RequestRecord& r);
  void judge_flush(RequestRecord& r);
  void judge(RequestRecord& r, SignalIntent intent);
  // The same for old requests that met no INTERRUPT and may have no waiting thread. At most one question to
  // the inspector at a time.
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
  // Calls f for each listed record; skips those that an earlier call of f answered.
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
  RequestRecord* running_ = nullptr;  // the latest request, until its coroutine suspends
  RequestRecord* head_ = nullptr;
  RequestRecord* free_ = nullptr;
  std::vector<std::unique_ptr<RequestRecord>> records_;
  asio::steady_timer timer_;
  TimePoint armed_until_ = TimePoint::max();  // max: no timer runs
  bool inspecting_ = false;
};

}  // namespace nfsrdma::fuse
