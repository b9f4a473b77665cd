// SPDX-License-Identifier: Apache-2.0
// Request: one COMPOUND that a session is to run. What it refers to lives in its caller's frame until the
// request is answered.
#pragma once

#include <type_traits>

#include "client/api/filesystem.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/compound.h"

namespace nfsrdma::client::nfs4 {

// Writes the operations of a request after its SEQUENCE. Called again for each attempt to send the request.
class BuildRef {
 public:
  template <class F>
  requires(!std::is_same_v<F, BuildRef>)  // else it would refer to the BuildRef that is copied
      BuildRef(F& f)
      : object_(&f), call_([](void* o, CompoundBuilder& b) { (*static_cast<F*>(o))(b); }) {}  // NOLINT
  void operator()(CompoundBuilder& b) const { call_(object_, b); }

 private:
  void* object_;
  void (*call_)(void*, CompoundBuilder&);
};

struct Request {
  nfs4::nfs_opnum4 op;  // what the COMPOUND is for: name and statistics
  rpc::CredentialPtr credential;
  bool cache_this = false;  // not idempotent: the server is to keep the reply (sa_cachethis)
  BuildRef build;           // refers to a callable in the caller's frame
  Slice sink{};             // READ's destination, as given to expect_read()
  // A cancelled request is not sent any more (EINTR). Exception: an OPEN that the server may have executed is
  // sent again, because otherwise nobody would close the file. Points into the caller's frame; null: never
  // cancelled.
  const Cancellation* cancellation = nullptr;
};

// A request that changes something for an application: the server is to keep the reply, and the application
// may cancel the request. `build` and the context outlive the request.
template <class F>
Request change_request(nfs4::nfs_opnum4 op, const RequestContext& ctx, F& build) {
  return {.op = op,
          .credential = ctx.credential,
          .cache_this = true,
          .build = build,
          .cancellation = ctx.cancellation.get()};
}

// Runs COMPOUNDs during recovery of the session, over loop 0's connection and before all other requests.
// Several run at a time, each in its own slot; further ones wait for a slot. Loop 0.
class RecoveryChannel {
 public:
  virtual ~RecoveryChannel() = default;
  // kReconnect: the connection or the new session was lost, and recovery starts over. kInterrupted: the
  // session is being stopped. Everything else is the server's answer.
  virtual Task<Result<CompoundReply>> run(Request request) = 0;
};

}  // namespace nfsrdma::client::nfs4
