// SPDX-License-Identifier: Apache-2.0
// ServerIdentity: what the server said of itself (EXCHANGE_ID, CREATE_SESSION), for other loops and for
// statistics. Any thread; one short lock, a leaf.
#pragma once

#include <string>

#include "client/api/statistics.h"
#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/client_ops.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

class ServerIdentity {
 public:
  // Returns whether the server scope is the one noted before.
  bool note(const nfs4::EXCHANGE_ID4resok& ok);
  void set_session(const nfs4::sessionid4& session);
  nfs4::sessionid4 session() const;
  void fill(SessionStatistics& statistics) const;

 private:
  mutable Mutex mutex_;
  std::string owner_ NFSRDMA_GUARDED_BY(mutex_), scope_ NFSRDMA_GUARDED_BY(mutex_),
      implementation_ NFSRDMA_GUARDED_BY(mutex_);
  nfs4::sessionid4 session_ NFSRDMA_GUARDED_BY(mutex_){};
};

}  // namespace nfsrdma::client::nfs4
