// SPDX-License-Identifier: Apache-2.0
#include "xdr/rpc.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace nfsrdma::rpc {

namespace {

constexpr const char* kAcceptNames[] = {"SUCCESS",      "PROG_UNAVAIL", "PROG_MISMATCH",
                                        "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"};
constexpr const char* kAuthNames[] = {
    "AUTH_OK",           "AUTH_BADCRED",           "AUTH_REJECTEDCRED",    "AUTH_BADVERF",
    "AUTH_REJECTEDVERF", "AUTH_TOOWEAK",           "AUTH_INVALIDRESP",     "AUTH_FAILED",
    "AUTH_KERB_GENERIC", "AUTH_TIMEEXPIRE",        "AUTH_TKT_FILE",        "AUTH_DECODE",
    "AUTH_NET_ADDR",     "RPCSEC_GSS_CREDPROBLEM", "RPCSEC_GSS_CTXPROBLEM"};

uint32_t base(RpcStatus kind) {
  return static_cast<uint32_t>(kind);
}

int errno_for(const reply_header& reply) {
  if (reply.stat == MSG_DENIED) return reply.denied == AUTH_ERROR ? EACCES : EPROTONOSUPPORT;
  switch (reply.accepted) {
    case PROG_UNAVAIL:
    case PROG_MISMATCH: return EPROTONOSUPPORT;
    case PROC_UNAVAIL: return EOPNOTSUPP;
    default: return EIO;
  }
}

std::string cause_for(const reply_header& reply) {
  const bool versions =
      reply.stat == MSG_DENIED ? reply.denied == RPC_MISMATCH : reply.accepted == PROG_MISMATCH;
  if (!versions) return {};
  return "the server speaks versions " + std::to_string(reply.mismatch.low) + " to " +
         std::to_string(reply.mismatch.high);
}

}  // namespace

std::optional<message_prefix> peek(ConstBytes message) {
  if (message.size() < kPrefixBytes) return std::nullopt;
  const uint32_t type = load_be32(message.data() + 4);
  if (type != CALL && type != REPLY) return std::nullopt;
  return message_prefix{Xid{load_be32(message.data())}, static_cast<msg_type>(type)};
}

ByteVector encode_authsys(const authsys_parms& parms) {
  ByteVector body;
  xdr::Encoder x(body);
  if (!x(parms)) body.clear();
  return body;
}

RpcStatus status_of(const reply_header& reply) {
  if (reply.success()) return RpcStatus::kNone;
  if (reply.stat == MSG_ACCEPTED)
    return static_cast<RpcStatus>(base(RpcStatus::kAcceptStat) + reply.accepted);
  if (reply.denied == RPC_MISMATCH) return RpcStatus::kRpcMismatch;
  return static_cast<RpcStatus>(base(RpcStatus::kAuthStat) + std::min<uint32_t>(reply.why, 0xff));
}

std::string name_of(RpcStatus status) {
  const uint32_t number = static_cast<uint32_t>(status);
  if (status == RpcStatus::kNone) return "SUCCESS";
  if (status == RpcStatus::kRpcMismatch) return "RPC_MISMATCH";
  if (number >= base(RpcStatus::kAuthStat)) {
    const uint32_t why = number - base(RpcStatus::kAuthStat);
    return why < std::size(kAuthNames) ? kAuthNames[why] : "auth_stat " + std::to_string(why);
  }
  const uint32_t accept = number - base(RpcStatus::kAcceptStat);
  return accept < std::size(kAcceptNames) ? kAcceptNames[accept] : "RPC status " + std::to_string(number);
}

Result<> check(const reply_header& reply, const char* op) {
  if (reply.success()) return {};
  return fail({.layer = Layer::kRpc,
               .recovery = Recovery::kPermanent,
               .errnum = errno_for(reply),
               .status = static_cast<uint32_t>(status_of(reply)),
               .op = op,
               .cause = cause_for(reply)});
}

}  // namespace nfsrdma::rpc
