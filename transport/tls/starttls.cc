// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/starttls.h"

#include <string_view>

#include "xdr/record_mark.h"

namespace nfsrdma::tls {
namespace {

constexpr std::string_view kToken = "STARTTLS";
constexpr uint32_t kNullProcedure = 0;

}  // namespace

// "The length of the opaque data constituting the credential sent in the RPC Call message MUST be zero. The
// verifier accompanying the credential MUST be an AUTH_NONE verifier of length zero."
ByteVector probe(rpc::Xid xid, uint32_t program, uint32_t version) {
  ByteVector message;
  xdr::Encoder x(message);
  (void)(x(rpc::call_header{
      .xid = xid, .prog = program, .vers = version, .proc = kNullProcedure, .cred = {rpc::AUTH_TLS, {}}}));
  const auto mark = rpc::encode_record_mark({true, static_cast<uint32_t>(message.size())});
  message.insert(message.begin(), mark.begin(), mark.end());
  return message;
}

// "The client SHOULD proceed with TLS session establishment, even if the Reply's accept_stat is not SUCCESS."
Answer judge(ConstBytes record, rpc::Xid xid) {
  xdr::Decoder x(record);
  rpc::reply_header reply;
  if (!x(reply) || reply.xid != xid) return Answer::kBroken;
  const bool offered = reply.stat == rpc::MSG_ACCEPTED && reply.verf.flavor == rpc::AUTH_NONE &&
                       as_string_view(reply.verf.body) == kToken;
  return offered ? Answer::kOffered : Answer::kNotOffered;
}

bool is_probe(const rpc::call_header& call) {
  return call.cred.flavor == rpc::AUTH_TLS && call.cred.body.empty() && call.verf.flavor == rpc::AUTH_NONE &&
         call.verf.body.empty() && call.proc == kNullProcedure;
}

ByteVector offer(rpc::Xid xid) {
  ByteVector message;
  xdr::Encoder x(message);
  (void)x(rpc::reply_header{.xid = xid, .verf = {rpc::AUTH_NONE, std::as_bytes(std::span(kToken))}});
  return message;
}

}  // namespace nfsrdma::tls
