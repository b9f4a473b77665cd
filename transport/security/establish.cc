// SPDX-License-Identifier: Apache-2.0
#include "transport/security/establish.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "transport/rpc/call_message.h"
#include "transport/security/gss/failure.h"
#include "xdr/rpc.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::security {
namespace {

constexpr uint32_t kNullProcedure = 0;
// Kerberos needs one exchange, with DCE style two. More is a server that goes in circles.
constexpr int kMostExchanges = 4;
// The reply's header with a verifier, and rpc_gss_init_res.
constexpr size_t kMaxInitReply = 32 + rpc::kMaxAuthBytes + 24 + rpc::kMaxGssHandle + rpc::kMaxGssToken;

Error init_refused(std::string cause) {
  return {.layer = Layer::kSecurity,
          .recovery = Recovery::kPermanent,
          .errnum = EACCES,
          .op = "RPCSEC_GSS_INIT",
          .cause = std::move(cause)};
}

// An answer to INIT. The views are of `reply`.
struct Answer {
  rpc::Reply reply;
  rpc::opaque_auth verifier;
  rpc::rpc_gss_init_res result;
};

Result<Answer> parse(rpc::Reply reply) {
  Answer answer;
  answer.reply = std::move(reply);
  xdr::Decoder x(answer.reply.head);
  rpc::reply_header header;
  if (!x(header) || !x(answer.result) || x.left() != 0)
    return fail(init_refused(std::string("the server's answer cannot be decoded: ") + x.failure()));
  answer.verifier = header.verf;
  return answer;
}

rpc::Call init_call(const Establishing& e, rpc::rpc_gss_proc_t procedure, ConstBytes handle,
                    ConstBytes token) {
  rpc::Call call;
  call.op = "RPCSEC_GSS_INIT";
  call.handshake = e.handshake;
  call.max_reply_bytes = kMaxInitReply;
  xdr::Encoder x(call.head);
  const ByteVector credential =
      encode_gss_credential({.gss_proc = procedure, .service = e.service, .handle = handle});
  (void)(x(uint32_t{0}) && x(rpc::CALL) && x(rpc::kRpcVersion) && x(e.program.number) &&
         x(e.program.version) && x(kNullProcedure) && x.raw(credential) && x(rpc::opaque_auth{}) &&
         x(rpc::rpc_gss_init_arg{token}));
  return call;
}

// The server does not know RPCSEC_GSS (RFC 2203 section 5.2.3.2), or has no key for it.
Error explain(Error error) {
  const auto rejected = static_cast<uint32_t>(rpc::RpcStatus::kAuthStat);
  if (error.layer != Layer::kRpc || error.status < rejected) return error;
  return init_refused("the server does not accept Kerberos; does it have a keytab?");
}

}  // namespace

Task<Result<std::shared_ptr<GssSecurity>>> establish(Establishing e) {
  Result<std::unique_ptr<Initiation>> initiation = e.tokens.begin(e.request);
  if (!initiation) co_return fail(std::move(initiation.error()));
  Task<Result<InitiationStep>> first = (*initiation)->step({});
  Result<InitiationStep> ours = co_await std::move(first);
  ByteVector handle;
  for (int i = 0; i < kMostExchanges; ++i) {
    if (!ours) co_return fail(std::move(ours.error()));
    if (ours->token.empty())
      co_return fail(init_refused("the server wants another token, and there is none"));
    rpc::Call call =
        init_call(e, i == 0 ? rpc::RPCSEC_GSS_INIT : rpc::RPCSEC_GSS_CONTINUE_INIT, handle, ours->token);
    rpc::Outcome outcome = co_await e.transport.call(call);
    if (!outcome.reply) co_return fail(explain(std::move(outcome.reply.error())));
    Result<Answer> theirs = parse(*std::move(outcome.reply));
    if (!theirs) co_return fail(std::move(theirs.error()));
    const rpc::rpc_gss_init_res& result = theirs->result;
    if (result.gss_major != rpc::kGssComplete && result.gss_major != rpc::kGssContinueNeeded)
      co_return fail(gss::error_of(result.gss_major, result.gss_minor, "RPCSEC_GSS_INIT",
                                   "the server refuses the ticket for nfs@" + e.request.host));
    handle.assign(result.handle.begin(), result.handle.end());
    if (!ours->context) {
      ByteVector token(result.gss_token.begin(), result.gss_token.end());
      Task<Result<InitiationStep>> next = (*initiation)->step(std::move(token));
      ours = co_await std::move(next);
    }
    if (result.gss_major == rpc::kGssContinueNeeded) continue;
    if (!ours) co_return fail(std::move(ours.error()));
    if (!ours->context)
      co_return fail(init_refused("the server considers the context complete, and it is not"));
    Result<gss::Context> context = gss::Context::imported(*ours->context);
    if (!context) co_return fail(std::move(context.error()));
    // Section 5.2.3.1: "the body field set to the checksum of the seq_window (in network order)".
    std::array<std::byte, 4> window;
    store_be32(window.data(), result.seq_window);
    const std::array<ConstBytes, 1> covered{ConstBytes(window)};
    if (theirs->verifier.flavor != rpc::RPCSEC_GSS) co_return fail(init_refused("the answer is not signed"));
    NFSRDMA_CO_TRY(context->verify(covered, theirs->verifier.body));
    co_return std::make_shared<GssSecurity>(*std::move(context), std::move(handle), result.seq_window,
                                            e.service);
  }
  co_return fail(init_refused("the server wants too many tokens"));
}

Task<> destroy(rpc::RpcTransport& transport, std::shared_ptr<GssSecurity> security, Program program) {
  security->begin_destroying();
  rpc::Call call;
  call.op = "RPCSEC_GSS_DESTROY";
  call.handshake = true;  // not sent again on another connection
  call.max_reply_bytes = 24 + security->reply_overhead();
  call.security = security;
  xdr::Encoder x(call.head);
  (void)rpc::begin_call(x, program.number, program.version, kNullProcedure, *security);
  (void)co_await transport.call(call);
}

}  // namespace nfsrdma::security
