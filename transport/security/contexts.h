// SPDX-License-Identifier: Apache-2.0
// Contexts: the RPCSEC_GSS contexts of one transport, one for each user, made when a user first needs one.
//
// Owner: the session, one for each transport; loop thread of that transport. Each context is established by
// one caller, and others who need it wait for his result. While the connection's handshake runs, its own
// calls do not wait for others: theirs are not sent before the handshake is over.
//
// A refusal (no ticket, the server unknown to the KDC) is kept for kRefusalKept: an application that tries in
// a loop does not make the helper ask the KDC each time, and after kinit the wait is short. Errors:
// establish().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"
#include "transport/security/establish.h"

namespace nfsrdma::security {

struct ContextsOptions {
  std::string host;
  rpc::rpc_gss_service_t service = rpc::rpc_gss_svc_none;
  Program program;
};

class Contexts {
 public:
  // As rpc.gssd's clients wait before they ask again for an expired credential (expired_cred_retry_delay).
  static constexpr Duration kRefusalKept = std::chrono::seconds(5);
  static constexpr size_t kMostUsers = 1024;

  Contexts(rpc::RpcTransport& transport, std::shared_ptr<TokenSource> tokens, ContextsOptions options)
      : transport_(transport), tokens_(std::move(tokens)), options_(std::move(options)) {}

  // The user's context, if it is there and usable. Never waits.
  std::shared_ptr<GssSecurity> ready(uint32_t user);
  // The user's context, made if there is none. `handshake`: for calls of the connection's handshake.
  Task<Result<std::shared_ptr<GssSecurity>>> get(uint32_t user, bool handshake);
  // The server does not know this context any more (RPCSEC_GSS_CREDPROBLEM, RPCSEC_GSS_CTXPROBLEM): get()
  // makes another.
  void refused(uint32_t user, const rpc::CallSecurity& security);

  // Tells the server that no context is needed any more. Call no get() afterwards.
  Task<> destroy_all();

  // For status: each user who has a context, and each whom the last attempt refused one.
  struct Holder {
    uint32_t user = 0;
    TimePoint expires = TimePoint::max();  // max(): without end
    std::string refusal;                   // why there is none; empty: there is one
  };
  // In the order of users. Any thread.
  std::vector<Holder> holders() const;

 private:
  using Made = Result<std::shared_ptr<GssSecurity>>;
  struct Entry {
    std::shared_ptr<GssSecurity> security;
    std::optional<Error> refusal;
    TimePoint refused_until{};
    TimePoint used{};
    // Establishing is in progress, for the handshake or for others, and its waiters.
    bool busy[2] = {false, false};
    std::vector<Completion<bool>*> waiting[2];
  };
  Entry& entry(uint32_t user);
  void note(uint32_t user, Entry& entry, const Made& made, bool handshake);
  void show(Holder holder);
  void hide(uint32_t user);

  rpc::RpcTransport& transport_;
  const std::shared_ptr<TokenSource> tokens_;
  const ContextsOptions options_;
  std::map<uint32_t, Entry> entries_;
  mutable Mutex shown_mutex_;
  std::map<uint32_t, Holder> shown_ NFSRDMA_GUARDED_BY(shown_mutex_);
};

}  // namespace nfsrdma::security
