// SPDX-License-Identifier: Apache-2.0
// GssServer: a transport whose server is in the same process: it accepts contexts with gss::Acceptor and
// answers protected calls by echoing their arguments. It follows RFC 2203 section 5 step by step, and shares
// no code with the client's half.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/rpc/call_security.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/security/gss/context.h"
#include "transport/security/gss/credential.h"
#include "transport/security/gss/establishment.h"
#include "xdr/rpc.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::test {

class GssServer final : public rpc::RpcTransport {
 public:
  GssServer(Loop& loop, std::shared_ptr<const gss::Credential> acceptor)
      : loop_(loop), acceptor_(std::move(acceptor)) {}

  // What it saw, and how it misbehaves.
  std::vector<uint32_t> sequences;              // of data calls
  std::vector<rpc::rpc_gss_proc_t> procedures;  // of all calls
  std::function<void(ByteVector& call)> on_the_way_there;
  std::function<void(ByteVector& reply)> on_the_way_back;
  uint32_t window = 128;
  bool signs_window = true;
  bool refuses_init = false;
  bool wraps_destroy = true;
  ByteVector last_arguments;
  size_t contexts() const { return contexts_.size(); }
  void forget_contexts() { contexts_.clear(); }

  Loop& loop() override { return loop_; }
  Task<Result<>> start() override { co_return Result<>{}; }
  Task<rpc::Outcome> call(rpc::Call& call) override;
  void fail_pending(const Error&) override {}
  void reconnect(const char*) override {}
  Task<> close() override { co_return; }
  rpc::TransportStatus status() const override { return {}; }
  uint32_t credits() const override { return kNoCredits; }

 private:
  ByteVector serve(ConstBytes message);
  ByteVector serve_init(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                        ConstBytes arguments);
  ByteVector serve_data(const rpc::call_header& header, const rpc::rpc_gss_cred_vers_1_t& cred,
                        ConstBytes covered, ConstBytes arguments);

  Loop& loop_;
  const std::shared_ptr<const gss::Credential> acceptor_;
  std::map<std::string, gss::Context> contexts_;
  uint32_t next_handle_ = 1;
  uint32_t next_xid_ = 100;
};

}  // namespace nfsrdma::test
