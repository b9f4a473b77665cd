// SPDX-License-Identifier: Apache-2.0
// GssPeer: the client's end of one RPCSEC_GSS context, for tests of the server's. It shares no code with
// client/ or transport/security but the GSS wrapper.
//
// A test may change every part of a call before it is encoded. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "transport/security/gss/establishment.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpcsec_gss.h"

namespace nfsrdma::filer::test {

struct GssCall {
  uint32_t xid = 1;
  uint32_t prog = nfs4::NFS4_PROGRAM;
  uint32_t vers = nfs4::NFS_V4;
  uint32_t proc = nfs4::NFSPROC4_NULL;
  rpc::rpc_gss_cred_t cred{};
  uint32_t body_sequence = 0;  // in front of the arguments; a correct call has cred.v1.seq_num
  ByteVector arguments{};
};

class GssPeer {
 public:
  // Sends a call and returns its reply; nullopt: there was none.
  using Exchange = std::function<std::optional<ByteVector>(ByteVector call)>;

  GssPeer(std::shared_ptr<const gss::Credential> user, std::shared_ptr<const gss::Name> server,
          rpc::rpc_gss_service_t protect = rpc::rpc_gss_svc_none)
      : service(protect), initiator_(std::move(user), std::move(server)) {}

  // INIT, and CONTINUE_INIT while it is asked for. Checks the verifier of the last reply.
  bool establish(const Exchange& exchange);
  // The INIT call and the two halves of establish(), for tests that send something else. Each takes a new
  // token: call it once. Without a valid ticket it throws, as Realm does.
  ByteVector init_call(uint32_t xid = 1);
  static ByteVector init_call(ConstBytes token, uint32_t xid = 1);
  bool take_init_reply(ConstBytes reply);

  // A data call with the next sequence number.
  GssCall data(uint32_t proc = nfs4::NFSPROC4_NULL, ByteVector arguments = {});
  GssCall destroy();
  // Signs the header, and protects the arguments by the service in the credential.
  ByteVector encode(const GssCall& call) const;

  // Verifies a reply to `call`. The result is the reply as AUTH_NONE would have it: a header with an empty
  // verifier, and the results. nullopt: it does not verify.
  std::optional<ByteVector> open(const GssCall& call, ByteVector reply) const;

  rpc::rpc_gss_service_t service;
  ByteVector handle{};
  uint32_t seq_window = 0;
  uint32_t sequence = 0;  // of the last call
  std::optional<gss::Context> context{};

 private:
  gss::Initiator initiator_;
  uint32_t next_xid_ = 100;
};

// The auth_stat of a denied reply; AUTH_OK: it is not one.
rpc::auth_stat denied_by(ConstBytes reply);
// The accept_stat of a reply; nullopt: it is none, or denied.
std::optional<rpc::accept_stat> accepted_as(ConstBytes reply);
// The results of an INIT or CONTINUE_INIT; nullopt: the reply has none. Views into `reply`.
std::optional<rpc::rpc_gss_init_res> init_results(ConstBytes reply);

}  // namespace nfsrdma::filer::test
