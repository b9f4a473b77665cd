// SPDX-License-Identifier: Apache-2.0
// CallSecurity: protects the calls of one user over one transport, and verifies their replies (RPCSEC_GSS,
// RFC 2203). Transports know only this class, nothing of GSS.
//
// A call without it (Call::security is null) has an AUTH_SYS or AUTH_NONE header and is sent as it is.
//
//     caller      writes header() and the arguments, makes room for the longer reply, sets Call::security
//     transport   seal() before each transmission; sends Call::message()
//                 open() for each accepted reply, before its results are read
//
// Owner: shared by the caller and its pending calls, so a call can be sent again while the caller already
// makes its calls with a new context. Loop thread only; no function blocks.
#pragma once

#include "transport/rpc/call_window.h"
#include "transport/rpc/received_reply.h"
#include "transport/rpc/rpc_transport.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::rpc {

class CallSecurity {
 public:
  virtual ~CallSecurity() = default;

  // Credential and verifier as long as in each sealed call, with contents that seal() overwrites: what stands
  // in a call's head behind the procedure (begin_call(), CompoundBuilder). Valid as long as this object.
  virtual ConstBytes header() const = 0;

  // How many bytes longer than with an AUTH_NONE verifier a reply may be, verifier and wrapping together. The
  // caller adds them to Call::max_reply_bytes.
  virtual size_t reply_overhead() const = 0;
  // Of these, the bytes of the verifier. The caller adds them to Sink::expected_offset.
  virtual size_t verifier_bytes() const = 0;

  // True: only header and verifier are protected (rpc_gss_svc_none). Arguments and results travel as without
  // security; transports use chunks and receive into the sink. False: both are wrapped (Call::wrapped()). No
  // chunk carries a part of the message, and ClientTransport copies the bulk item to the sink after open().
  // Never changes.
  virtual bool results_in_clear() const = 0;

  // Prepares one transmission of `call`, whose XID is written: takes the next sequence number, writes
  // credential and verifier into call.head, and makes call.sealed, exactly if results are not in the clear.
  // RFC 2203 section 5.3.3.1: a repeated call needs a new number, because the server drops what it has seen.
  // The message stays as it is until the next seal() of this call. On an error (an expired context, for
  // example) the call is not sent and ends with the error.
  virtual Result<> seal(Call& call) = 0;

  // Verifies an accepted reply (MSG_ACCEPTED, any accept_stat) to the last transmission of `call`, and
  // unwraps the results of a successful one in place: reply.head then is the reply without security, except
  // for its verifier. reply.defect is null; in the clear, the bulk item may be placed already. Not called for
  // a denied reply, which has no verifier (RFC 5531 section 9). Must treat the bytes as hostile. On an error
  // nobody reads the reply: the connection is dropped, and the call is sent again on the next one, once.
  virtual Result<> open(const Call& call, ReceivedReply& reply) = 0;

  // How many calls the server follows at once; null: any number. The caller takes a place for each call.
  virtual CallWindow* window() { return nullptr; }
};

}  // namespace nfsrdma::rpc
