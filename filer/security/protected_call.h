// SPDX-License-Identifier: Apache-2.0
// ProtectedCall: one RPC call under an RPCSEC_GSS context, from its checked header to its sealed reply
// (RFC 2203 sections 5.3.1 to 5.3.3).
//
//     call = header, credential, verifier: the MIC of both
//            krb5:   arguments
//            krb5i:  opaque { seq_num, arguments }, opaque MIC of it
//            krb5p:  opaque wrapped { seq_num, arguments }
//     reply = header, verifier: the MIC of seq_num, SUCCESS, results in the same three forms
//
// The owner is the Exchange of the call. It keeps the context alive, also when the table has dropped it. Loop
// thread.
#pragma once

#include <cstdint>
#include <optional>

#include "filer/security/context_table.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::filer::security {

class ProtectedCall {
 public:
  // `context` is established. The call's header has been verified.
  ProtectedCall(ContextPtr context, const rpc::rpc_gss_cred_vers_1_t& cred);

  // The caller; `security` says how this call is protected.
  const tree::Principal& who() const { return who_; }

  // Verifies the arguments, which begin at `offset` of the message, and unwraps them in place. Afterwards the
  // message ends with them. Returns their offset. nullopt: GARBAGE_ARGS.
  std::optional<size_t> open(ByteVector& message, size_t offset) const;

  // Bytes of the reply in front of the results and behind them. A reply of front() + results + behind() bytes
  // has room for everything; under privacy it may be a few bytes shorter.
  size_t front() const;
  size_t behind() const;

  // Makes the reply. If `header` says SUCCESS, `reply` has front() bytes of room and then the results;
  // otherwise its content does not matter. Returns false if the reply cannot be protected: then nothing must
  // be sent (section 5.3.3.4).
  bool seal(const rpc::reply_header& header, ByteVector& reply) const;

 private:
  ByteVector verifier() const;
  bool begin(const rpc::reply_header& header, ByteVector& out) const;
  size_t header_bytes() const;

  std::optional<size_t> open_integrity(ByteVector& message, size_t offset) const;
  std::optional<size_t> open_privacy(ByteVector& message, size_t offset) const;
  bool seal_integrity(const ByteVector& head, ByteVector& reply) const;
  bool seal_privacy(const ByteVector& head, ByteVector& reply) const;
  bool has_sequence(ConstBytes body) const;

  const ContextPtr context_;
  const uint32_t sequence_;
  const rpc::rpc_gss_service_t service_;
  tree::Principal who_;
};

}  // namespace nfsrdma::filer::security
