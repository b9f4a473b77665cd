// SPDX-License-Identifier: Apache-2.0
// GssSecurity: RPCSEC_GSS for the calls of one user over one transport, by an established context (RFC 2203
// section 5.3).
//
//     krb5   rpc_gss_svc_none       MIC of the header in the verifier; arguments and results as they are
//     krb5i  rpc_gss_svc_integrity  and a MIC of arguments, and of results
//     krb5p  rpc_gss_svc_privacy    arguments and results encrypted
//
// Owner: the table of contexts (contexts.h), and the calls that use it. Loop thread only. seal() fails with
// gss::Failure::kContextExpired when the ticket has run out or no sequence number is left.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/rpc/call_security.h"
#include "transport/runtime/loop.h"
#include "transport/security/gss/context.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::security {

class GssSecurity final : public rpc::CallSecurity {
 public:
  // `handle` and `window` are the server's (rpc_gss_init_res).
  GssSecurity(gss::Context context, ByteVector handle, uint32_t window, rpc::rpc_gss_service_t service);

  ConstBytes header() const override { return header_; }
  size_t reply_overhead() const override { return reply_overhead_; }
  size_t verifier_bytes() const override { return xdr_padded(context_.mic_bytes()); }
  bool results_in_clear() const override { return service_ == rpc::rpc_gss_svc_none; }
  Result<> seal(rpc::Call& call) override;
  Result<> open(const rpc::Call& call, rpc::ReceivedReply& reply) override;
  rpc::CallWindow* window() override { return &window_; }

  // The header of a call that ends the context (RFC 2203 section 5.4), sealed for `call`, whose head has room
  // for it. No further call may be sealed.
  void begin_destroying() { set_procedure(rpc::RPCSEC_GSS_DESTROY); }

  // False: its time is over, or its sequence numbers are nearly used up. Pending calls may still end.
  bool usable(TimePoint now) const { return now < expires_ && sequence_ < kLastSequence; }
  TimePoint expires() const { return expires_; }
  const gss::Context& context() const { return context_; }

 private:
  // Leaves room for what is pending when a new context is made: each repetition takes a number.
  static constexpr uint32_t kLastSequence = rpc::MAXSEQ - (1u << 20);

  void set_procedure(rpc::rpc_gss_proc_t procedure);
  Result<> wrap_arguments(rpc::Call& call);
  Result<> unwrap_results(const rpc::Call& call, ByteVector& head, size_t results) const;

  gss::Context context_;
  rpc::CallWindow window_;
  const rpc::rpc_gss_service_t service_;
  ByteVector header_;            // credential and verifier
  size_t credential_bytes_ = 0;  // of these, the credential
  size_t reply_overhead_ = 0;
  uint32_t sequence_ = 0;
  TimePoint expires_;
  std::vector<ConstBytes> pieces_;  // of the arguments; kept for its memory
};

// Encodes a credential of RPCSEC_GSS as an opaque_auth.
ByteVector encode_gss_credential(const rpc::rpc_gss_cred_vers_1_t& credential);

}  // namespace nfsrdma::security
