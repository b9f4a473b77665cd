// SPDX-License-Identifier: Apache-2.0
#include "filer/security/gss_contexts.h"

#include <algorithm>
#include <array>

#include "transport/security/gss/failure.h"

namespace nfsrdma::filer::security {

namespace {

constexpr uint32_t kNullProcedure = 0;
constexpr uint32_t kGssFailure = 13u << 16;  // GSS_S_FAILURE (RFC 2203 appendix A)
constexpr std::chrono::minutes kSweep{1};
constexpr std::chrono::minutes kAskAgain{1};     // for a ticket's end
constexpr std::chrono::minutes kLookUpAgain{1};  // after the name service failed

// A reply to a creation request. "For all other values of gss_major, a NULL verifier ... is used" (RFC 2203
// section 5.2.3.1): `mic` is empty then.
ByteVector creation_reply(rpc::Xid xid, const rpc::rpc_gss_init_res& res, ConstBytes mic) {
  rpc::reply_header header;
  header.xid = xid;
  if (!mic.empty()) header.verf = {rpc::RPCSEC_GSS, mic};
  ByteVector reply;
  xdr::Encoder x(reply);
  if (!x(header) || !x(res)) log::error("filer: a reply cannot be encoded: {}", x.failure());
  return reply;
}

// "handle and gss_token must be set to NULL by the server" (section 5.2.3.1).
ByteVector failed_creation(rpc::Xid xid, const gss::Step& step) {
  rpc::rpc_gss_init_res res;
  const bool tells = step.major != rpc::kGssComplete && step.major != rpc::kGssContinueNeeded;
  res.gss_major = tells ? step.major : kGssFailure;
  res.gss_minor = step.minor;
  return creation_reply(xid, res, {});
}

ByteVector garbage_args(rpc::Xid xid) {
  rpc::reply_header header;
  header.xid = xid;
  header.accepted = rpc::GARBAGE_ARGS;
  ByteVector reply;
  xdr::Encoder x(reply);
  x(header);
  return reply;
}

// "The checksum of the RPC header (up to and including the credential)" (section 5.3.1).
ConstBytes signed_part(const rpc::call_header& header, ConstBytes message) {
  const ConstBytes cred = header.cred.body;
  const auto end = static_cast<size_t>(cred.data() - message.data()) + xdr_padded(cred.size());
  return message.first(end);
}

}  // namespace

Result<std::unique_ptr<GssContexts>> GssContexts::open(const std::string& keytab, Identities::Lookup lookup,
                                                       ContextTable::Limits limits) {
  auto credential = gss::Credential::accepting({.keytab = keytab});
  if (!credential) return fail(std::move(credential).error());
  return std::unique_ptr<GssContexts>(new GssContexts(*std::move(credential), std::move(lookup), limits));
}

GssContexts::GssContexts(gss::Credential credential, Identities::Lookup lookup, ContextTable::Limits limits)
    : credential_(std::make_shared<const gss::Credential>(std::move(credential))),
      identities_(std::move(lookup)),
      table_(limits) {}

Verdict GssContexts::judge(const rpc::call_header& header, ByteVector& message, size_t arguments,
                           const std::string& address, TimePoint now) {
  xdr::Decoder in(header.cred.body);
  rpc::rpc_gss_cred_t cred;
  if (!in(cred)) return Verdict::refuse(rpc::AUTH_BADCRED);
  // "if the RPCSEC_GSS version number in the credential is not supported ... AUTH_REJECTED_CRED" (section
  // 5.2.3.2). No context of another version exists, so the call can only begin one.
  if (cred.version != rpc::RPCSEC_GSS_VERS_1) return Verdict::refuse(rpc::AUTH_REJECTEDCRED);
  if (in.left() != 0) return Verdict::refuse(rpc::AUTH_BADCRED);
  if (rpc::creates_context(cred.v1.gss_proc))
    return establish(header, cred.v1, ConstBytes(message).subspan(arguments), address, now);
  return judge_protected(header, cred.v1, message, arguments, now);
}

// --- creation (section 5.2)

ContextPtr GssContexts::begun(const rpc::rpc_gss_cred_vers_1_t& cred, const std::string& address) {
  if (cred.gss_proc == rpc::RPCSEC_GSS_INIT) {
    // "In the first creation request, the handle field is NULL".
    if (!cred.handle.empty()) return nullptr;
    auto context = std::make_shared<ServerContext>();
    context->acceptor.emplace(credential_);
    context->address = address;
    return context;
  }
  ContextPtr context = table_.find(cred.handle);
  return context != nullptr && !context->established() ? context : nullptr;
}

Result<> GssContexts::complete(ServerContext& context, TimePoint now) {
  auto made = context.acceptor->take();
  if (!made) return fail(std::move(made).error());
  const auto initiator = made->initiator();
  if (!initiator) return fail(initiator.error());
  auto known = identities_.of(*initiator, now);
  if (!known) return fail(std::move(known).error());
  context.who = std::move(known->who);
  context.looked_up = known->looked_up;
  if (const auto left = made->lifetime()) context.ends = now + *left;
  context.keys = *std::move(made);
  context.acceptor.reset();
  return {};
}

// This clock stands still while the machine is suspended; that of the ticket, which the library knows, does
// not.
void GssContexts::notice_end(ServerContext& context, TimePoint now) {
  if (now < context.ask_again) return;
  context.ask_again = now + kAskAgain;
  if (const auto left = context.keys->lifetime()) context.ends = std::min(context.ends, now + *left);
}

// While the name service fails, he stays who he was.
void GssContexts::look_up_again(ServerContext& context, TimePoint now) {
  if (now - context.looked_up < Identities::kKept) return;
  const Result<gss::Name> initiator = context.keys->initiator();
  auto known = initiator.and_then([&](const gss::Name& name) { return identities_.of(name, now); });
  if (!known) {
    log::warn("filer: {} keeps his user and groups: {}", context.who.name, describe(known.error()));
    context.looked_up = now - Identities::kKept + kLookUpAgain;
    return;
  }
  context.who = std::move(known->who);
  context.looked_up = known->looked_up;
}

// Neither RPCSEC_GSS_CREDPROBLEM nor CTXPROBLEM "can be returned in responses to context creation requests"
// (section 5.2.3.2).
Verdict GssContexts::establish(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                               ConstBytes arguments, const std::string& address, TimePoint now) {
  if (header.proc != kNullProcedure) return Verdict::refuse(rpc::AUTH_BADCRED);
  // "All creation requests have the NULL verifier".
  if (header.verf.flavor != rpc::AUTH_NONE || !header.verf.body.empty())
    return Verdict::refuse(rpc::AUTH_BADVERF);
  xdr::Decoder in(arguments);
  rpc::rpc_gss_init_arg arg;
  if (!in(arg) || in.left() != 0) return Verdict::answer(garbage_args(header.xid));
  const ContextPtr context = begun(cred, address);
  if (context == nullptr) return Verdict::refuse(rpc::AUTH_BADCRED);

  forget_ended(now);
  gss::Step step = context->acceptor->step(arg.gss_token);
  if (!step.error && step.done) {
    if (Result<> completed = complete(*context, now); !completed) step.error = std::move(completed).error();
  }
  if (step.error) {
    if (const uint64_t n = not_accepted_.hit())
      log::warn("filer: a token from {} is not accepted: {} ({} so far)", address, describe(*step.error), n);
    table_.remove(cred.handle);
    return Verdict::answer(failed_creation(header.xid, step));
  }
  ContextTable::Handle handle{};
  if (cred.gss_proc == rpc::RPCSEC_GSS_INIT) {
    handle = table_.add(context);
  } else {
    std::copy(cred.handle.begin(), cred.handle.end(), handle.begin());  // begun() has found it
    if (step.done) table_.established(handle);
  }
  // "set to the checksum of the seq_window (in network order)".
  ByteVector mic;
  if (step.done) {
    std::array<std::byte, 4> window{};
    store_be32(window.data(), kSequenceWindow);
    const ConstBytes pieces[] = {window};
    Result<ByteVector> made = context->keys->sign(pieces);
    if (!made) {
      table_.remove(handle);
      return Verdict::answer(failed_creation(header.xid, step));
    }
    mic = *std::move(made);
    log::debug("filer: {} has a context from {}", context->who.name, address);
  }
  const rpc::rpc_gss_init_res res{.handle = handle,
                                  .gss_major = step.done ? rpc::kGssComplete : rpc::kGssContinueNeeded,
                                  .gss_minor = step.minor,
                                  .seq_window = kSequenceWindow,
                                  .gss_token = step.token};
  return Verdict::answer(creation_reply(header.xid, res, mic));
}

void GssContexts::forget_ended(TimePoint now) {
  if (now - swept_ < kSweep) return;
  swept_ = now;
  table_.remove_ended(now);
}

// --- data and destruction (sections 5.3, 5.4)

Verdict GssContexts::judge_protected(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                                     ByteVector& message, size_t arguments, TimePoint now) {
  using Window = nfsrdma::security::SequenceWindow::Verdict;
  const ContextPtr context = table_.find(cred.handle);
  if (context == nullptr || !context->established()) return Verdict::refuse(rpc::RPCSEC_GSS_CREDPROBLEM);
  // "if security credentials become stale while in use (due to ticket expiry ...) ... RPCSEC_GSS_CTXPROBLEM"
  // (section 5.3.3.3).
  notice_end(*context, now);
  if (context->ends <= now) {
    table_.remove(cred.handle);
    return Verdict::refuse(rpc::RPCSEC_GSS_CTXPROBLEM);
  }
  // What will be discarded anyway is not verified (section 7.2.2). Only a verified call moves the window.
  switch (context->window.judge(cred.seq_num)) {
    case Window::kNew: break;
    case Window::kReplay:
    case Window::kBelowWindow: return Verdict::drop();
    case Window::kAboveMax: return Verdict::refuse(rpc::RPCSEC_GSS_CTXPROBLEM);
  }
  if (header.verf.flavor != rpc::RPCSEC_GSS) return Verdict::refuse(rpc::AUTH_BADVERF);
  const ConstBytes pieces[] = {signed_part(header, message)};
  if (const Result<> verified = context->keys->verify(pieces, header.verf.body); !verified) {
    if (const uint64_t n = not_verified_.hit())
      log::warn("filer: a call in the name of {} is not his: {} ({} so far)", context->who.name,
                describe(verified.error()), n);
    const bool ended = gss::failure_of(verified.error()) == gss::Failure::kContextExpired;
    return Verdict::refuse(ended ? rpc::RPCSEC_GSS_CTXPROBLEM : rpc::RPCSEC_GSS_CREDPROBLEM);
  }
  context->window.accept(cred.seq_num);
  look_up_again(*context, now);

  rpc::reply_header success;
  success.xid = header.xid;
  if (cred.gss_proc == rpc::RPCSEC_GSS_DESTROY) {
    if (header.proc != kNullProcedure) return Verdict::refuse(rpc::AUTH_BADCRED);
    table_.remove(cred.handle);
    // The RFC says "a response as it would to a data request"; Linux' client and server wrap neither the call
    // nor the reply, whatever the service. There is nothing in them.
    rpc::rpc_gss_cred_vers_1_t bare = cred;
    bare.service = rpc::rpc_gss_svc_none;
    const ProtectedCall last(context, bare);
    ByteVector reply(last.front());
    return last.seal(success, reply) ? Verdict::answer(std::move(reply)) : Verdict::drop();
  }
  auto call = std::make_shared<const ProtectedCall>(context, cred);
  const auto opened = call->open(message, arguments);
  if (!opened) {
    rpc::reply_header garbage = success;
    garbage.accepted = rpc::GARBAGE_ARGS;
    ByteVector reply;
    return call->seal(garbage, reply) ? Verdict::answer(std::move(reply)) : Verdict::drop();
  }
  return {.kind = Verdict::Kind::kExecute, .call = std::move(call), .arguments = *opened};
}

}  // namespace nfsrdma::filer::security
