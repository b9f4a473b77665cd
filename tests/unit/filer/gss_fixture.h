// SPDX-License-Identifier: Apache-2.0
// GssTest: a realm (tests/unit/security/realm.h), the server's contexts, and calls that are judged without a
// connection.
#pragma once

#include "filer/security/gss_contexts.h"
#include "tests/unit/filer/gss_peer.h"
#include "tests/unit/security/realm.h"

namespace nfsrdma::filer::test {

inline constexpr rpc::rpc_gss_service_t kServices[] = {rpc::rpc_gss_svc_none, rpc::rpc_gss_svc_integrity,
                                                       rpc::rpc_gss_svc_privacy};

class GssTest : public gss::Realm {
 protected:
  // Made when it is first asked for, with the users of this host.
  security::GssContexts& contexts();
  void open_contexts(security::ContextTable::Limits limits,
                     security::Identities::Lookup lookup = security::account_of);

  static std::string bob() { return kdc().kinit("bob"); }
  // A client with the tickets of a credential cache.
  static GssPeer peer_of(const std::string& ccache, rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none) {
    return GssPeer(user(ccache), server(), service);
  }

  // What becomes of a call, `later` than now.
  security::Verdict judge(ByteVector message, Duration later = {});
  // The same, with the arguments that are executed; nullopt: it is not executed.
  std::optional<ByteVector> arguments_of(ByteVector message);
  // The reply to a call that is not executed; empty: none.
  ByteVector answered(ByteVector message) { return judge(std::move(message)).reply; }
  GssPeer::Exchange by_judge() {
    return [this](ByteVector call) { return answered(std::move(call)); };
  }

  static ByteVector encode_init(rpc::call_header header, const rpc::rpc_gss_cred_t& cred, ConstBytes token);
  static rpc::opaque_auth verifier_of(const ByteVector& reply);

 private:
  security::Verdict judge(ByteVector& message, TimePoint when);

  std::unique_ptr<security::GssContexts> contexts_;
};

}  // namespace nfsrdma::filer::test
