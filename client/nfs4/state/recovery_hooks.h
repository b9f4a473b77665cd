// SPDX-License-Identifier: Apache-2.0
// RecoveryHooks: what recovery of state calls in the rest of the client. Any loop.
#pragma once

#include "client/api/node.h"
#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"

namespace nfsrdma::client::nfs4 {

class RecoveryHooks {
 public:
  virtual ~RecoveryHooks() = default;
  // The server lost data that was UNSTABLE there: send it again. The file is in StateRegistry::files().
  virtual Task<> resend_writes(NodeRef node) = 0;
  // Locks of the file are lost: no application may continue to read the kernel's pages under them.
  virtual void locks_lost(NodeRef node) = 0;
  // The file's delegation was revoked: what the kernel caches of the file may be out of date.
  virtual void delegation_ended(NodeRef node) = 0;
  // The delegation must be returned: a restarted server granted it again with `recall` set, or the server has
  // no back channel to recall it.
  virtual void recalled(DelegationRef delegation) = 0;
};

}  // namespace nfsrdma::client::nfs4
