// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/call_securities.h"

#include <utility>
#include <vector>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/user_ids.h"
#include "transport/security/contexts.h"
#include "xdr/rpc.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::client::nfs4 {
namespace {

rpc::rpc_gss_service_t service_of(SecurityFlavor flavor) {
  switch (flavor) {
    case SecurityFlavor::kSys:
    case SecurityFlavor::kKrb5: return rpc::rpc_gss_svc_none;
    case SecurityFlavor::kKrb5i: return rpc::rpc_gss_svc_integrity;
    case SecurityFlavor::kKrb5p: return rpc::rpc_gss_svc_privacy;
  }
  return rpc::rpc_gss_svc_none;
}

bool is_auth_stat(const Error& error, rpc::auth_stat why) {
  return error.layer == Layer::kRpc &&
         error.status == static_cast<uint32_t>(rpc::RpcStatus::kAuthStat) + static_cast<uint32_t>(why);
}

class Kerberos final : public CallSecurities {
 public:
  Kerberos(Connections& connections, const ClientOptions& options, unsigned transports);
  Task<Result<std::shared_ptr<rpc::CallSecurity>>> get(unsigned transport, rpc::CredentialPtr who,
                                                       bool handshake) override;
  void forget(unsigned transport, const rpc::Credential& who, const rpc::CallSecurity& security) override {
    contexts_[transport]->refused(user_of(who), security);
  }
  Task<> destroy() override;

 private:
  uint32_t user_of(const rpc::Credential& who) const { return ids_.inner_user(who.uid()); }

  const UserIds ids_ = UserIds::of_this_process();
  std::vector<std::unique_ptr<security::Contexts>> contexts_;  // of each transport
};

Kerberos::Kerberos(Connections& connections, const ClientOptions& options, unsigned transports) {
  const security::ContextsOptions wanted{.host = options.host,
                                         .service = service_of(options.flavor),
                                         .program = {nfs4::NFS4_PROGRAM, nfs4::NFS_V4}};
  for (unsigned i = 0; i < transports; ++i)
    contexts_.push_back(std::make_unique<security::Contexts>(connections.at(i), options.tokens, wanted));
}

Task<Result<std::shared_ptr<rpc::CallSecurity>>> Kerberos::get(unsigned transport, rpc::CredentialPtr who,
                                                               bool handshake) {
  security::Contexts& contexts = *contexts_[transport];
  const uint32_t user = user_of(*who);
  if (auto there = contexts.ready(user)) co_return there;
  auto making = contexts.get(user, handshake);
  Result<std::shared_ptr<security::GssSecurity>> made = co_await std::move(making);
  if (!made) co_return fail(std::move(made.error()));
  co_return *std::move(made);
}

Task<> Kerberos::destroy() {
  auto ending = contexts_[0]->destroy_all();
  co_await std::move(ending);
}

}  // namespace

ContextLoss context_loss(const Error& error) {
  if (is_auth_stat(error, rpc::RPCSEC_GSS_CREDPROBLEM) || is_auth_stat(error, rpc::RPCSEC_GSS_CTXPROBLEM))
    return ContextLoss::kRefused;
  return error.layer == Layer::kSecurity ? ContextLoss::kUseless : ContextLoss::kNone;
}

std::unique_ptr<CallSecurities> CallSecurities::make(Connections& connections, const ClientOptions& options,
                                                     unsigned transports) {
  if (!uses_kerberos(options.flavor)) return nullptr;
  return std::make_unique<Kerberos>(connections, options, transports);
}

}  // namespace nfsrdma::client::nfs4
