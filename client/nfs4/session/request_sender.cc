// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/request_sender.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "client/nfs4/session/recovery_pace.h"
#include "transport/runtime/log.h"
#include "transport/runtime/suspension.h"

namespace nfsrdma::client::nfs4 {

using namespace std::chrono_literals;

Task<Result<CompoundReply>> RequestSender::attempt(unsigned transport, const Request& request,
                                                   const SlotTicket& ticket, Precedence precedence,
                                                   CallSize& size) {
  const char* name = nfs4::op_name(request.op);
  CompoundBuilder builder(*request.credential, name);
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

Task<Result<CompoundReply>> RequestSender::run_alone(unsigned transport, nfs4::nfs_opnum4 op,
                                                     BuildRef build) {
  const char* name = nfs4::op_name(op);
  for (Backoff delay(250ms, 5s);;) {
    CompoundBuilder builder(*machine_, name, false);
    build(builder);
    rpc::Call call = builder.finish(nullptr, false);
    call.handshake = true;
    CallSize size;
    size.sent = call.head.size();
    const std::string operations = builder.take_trace();
    const TimePoint sent = Clock::now();
    rpc::Outcome outcome = co_await connections_.at(transport).call(call);
    if (!outcome.reply) co_return fail(std::move(outcome.reply.error()));
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
