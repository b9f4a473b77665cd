// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "client/api/filesystem.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace std::chrono_literals;

Error shut_down_error(const char* op) {
  return {.layer = Layer::kSession,
          .recovery = Recovery::kInterrupted,
          .errnum = EIO,
          .op = op,
          .cause = "the mount is being taken down"};
}

bool given_up(const Request& request, bool executed_before) {
  return request.cancellation != nullptr && request.cancellation->cancelled() &&
         !(request.op == nfs4::OP_OPEN && executed_before);
}

// True if a request that failed takes another slot: its session is lost, or no KDC answered when a context
// had to be made. Session::secure() waits for the KDC without a slot.
bool begins_again(const Error& error, bool sent) {
  const bool unsecured = error.layer == Layer::kSecurity && error.recovery == Recovery::kRetry && !sent;
  return error.recovery == Recovery::kNewSession || unsecured;
}

}  // namespace

Session::Session(LoopPool& loops, BufferPool& buffers, const ClientOptions& options,
                 rpc::CredentialPtr machine)
    : loops_(loops),
      options_(options),
      machine_(std::move(machine)),
      connections_(
          loops, buffers, options, [this](unsigned index) { return on_connected(index); },
          [this](ByteVector call) { return callbacks_->serve(std::move(call)); }),
      sender_(connections_, CallSecurities::make(connections_, options, loops.size()), lease_, machine_,
              stopping_),
      throttle_(options.host),
      readiness_(stopping_),
      gate_(loops[0]),
      registration_(sender_, identity_, lease_, options),
      renew_timer_(loops[0]) {}

Session::~Session() = default;

void Session::attach(StateKeeper* keeper, CallbackService* callbacks) {
  keeper_ = keeper;
  callbacks_ = callbacks;
}

Task<Result<CompoundReply>> Session::run(const Request& original) {
  const char* name = nfs4::op_name(original.op);
  const Request* request = &original;
  std::optional<Request> uncached;  // the request, after the server could not keep its reply
  const unsigned here = Loop::current()->index();
  bool executed_before = false;
  bool repeated = false;             // the slot's request was sent before
  std::optional<SlotTicket> ticket;  // kept from the previous iteration: kSameSlot
  // Linux retries after 0.1 s to 15 s; RFC 8881 section 15.1.1.3 leaves the pause to the client. The first
  // pause is short because a conflicting delegation is usually returned within one or two round trips.
  Backoff delay(10ms, 15s);
  Backoff grace(250ms, 5s);
  // An error of SEQUENCE says nothing about earlier transmissions. And DELAY may come from an operation after
  // the one that changes something (section 15.1.1.3).
  const auto may_be_executed = [&](const CompoundReply& reply, uint32_t place) {
    const bool sequenced = reply.sequence() && reply.sequence()->status == nfs4::NFS4_OK;
    return (repeated && !sequenced) || (request->cache_this && reply.results() > place);
  };
  for (;;) {
    CallSize size;
    if (!ticket) {
      auto taking = take_slot(here, *request, executed_before, size);
      Result<SlotTicket> taken = co_await std::move(taking);
      if (!taken) co_return fail(std::move(taken.error()));
      ticket = *taken;
      repeated = false;
    }
    Result<CompoundReply> reply = co_await sender_.attempt(here, *request, *ticket, Precedence::kNone, size);
    repeated = repeated || size.transmissions > 1;
    if (!reply) {
      const bool sent = repeated || size.transmissions > 0;
      slots_.release(*ticket, sent ? SlotUse::kUncertain : SlotUse::kNotExecuted);
      if (!begins_again(reply.error(), sent)) co_return fail(std::move(reply.error()));
      executed_before = executed_before || sent;
      ticket.reset();
      continue;
    }
    const Verdict verdict = judge(*request, *reply, *ticket);
    if (verdict == Verdict::kSameSlot) {
      repeated = true;
      co_await stopping_.pause(delay.next());
      if (!stopping_.raised()) continue;
      slots_.release(*ticket, SlotUse::kUncertain);
      co_return fail(shut_down_error(name));
    }
    ticket.reset();
    switch (verdict) {
      case Verdict::kAnswered: reply->maybe_executed_before = executed_before; co_return reply;
      case Verdict::kSameSlot: break;
      case Verdict::kAgain: executed_before = executed_before || may_be_executed(*reply, size.place); break;
      case Verdict::kAgainExecuted:
        // Pause from the second time on: the immediate retry did not help.
        if (executed_before) co_await stopping_.pause(delay.next());
        executed_before = true;
        break;
      case Verdict::kUncached:
        executed_before = executed_before || reply->results() > size.place;
        uncached = *request;
        uncached->cache_this = false;
        request = &*uncached;
        break;
      case Verdict::kDelay:
      case Verdict::kGrace:
        executed_before = executed_before || may_be_executed(*reply, size.place);
        co_await stopping_.pause(verdict == Verdict::kDelay ? delay.next() : grace.next());
        break;
    }
  }
}

ValueTask<Result<SlotTicket>> Session::take_slot(unsigned transport, const Request& request,
                                                 bool executed_before, CallSize& size) {
  if (sender_.secured()) [[unlikely]]
    return take_slot_securely(transport, request, executed_before, size);
  const std::optional<SlotTicket> ticket = slots_.try_acquire();
  if (!ticket || ticket->uncertain || given_up(request, executed_before))
    return wait_for_slot(request, executed_before, size, ticket);
  return Result<SlotTicket>(*ticket);
}

Task<Result<SlotTicket>> Session::wait_for_slot(const Request& request, bool executed_before, CallSize& size,
                                                std::optional<SlotTicket> ticket) {
  const char* name = nfs4::op_name(request.op);
  auto place = SlotTable::Place::kBehind;
  for (;;) {
    if (!ticket) ticket = co_await slots_.acquire(place);
    if (!ticket) co_return fail(shut_down_error(name));
    if (given_up(request, executed_before)) {
      slots_.release(*ticket, ticket->uncertain ? SlotUse::kUncertain : SlotUse::kNotExecuted);
      co_return fail(system_error(EINTR, name, "nobody waits for it any more"));
    }
    if (!ticket->uncertain) co_return *ticket;
    co_await probe_slot(*ticket, Precedence::kNone);
    size = CallSize{};
    place = SlotTable::Place::kAhead;
    ticket = slots_.try_acquire();
  }
}

Task<Result<SlotTicket>> Session::take_slot_securely(unsigned transport, const Request& request,
                                                     bool executed_before, CallSize& size) {
  auto securing = secure(transport, request, executed_before);
  if (Result<> secured = co_await std::move(securing); !secured) co_return fail(std::move(secured.error()));
  auto waiting = wait_for_slot(request, executed_before, size, slots_.try_acquire());
  co_return co_await std::move(waiting);
}

// Waits while no KDC answers, as for a server that does not answer. Other failures (no ticket, an expired
// one) are the request's.
Task<Result<>> Session::secure(unsigned transport, const Request& request, bool executed_before) {
  for (Backoff delay(100ms, 15s);;) {
    auto securing = sender_.secure(transport, request.credential);
    Result<> secured = co_await std::move(securing);
    if (secured) co_return secured;
    const Recovery recovery = secured.error().recovery;
    if (recovery != Recovery::kRetry && recovery != Recovery::kReconnect) co_return secured;
    if (given_up(request, executed_before))
      co_return fail(system_error(EINTR, nfs4::op_name(request.op), "nobody waits for it any more"));
    co_await stopping_.pause(delay.next());
    if (stopping_.raised()) co_return fail(shut_down_error(nfs4::op_name(request.op)));
  }
}

Session::Verdict Session::judge(const Request& request, const CompoundReply& reply,
                                const SlotTicket& ticket) {
  using namespace nfs4;  // NOLINT: the statuses
  if (!reply.sequence()) {
    slots_.release(ticket, SlotUse::kUncertain);
    return reply.status() == NFS4ERR_DELAY ? Verdict::kDelay : Verdict::kAnswered;
  }
  const SEQUENCE4res& sequence = *reply.sequence();
  if (sequence.status != NFS4_OK) return judge_sequence(request, sequence.status, ticket);
  if (sequence.resok4.sr_sessionid != ticket.session || sequence.resok4.sr_slotid != ticket.slot ||
      sequence.resok4.sr_sequenceid != ticket.sequence) {
    slots_.release(ticket, SlotUse::kUncertain);
    invalidate(ticket.generation, "the server answered in another slot");
    return Verdict::kAgain;
  }
  note_sequence(sequence, ticket);
  slots_.release(ticket, SlotUse::kExecuted);
  // The server lost its state and our unstable data. Retry if the request is idempotent or failed for lost
  // state.
  if (without_state(reply, ticket) &&
      (!request.cache_this || recovery_of(reply.status()) == Recovery::kRecoverState))
    return Verdict::kAgain;
  switch (reply.status()) {
    case NFS4ERR_DELAY: return Verdict::kDelay;
    case NFS4ERR_GRACE: return Verdict::kGrace;
    // Section 2.10.6.1.3: a retry whose reply was not kept fails in the operation after SEQUENCE.
    case NFS4ERR_RETRY_UNCACHED_REP: return Verdict::kAgainExecuted;
    // The reply is larger than the granted ca_maxresponsesize_cached.
    case NFS4ERR_REP_TOO_BIG_TO_CACHE: return request.cache_this ? Verdict::kUncached : Verdict::kAnswered;
    default: return Verdict::kAnswered;
  }
}

Session::Verdict Session::judge_sequence(const Request& request, nfs4::nfsstat4 status,
                                         const SlotTicket& ticket) {
  using namespace nfs4;  // NOLINT: the statuses
  switch (status) {
    // RFC 8881 section 18.46.3: "If SEQUENCE returns an error, then the state of the slot (sequence ID,
    // cached reply) MUST NOT change, and the associated lease MUST NOT be renewed." The server may still be
    // executing this request (section 2.10.6.2), so the request keeps its slot until it is answered.
    case NFS4ERR_DELAY: return Verdict::kSameSlot;
    case NFS4ERR_REP_TOO_BIG_TO_CACHE:
      slots_.release(ticket, SlotUse::kNotExecuted);
      return request.cache_this ? Verdict::kUncached : Verdict::kAnswered;
    case NFS4ERR_RETRY_UNCACHED_REP:
      slots_.release(ticket, SlotUse::kExecuted);
      return Verdict::kAgainExecuted;
    case NFS4ERR_CONN_NOT_BOUND_TO_SESSION:
      slots_.release(ticket, SlotUse::kUncertain);  // an earlier transmission may have been executed
      connections_.here().reconnect("the connection is not bound to the session");
      return Verdict::kAgain;
    case NFS4ERR_BAD_HIGH_SLOT:
      if (slots_.beyond_target(ticket)) {
        slots_.release(ticket, SlotUse::kUncertain);
        return Verdict::kDelay;  // until the slot above the target is free
      }
      [[fallthrough]];
    case NFS4ERR_BADSESSION:
    case NFS4ERR_DEADSESSION:
    case NFS4ERR_SEQ_MISORDERED:
    case NFS4ERR_SEQ_FALSE_RETRY:
    case NFS4ERR_BADSLOT:
      slots_.release(ticket, SlotUse::kUncertain);
      invalidate(ticket.generation, name_of(status).c_str());
      return Verdict::kAgain;
    // The lease has expired (nfs-ganesha says so until its own check runs, within 10 s), or the client ID is
    // gone. Making a new session renews the lease, or replaces the client ID. The request's stateids are not
    // the cause.
    case NFS4ERR_EXPIRED:
    case NFS4ERR_STALE_CLIENTID:
      slots_.release(ticket, SlotUse::kUncertain);
      invalidate(ticket.generation, name_of(status).c_str());
      return Verdict::kDelay;
    default: slots_.release(ticket, SlotUse::kNotExecuted); return Verdict::kAnswered;
  }
}

Task<> Session::probe_slot(SlotTicket ticket, Precedence precedence) {
  auto nothing = [](CompoundBuilder&) {};
  const Request request{.op = nfs4::OP_SEQUENCE, .credential = machine_, .build = nothing};
  CallSize size;
  Result<CompoundReply> reply =
      co_await sender_.attempt(Loop::current()->index(), request, ticket, precedence, size);
  if (!reply || !reply->sequence()) {
    slots_.release(ticket, SlotUse::kUncertain);
    if (!reply && reply.error().recovery == Recovery::kNewSession) co_return;
    invalidate(ticket.generation, "a slot's sequence ID could not be found out");
    co_return;
  }
  // The server had executed the lost request under this sequence ID, whether it kept the reply or not.
  if (reply->sequence()->status == nfs4::NFS4ERR_SEQ_FALSE_RETRY) {
    slots_.release(ticket, SlotUse::kExecuted);
    co_return;
  }
  const Verdict verdict = judge(request, *reply, ticket);
  if (verdict == Verdict::kSameSlot) slots_.release(ticket, SlotUse::kUncertain);
  if (verdict == Verdict::kSameSlot || verdict == Verdict::kDelay) co_await stopping_.pause(100ms);
}

bool Session::without_state(const CompoundReply& reply, const SlotTicket& ticket) const {
  if ((reply.sequence()->resok4.sr_status_flags & nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED) == 0)
    return false;
  return !slots_.is_open() || slots_.generation() != ticket.generation;
}

void Session::note_sequence(const nfs4::SEQUENCE4res& sequence, const SlotTicket& ticket) {
  const auto& ok = sequence.resok4;
  const uint32_t flags = ok.sr_status_flags;
  lease_.note_answer(Clock::now());
  slots_.set_target(ticket, std::min(ok.sr_target_highest_slotid, ok.sr_highest_slotid));
  throttle_.note_answer();
  flags_.note(flags);
  if ((flags & nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED) != 0) reclaim_soon(ticket.generation);
  const uint32_t others = flags & ~nfs4::SEQ4_STATUS_RESTART_RECLAIM_NEEDED;
  if (others != 0 && flags_.begin_handling()) loops_[0].spawn(handle_status_flags(others, ticket.generation));
}

}  // namespace nfsrdma::client::nfs4
