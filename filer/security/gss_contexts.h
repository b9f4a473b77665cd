// SPDX-License-Identifier: Apache-2.0
// GssContexts: the server's end of RPCSEC_GSS with mechanism krb5 (RFC 2203 section 5).
//
// It answers the control calls (INIT, CONTINUE_INIT, DESTROY) itself, and judges data calls: their context,
// their sequence number, the MIC of their header, and their arguments. It knows nothing of NFS. Owned by the
// Dispatcher; loop thread, without the server's lock. Establishing a context reads the keytab and looks up
// the user, as a call does every five minutes, which may block (identity.h). Errors for the peer are the
// auth_stat and accept_stat of sections 5.2.3 and 5.3.3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "filer/security/context_table.h"
#include "filer/security/identity.h"
#include "filer/security/protected_call.h"
#include "transport/runtime/log.h"

namespace nfsrdma::filer::security {

// What becomes of a call.
struct Verdict {
  enum class Kind : uint8_t {
    kExecute,  // `call` protects it; its arguments are now in the clear, from `arguments` on
    kAnswer,   // `reply` is the whole reply
    kRefuse,   // MSG_DENIED with AUTH_ERROR and `why`
    kDrop,     // no reply
  };
  Kind kind = Kind::kDrop;
  rpc::auth_stat why = rpc::AUTH_OK;
  std::shared_ptr<const ProtectedCall> call{};
  size_t arguments = 0;
  ByteVector reply{};

  static Verdict drop() { return {}; }
  static Verdict refuse(rpc::auth_stat why) { return {.kind = Kind::kRefuse, .why = why}; }
  static Verdict answer(ByteVector reply) { return {.kind = Kind::kAnswer, .reply = std::move(reply)}; }
};

class GssContexts {
 public:
  // `keytab`: empty: the system's default. Errors: gss::Failure::kNoKeytab, kNoKeytabEntry (no nfs/HOST in
  // it).
  static Result<std::unique_ptr<GssContexts>> open(const std::string& keytab,
                                                   Identities::Lookup lookup = account_of,
                                                   ContextTable::Limits limits = {});

  // Judges a call whose credential has flavor RPCSEC_GSS. `header` was decoded from `message`, and its
  // arguments begin at `arguments`. A message to execute is changed: its arguments are unwrapped.
  Verdict judge(const rpc::call_header& header, ByteVector& message, size_t arguments,
                const std::string& address, TimePoint now);
  // Forgets all contexts, as a restarted server has.
  void forget() { table_.clear(); }

  size_t size() const { return table_.size(); }

 private:
  GssContexts(gss::Credential credential, Identities::Lookup lookup, ContextTable::Limits limits);

  Verdict establish(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                    ConstBytes arguments, const std::string& address, TimePoint now);
  // The context to continue with the peer's token: a new one for INIT. Null: there is none.
  ContextPtr begun(const rpc::rpc_gss_cred_vers_1_t& cred, const std::string& address);
  // Takes over what the finished exchange has made.
  Result<> complete(ServerContext& context, TimePoint now);
  // Once a minute: whether the ticket ends earlier than expected.
  static void notice_end(ServerContext& context, TimePoint now);
  // After Identities::kKept: the user's groups may have changed.
  void look_up_again(ServerContext& context, TimePoint now);
  Verdict judge_protected(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                          ByteVector& message, size_t arguments, TimePoint now);
  void forget_ended(TimePoint now);

  const std::shared_ptr<const gss::Credential> credential_;
  Identities identities_;
  ContextTable table_;
  TimePoint swept_{};
  log::Throttle not_accepted_;
  log::Throttle not_verified_;
};

}  // namespace nfsrdma::filer::security
