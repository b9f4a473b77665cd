// SPDX-License-Identifier: Apache-2.0
#include "fuse/loop_requests.h"
#include "transport/runtime/check.h"

#include <fuse_lowlevel.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <utility>

namespace nfsrdma::fuse {

LoopRequests::LoopRequests(Loop& loop, client::Filesystem& filesystem, ErrnoMap& errors,
                           CallerInspector& inspector, OperationTracer& tracer,
                           std::chrono::milliseconds soft_limit)
    : loop_(loop),
      filesystem_(filesystem),
      errors_(errors),
      inspector_(inspector),
      tracer_(tracer),
      soft_limit_(soft_limit),
      timer_(loop.context()) {}

LoopRequests::~LoopRequests() = default;

RequestRecord* LoopRequests::begin(fuse_req_t request, Operation operation) {
  RequestRecord* r = free_;
  if (r != nullptr) {
    free_ = r->next;
  } else {
    records_.push_back(std::make_unique<RequestRecord>());
    r = records_.back().get();
    r->owner = this;
  }
  const fuse_ctx* ctx = fuse_req_ctx(request);
  r->request = request;
  r->number = next_number_++;
  r->operation = operation;
  r->caller = {ctx->uid, ctx->gid, ctx->pid};
  r->started = Clock::now();
  r->listed = false;
  r->interrupted = false;
  r->next = nullptr;
  running_ = r;
  counters_.in_flight.add();
  return r;
}

fuse_req_t LoopRequests::take(RequestRecord& r, int errnum) {
  fuse_req_t request = std::exchange(r.request, nullptr);
  if (request == nullptr) return nullptr;
  if (r.listed) {
    fuse_req_interrupt_func(request, nullptr, nullptr);
    unlist(r);
  }
  const TimePoint now = Clock::now();
  const Duration took = now - r.started;
  counters_.answered(r.operation, errnum, took);
  callers_.answered(r.caller.tid, now, took);
  if (r.traced) traced(r, errnum, took);
  return request;
}

void LoopRequests::trace(std::unique_ptr<TracedOperation> about) {
  running_->traced = std::move(about);
}

void LoopRequests::traced(RequestRecord& r, int errnum, Duration took) {
  const auto done = std::exchange(r.traced, nullptr);
  done->operation = r.operation;
  if (errnum != 0) done->errnum = errnum;
  done->thread = static_cast<uint32_t>(r.caller.tid);
  done->uid = r.caller.uid;
  done->at = std::chrono::system_clock::now();
  done->took = took;
  tracer_.answered(*done);
}

void LoopRequests::end(RequestRecord* r) {
  NFSRDMA_CHECK(r->request == nullptr && !r->listed);
  if (running_ == r) running_ = nullptr;
  // If nobody else holds the cancellation and it was not cancelled, keep it for the record's next request:
  // each write needs one.
  const bool unused = r->cancellation.use_count() == 1 && !r->cancellation->cancelled();
  if (!unused || r->waits_for_a_lock) r->cancellation.reset();
  r->waits_for_a_lock = false;
  r->next = std::exchange(free_, r);
  counters_.in_flight.sub();
}

void LoopRequests::launch(Task<> task) {
  RequestRecord* r = running_;
  loop_.spawn(std::move(task));
  // The request still runs, so its coroutine suspended.
  if (r != nullptr && running_ == r) {
    running_ = nullptr;
    if (r->request != nullptr) list(*r);
  }
}

void LoopRequests::list(RequestRecord& r) {
  r.listed = true;
  r.prev = nullptr;
  r.next = head_;
  if (head_ != nullptr) head_->prev = &r;
  head_ = &r;
  arm(soft_limit_.count() != 0 ? kSoftPeriod : kOld);
  // Calls on_interrupt at once if the INTERRUPT came already.
  fuse_req_interrupt_func(r.request, on_interrupt, &r);
}

void LoopRequests::unlist(RequestRecord& r) {
  (r.prev != nullptr ? r.prev->next : head_) = r.next;
  if (r.next != nullptr) r.next->prev = r.prev;
  r.listed = false;
}

void LoopRequests::on_interrupt(fuse_req_t, void* record) {
  auto* r = static_cast<RequestRecord*>(record);
  r->owner->loop_.post([self = r->owner->shared_from_this(), waiting = Waiting{r, r->number}] {
    self->interrupted_ol(waiting);
  });
}

void LoopRequests::interrupted_ol(Waiting waiting) {
  if (!waiting.still()) return;
  waiting.record->interrupted = true;
  counters_.interrupts.add();
  judge(*waiting.record);
  if (waiting.still()) arm(kInterruptedPeriod);
}

void LoopRequests::judge(RequestRecord& record) {
  const Waiting waiting{&record, record.number};
  const auto cancellation = record.cancellation;
  if (cancellation && record.waits_for_a_lock && !cancellation->cancelled()) {
    cancellation->cancel();
    // cancel() may have resumed the coroutine, which may have answered and ended.
    if (!waiting.still()) return;
  }
  const auto status = read_thread_status(record.caller.tid);
  // If the caller's status cannot be read, treat it as a wish to stop: EINTR while the server is silent is
  // better than a process that nobody can kill.
  judge(record, status ? intent_of(record, *status) : SignalIntent::kStop);
}

// A stop signal that is still pending while its thread exits has killed the process.
SignalIntent LoopRequests::intent_of(const RequestRecord& record, const ThreadStatus& status) {
  const SignalIntent intent = signal_intent(status);
  if (!is_exiting(record.caller.tid)) return intent;
  if (intent == SignalIntent::kStop) return SignalIntent::kFatal;
  // The thread exits for another reason. A FLUSH need not hold it up while the server does not respond; its
  // data is still written.
  return record.operation == Operation::kFlush ? std::max(intent, SignalIntent::kStop) : intent;
}

void LoopRequests::judge_flush(RequestRecord& record) {
  const auto status = read_thread_status(record.caller.tid);
  if (status && is_exiting(record.caller.tid)) judge(record, intent_of(record, *status));
}

void LoopRequests::judge_unattended(std::vector<Waiting> requests) {
  if (requests.empty() || inspecting_) return;
  inspecting_ = true;
  std::vector<pid_t> callers;
  for (const Waiting& waiting : requests) callers.push_back(waiting.record->caller.tid);
  inspector_.ask(std::move(callers), [self = shared_from_this(), requests = std::move(requests)](
                                         const CallerInspector::Intents& intents) {
    self->loop_.post([self, requests, intents] { self->inspected_ol(requests, intents); });
  });
}

void LoopRequests::inspected_ol(const std::vector<Waiting>& requests,
                                const CallerInspector::Intents& intents) {
  inspecting_ = false;
  for (const Waiting& waiting : requests) {
    if (waiting.still()) judge(*waiting.record, intents.at(waiting.record->caller.tid));
  }
}

// Pages that the kernel writes back have no caller. They must never be answered early.
bool LoopRequests::may_be_unattended(const RequestRecord& record) {
  return record.caller.tid > 0 &&
         (record.operation == Operation::kRead || record.operation == Operation::kWrite);
}

void LoopRequests::judge(RequestRecord& record, SignalIntent intent) {
  if (intent == SignalIntent::kFatal || (intent == SignalIntent::kStop && !filesystem_.responding())) {
    answer_early(record, EINTR);
  }
}

void LoopRequests::answer_early(RequestRecord& r, int errnum) {
  fuse_req_t request = take(r, errnum);
  if (request == nullptr) return;
  counters_.early_answers.add();
  // Cancel before the reply, so that the operation is cancelled before the application can send another
  // request. A coroutine that cancel() resumes finds the request answered.
  if (const auto cancellation = r.cancellation) cancellation->cancel();
  fuse_reply_err(request, errnum);
}

void LoopRequests::answer_all(int errnum) {
  while (head_ != nullptr) answer_early(*head_, errnum);
  timer_.cancel();
}

void LoopRequests::arm(std::chrono::milliseconds period) {
  const TimePoint when = Clock::now() + period;
  if (armed_until_ <= when) return;
  armed_until_ = when;
  timer_.expires_at(when);  // cancels an earlier wait with operation_aborted
  timer_.async_wait([self = shared_from_this()](const asio::error_code& ec) {
    if (!ec) self->tick();
  });
}

template <class F>
void LoopRequests::for_each_listed(F f) {
  std::vector<Waiting> all;
  for (RequestRecord* r = head_; r != nullptr; r = r->next) all.push_back({r, r->number});
  for (const Waiting& waiting : all) {
    if (waiting.still()) f(*waiting.record);
  }
}

void LoopRequests::give_up_old_ones() {
  if (soft_limit_.count() == 0 || !filesystem_.soft_timed_out()) return;
  const TimePoint oldest = Clock::now() - soft_limit_;
  for (RequestRecord* r = head_; r != nullptr;) {
    RequestRecord* next = r->next;
    if (r->started <= oldest) answer_early(*r, filesystem_.soft_errno());
    r = next;
  }
}

void LoopRequests::tick() {
  armed_until_ = TimePoint::max();
  give_up_old_ones();
  const TimePoint old = Clock::now() - kOld;
  bool interrupted = false;
  std::vector<Waiting> unattended;
  for_each_listed([&](RequestRecord& r) {
    if (r.interrupted) {
      interrupted = true;
      judge(r);
    } else if (r.started > old) {
      return;
    } else if (r.operation == Operation::kFlush) {
      judge_flush(r);
    } else if (may_be_unattended(r)) {
      unattended.push_back({&r, r.number});
    }
  });
  judge_unattended(std::move(unattended));
  if (head_ == nullptr) return;
  arm(interrupted ? kInterruptedPeriod : soft_limit_.count() != 0 ? kSoftPeriod : kOld);
}

}  // namespace nfsrdma::fuse
