// SPDX-License-Identifier: Apache-2.0
#include "transport/rpc/call_message.h"

#include "xdr/rpc.h"

namespace nfsrdma::rpc {
namespace {

ByteVector encode(const reply_header& header) {
  ByteVector message;
  xdr::Encoder x(message);
  x(header);
  return message;
}

reply_header accepted(uint32_t xid, accept_stat stat) {
  reply_header header;
  header.xid = Xid{xid};
  header.accepted = stat;
  return header;
}

bool begin(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure) {
  if (x.position() != 0) return x.fail("a call does not begin at position 0");
  return x(uint32_t{0}) && x(CALL) && x(kRpcVersion) && x(program) && x(version) && x(procedure);
}

}  // namespace

bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure,
                const Credential& credential) {
  return begin(x, program, version, procedure) && x.raw(credential.encoded()) && x(opaque_auth{});
}

bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure,
                const CallSecurity& security) {
  return begin(x, program, version, procedure) && x.raw(security.header());
}

bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure) {
  return begin(x, program, version, procedure) && x(opaque_auth{}) && x(opaque_auth{});
}

bool begin_reply(xdr::Encoder& x, uint32_t xid) {
  return x(accepted(xid, SUCCESS));
}

ByteVector reply_prog_unavail(uint32_t xid) {
  return encode(accepted(xid, PROG_UNAVAIL));
}

ByteVector reply_prog_mismatch(uint32_t xid, uint32_t low, uint32_t high) {
  reply_header header = accepted(xid, PROG_MISMATCH);
  header.mismatch = {low, high};
  return encode(header);
}

ByteVector reply_proc_unavail(uint32_t xid) {
  return encode(accepted(xid, PROC_UNAVAIL));
}

ByteVector reply_garbage_args(uint32_t xid) {
  return encode(accepted(xid, GARBAGE_ARGS));
}

ByteVector reply_system_err(uint32_t xid) {
  return encode(accepted(xid, SYSTEM_ERR));
}

ByteVector reply_rpc_mismatch(uint32_t xid) {
  reply_header header;
  header.xid = Xid{xid};
  header.stat = MSG_DENIED;
  header.denied = RPC_MISMATCH;
  header.mismatch = {kRpcVersion, kRpcVersion};
  return encode(header);
}

}  // namespace nfsrdma::rpc
