// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/configuration.h"

#include <cerrno>

#include "xdr/rpc.h"

namespace nfsrdma::rdma {
namespace {

using namespace rpcrdma;

// Section 6.1: the smallest inline call that every server must accept.
constexpr uint32_t kLeastCallBytes = 1024;
// A success header with AUTH_NONE, and the results.
constexpr size_t kMaxReplyBytes = 24 + 12;

Error unusable(const char* cause) {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kPermanent,
          .errnum = EPROTONOSUPPORT,
          .op = "CONF_RDMA",
          .cause = cause};
}

ByteVector encode_reply(const rpc::reply_header& header, const config_rdma_reply* results) {
  ByteVector bytes;
  xdr::Encoder x(bytes);
  x(header);
  if (results != nullptr) x(*results);
  return bytes;
}

}  // namespace

rpc::Call configuration_call(const config_rdma_req& ours) {
  rpc::Call call;
  call.op = "CONF_RDMA";
  call.handshake = true;
  call.max_reply_bytes = kMaxReplyBytes;
  rpc::call_header header;
  header.prog = CONFIG_RDMA_PROG;
  header.vers = CONFIG_RDMA_VERS1;
  header.proc = CONF_RDMA;
  xdr::Encoder x(call.head);
  x(header);
  x(ours);
  return call;
}

Result<std::optional<config_rdma_reply>> configuration_from(const rpc::Outcome& outcome) {
  if (!outcome.reply) {
    const Error& error = outcome.reply.error();
    if (error.layer == Layer::kRpc) return std::nullopt;  // PROG_UNAVAIL, or another refusal
    return fail(error);
  }
  const ConstBytes results = ConstBytes(outcome.reply->head).subspan(outcome.reply->body);
  auto reply = xdr::decode<config_rdma_reply>(results, "CONF_RDMA");
  if (!reply) return fail(std::move(reply).error());
  if (reply->maxcall_sendsize < kLeastCallBytes)
    return fail(unusable("the server takes inline calls of less than 1 KB (RFC 5666 section 6.1)"));
  // Section 6.2: "If zero, the peer MUST NOT issue requests that require RDMA Read to satisfy".
  if (reply->maxrdmaread == 0) return fail(unusable("the server cannot fetch what is written by RDMA Read"));
  return *reply;
}

std::optional<ByteVector> answer_configuration(ConstBytes call, const config_rdma_reply& ours,
                                               std::optional<config_rdma_req>& theirs) {
  xdr::Decoder x(call);
  rpc::call_header header;
  if (!x(header) || header.rpcvers != rpc::kRpcVersion || header.prog != CONFIG_RDMA_PROG)
    return std::nullopt;
  rpc::reply_header reply;
  reply.xid = header.xid;
  config_rdma_req asked;
  if (header.vers != CONFIG_RDMA_VERS1) {
    reply.accepted = rpc::PROG_MISMATCH;
    reply.mismatch = {CONFIG_RDMA_VERS1, CONFIG_RDMA_VERS1};
  } else if (header.proc == 0) {
    // NULL, which every program has.
    return encode_reply(reply, nullptr);
  } else if (header.proc != CONF_RDMA) {
    reply.accepted = rpc::PROC_UNAVAIL;
  } else if (!x(asked) || x.left() != 0) {
    reply.accepted = rpc::GARBAGE_ARGS;
  } else {
    theirs = asked;
  }
  return encode_reply(reply, theirs ? &ours : nullptr);
}

}  // namespace nfsrdma::rdma
