// SPDX-License-Identifier: Apache-2.0
// The RPC messages that this program builds: the beginning of a call, and replies to calls of the back
// channel (RFC 5531 section 9). Both start with the XID; the transport adds record marks or a transport
// header. Values only; any thread.
#pragma once

#include <cstdint>

#include "transport/rpc/call_security.h"
#include "transport/rpc/credential.h"
#include "xdr/codec.h"

namespace nfsrdma::rpc {

// Begins a call: XID 0 (the transport writes its own), CALL, RPC version 2, program, version, procedure,
// credential, AUTH_NONE verifier. `x` must be at position 0, so that its positions are those of the message.
// The arguments follow.
bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure,
                const Credential& credential);

// The same with credential and verifier of a CallSecurity: its header().
bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure,
                const CallSecurity& security);

// The same with a credential of flavor AUTH_NONE (for the NULL procedure).
bool begin_call(xdr::Encoder& x, uint32_t program, uint32_t version, uint32_t procedure);

// Begins an accepted, successful reply; the results follow.
bool begin_reply(xdr::Encoder& x, uint32_t xid);

// Complete replies that say why there are no results.
ByteVector reply_prog_unavail(uint32_t xid);
ByteVector reply_prog_mismatch(uint32_t xid, uint32_t low, uint32_t high);
ByteVector reply_proc_unavail(uint32_t xid);
ByteVector reply_garbage_args(uint32_t xid);
ByteVector reply_system_err(uint32_t xid);
// The call was not of RPC version 2.
ByteVector reply_rpc_mismatch(uint32_t xid);

}  // namespace nfsrdma::rpc
