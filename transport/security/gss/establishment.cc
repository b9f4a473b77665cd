// SPDX-License-Identifier: Apache-2.0
#include "transport/security/gss/establishment.h"

#include "transport/security/gss/failure.h"
#include "transport/security/gss/library.h"

namespace nfsrdma::gss {

namespace {

// RFC 2203 section 5.2.2: "the parameters replay_det_req_flag and sequence_req_flag must be turned off."
constexpr OM_uint32 kRequestFlags = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG;

Step refused(Error error, OM_uint32 major, OM_uint32 minor) {
  return {.major = major, .minor = minor, .error = std::move(error)};
}

Step step_after_the_end(const char* op) {
  return refused(make_error(Failure::kBadToken, op, {}, "a token after the exchange was over"), GSS_S_FAILURE,
                 0);
}

}  // namespace

Initiator::Initiator(std::shared_ptr<const Credential> credential, std::shared_ptr<const Name> server)
    : credential_(std::move(credential)), server_(std::move(server)) {}
Initiator::Initiator(Initiator&&) noexcept = default;
Initiator& Initiator::operator=(Initiator&&) noexcept = default;
Initiator::~Initiator() = default;

Step Initiator::step(ConstBytes token) {
  constexpr const char* kOp = "gss_init_sec_context";
  if (done_ || failed_) return step_after_the_end(kOp);
  gss_buffer_desc in = readable(token);
  Buffer out;
  OM_uint32 minor = 0;
  OM_uint32 flags = 0;
  gss_ctx_id_t context = context_.release();
  const OM_uint32 major = gss_init_sec_context(
      &minor, credential_->get(), &context, server_->get(), krb5_mechanism(), kRequestFlags, 0,
      GSS_C_NO_CHANNEL_BINDINGS, token.empty() ? GSS_C_NO_BUFFER : &in, nullptr, out.out(), &flags, nullptr);
  context_.reset(context);
  if (failed(major)) {
    failed_ = true;
    return refused(error_of(major, minor, kOp, server_->text()), major, minor);
  }
  done_ = (major & GSS_S_CONTINUE_NEEDED) == 0;
  if (done_ && (flags & kRequestFlags) != kRequestFlags) {
    failed_ = true;
    done_ = false;
    return refused(make_error(Failure::kNoConfidentiality, kOp, server_->text()), GSS_S_FAILURE, 0);
  }
  return {.done = done_, .token = out.copy(), .major = major, .minor = minor};
}

Result<Context> Initiator::take() {
  done_ = false;
  failed_ = true;
  return Context::adopt(std::move(context_));
}

Acceptor::Acceptor(std::shared_ptr<const Credential> credential) : credential_(std::move(credential)) {}
Acceptor::Acceptor(Acceptor&&) noexcept = default;
Acceptor& Acceptor::operator=(Acceptor&&) noexcept = default;
Acceptor::~Acceptor() = default;

Step Acceptor::step(ConstBytes token) {
  constexpr const char* kOp = "gss_accept_sec_context";
  if (done_ || failed_) return step_after_the_end(kOp);
  gss_buffer_desc in = readable(token);
  Buffer out;
  OM_uint32 minor = 0;
  gss_OID mechanism = GSS_C_NO_OID;
  gss_ctx_id_t context = context_.release();
  OM_uint32 major =
      gss_accept_sec_context(&minor, &context, credential_->get(), &in, GSS_C_NO_CHANNEL_BINDINGS, nullptr,
                             &mechanism, out.out(), nullptr, nullptr, nullptr);
  context_.reset(context);
  if (!failed(major) && gss_oid_equal(mechanism, gss_mech_krb5) == 0) major = GSS_S_BAD_MECH;
  if (failed(major)) {
    failed_ = true;
    return refused(error_of(major, minor, kOp), major, minor);
  }
  done_ = (major & GSS_S_CONTINUE_NEEDED) == 0;
  return {.done = done_, .token = out.copy(), .major = major, .minor = minor};
}

Result<Context> Acceptor::take() {
  done_ = false;
  failed_ = true;
  return Context::adopt(std::move(context_));
}

}  // namespace nfsrdma::gss
