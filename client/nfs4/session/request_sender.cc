// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/request_sender.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "client/nfs4/session/recovery_pace.h"
#include "transport/runtime/log.h"
#include "transport/runtime/suspension.h"

namespace nfsrdma::client::nfs4 {

namespace {

using namespace std::chrono_literals;

// New contexts for one request. A server that forgets each of them at once has another fault.
constexpr unsigned kMostRenewals = 3;

}  // namespace

Task<Result<CompoundReply>> RequestSender::attempt(unsigned transport, const Request& request,
                                                   const SlotTicket& ticket, Precedence precedence,
                                                   CallSize& size,
                                                   std::shared_ptr<rpc::CallSecurity> security) {
  if (security_ != nullptr && security == nullptr) [[unlikely]] {
    auto secured = attempt_secured(transport, request, ticket, precedence, size);
    co_return co_await std::move(secured);
  }
  const char* name = nfs4::op_name(request.op);
  CompoundBuilder builder(*request.credential, name, true, security);
  builder.watch(request.op);
  request.build(builder);
  size.place = builder.place();
  if (builder.refused()) co_return fail(*builder.refused());
  if (!builder.ok()) {
    co_return fail({.layer = Layer::kXdr,
                    .recovery = Recovery::kPermanent,
                    .errnum = EINVAL,
                    .op = name,
                    .cause = "an argument exceeds the protocol's limit"});
  }
  rpc::Call call = builder.finish(&ticket, request.cache_this);
  call.handshake = precedence == Precedence::kHandshake;
  call.renewal = precedence == Precedence::kRenewal;
  const std::string operations = builder.take_trace();
  if (request.cancellation != nullptr && request.op != nfs4::OP_OPEN)
    call.abandoned = &request.cancellation->flag();
  size.sent = call.head.size();
  for (const xdr::Bulk& bulk : call.bulks) size.sent += bulk.data.size();
  const TimePoint sent = Clock::now();
  const Duration sent_since_boot = since_boot();
  rpc::Outcome outcome = co_await connections_.at(transport).call(call);
  size.transmissions = outcome.transmissions;
  if (!outcome.reply) {
    Result<CompoundReply> failed = fail(std::move(outcome.reply.error()));
    trace(name, operations, failed, sent);
    co_return failed;
  }
  size.received = outcome.reply->head.size() + outcome.reply->bulk_length;
  Result<CompoundReply> reply = CompoundReply::parse(std::move(*outcome.reply), request.sink, name, true);
  count(request.op, size, sent, reply);
  trace(name, operations, reply, sent);
  if (reply && reply->sequence()) lease_.note_sequence(*reply->sequence(), sent_since_boot);
  co_return reply;
}

// RFC 2203 section 5.3.3.3: "the client must refresh the context, and retry the request." It is sent again in
// the same slot. The server has not executed a transmission that it refused. Of all others,
// size.transmissions tells the caller, who must find out what became of the slot.
Task<Result<CompoundReply>> RequestSender::attempt_secured(unsigned transport, const Request& request,
                                                           const SlotTicket& ticket, Precedence precedence,
                                                           CallSize& size) {
  const bool handshake = precedence == Precedence::kHandshake;
  unsigned before = 0;  // transmissions in earlier contexts, without those that the server refused
  for (unsigned renewals = 0;; ++renewals) {
    auto getting = security_->get(transport, request.credential, handshake);
    Result<std::shared_ptr<rpc::CallSecurity>> security = co_await std::move(getting);
    if (!security) {
      size.transmissions = before;
      co_return fail(std::move(security.error()));
    }
    rpc::CallWindow* const window = (*security)->window();
    if (window != nullptr && precedence != Precedence::kNone) window->enter_first();
    if (window != nullptr && precedence == Precedence::kNone) {
      auto entering = window->enter();
      co_await std::move(entering);
    }
    auto attempting = attempt(transport, request, ticket, precedence, size, *security);
    Result<CompoundReply> reply = co_await std::move(attempting);
    if (window != nullptr) window->leave();
    const ContextLoss loss = reply ? ContextLoss::kNone : context_loss(reply.error());
    if (loss == ContextLoss::kRefused && size.transmissions > 0) --size.transmissions;
    size.transmissions += before;
    if (loss == ContextLoss::kNone) co_return reply;
    security_->forget(transport, *request.credential, **security);
    if (renewals >= kMostRenewals) co_return reply;
    before = std::exchange(size.transmissions, 0);
  }
}

Task<Result<>> RequestSender::secure(unsigned transport, rpc::CredentialPtr who) {
  auto getting = security_->get(transport, std::move(who), false);
  Result<std::shared_ptr<rpc::CallSecurity>> security = co_await std::move(getting);
  if (!security) co_return fail(std::move(security.error()));
  co_return Result<>{};
}

Task<> RequestSender::end_security() {
  if (security_ == nullptr) co_return;
  auto ending = security_->destroy();
  co_await std::move(ending);
}

Task<Result<CompoundReply>> RequestSender::run_alone(unsigned transport, nfs4::nfs_opnum4 op,
                                                     BuildRef build) {
  const char* name = nfs4::op_name(op);
  unsigned renewals = 0;
  for (Backoff delay(250ms, 5s);;) {
    std::shared_ptr<rpc::CallSecurity> security;
    if (security_ != nullptr) {
      auto getting = security_->get(transport, machine_, true);
      Result<std::shared_ptr<rpc::CallSecurity>> got = co_await std::move(getting);
      if (!got) co_return fail(std::move(got.error()));
      security = *std::move(got);
    }
    CompoundBuilder builder(*machine_, name, false, security);
    build(builder);
    rpc::Call call = builder.finish(nullptr, false);
    call.handshake = true;
    CallSize size;
    size.sent = call.head.size();
    const std::string operations = builder.take_trace();
    const TimePoint sent = Clock::now();
    rpc::Outcome outcome = co_await connections_.at(transport).call(call);
    if (!outcome.reply) {
      const bool lost = security != nullptr && context_loss(outcome.reply.error()) != ContextLoss::kNone;
      if (lost) security_->forget(transport, *machine_, *security);
      if (lost && renewals++ < kMostRenewals) continue;
      co_return fail(std::move(outcome.reply.error()));
    }
    size.transmissions = outcome.transmissions;
    size.received = outcome.reply->head.size();
    const Slice none;
    Result<CompoundReply> reply = CompoundReply::parse(std::move(*outcome.reply), none, name, false);
    count(op, size, sent, reply);
    trace(name, operations, reply, sent);
    if (!reply || reply->status() != nfs4::NFS4ERR_DELAY || stopping_.raised()) co_return reply;
    co_await stopping_.pause(delay.next());
  }
}

// Writes one line for each COMPOUND: what it is for, what is in it, how it ended, and how long that took. If
// the operation log is off, `operations` is empty.
void RequestSender::trace(const char* op, const std::string& operations, const Result<CompoundReply>& reply,
                          TimePoint sent) {
  if (operations.empty()) return;
  const std::chrono::duration<double, std::milli> took = Clock::now() - sent;
  const std::string status = reply ? nfs4::name_of(reply->status()) : describe(reply.error());
  log::trace(fmt::format("{}: {}: {}, {:.3f} ms", op, operations, status, took.count()));
}

void RequestSender::count(nfs4::nfs_opnum4 op, const CallSize& size, TimePoint sent,
                          const Result<CompoundReply>& reply) {
  if (!reply) return;
  counters_.add(op, {.error = !reply->ok(),
                     .transmissions = size.transmissions,
                     .sent = size.sent,
                     .received = size.received,
                     .queue = sent - size.queued,
                     .response = Clock::now() - sent});
}

}  // namespace nfsrdma::client::nfs4
