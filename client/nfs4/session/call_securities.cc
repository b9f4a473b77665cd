// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/call_securities.h"

#include <algorithm>
#include <chrono>
#include <map>
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
  std::vector<ContextStatistics> statistics() const override;
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

// Of a user with several contexts the first to end counts; a refusal counts only if he has none.
std::vector<ContextStatistics> Kerberos::statistics() const {
  std::map<uint32_t, security::Contexts::Holder> users;
  for (const auto& contexts : contexts_) {
    for (security::Contexts::Holder& holder : contexts->holders()) {
      const auto [it, is_new] = users.try_emplace(holder.user, holder);
      if (is_new || !holder.refusal.empty()) continue;
      if (!it->second.refusal.empty() || holder.expires < it->second.expires) it->second = std::move(holder);
    }
  }
  std::vector<ContextStatistics> all;
  const TimePoint now = Clock::now();
  for (auto& [user, holder] : users) {
    ContextStatistics& one = all.emplace_back();
    one.user = user;
    one.refusal = std::move(holder.refusal);
    if (!one.refusal.empty()) continue;
    one.ends = holder.expires != TimePoint::max();
    if (one.ends) {
      const auto left = std::chrono::duration_cast<std::chrono::seconds>(holder.expires - now).count();
      one.seconds_left = static_cast<uint64_t>(std::max<int64_t>(left, 0));
    }
  }
  return all;
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
