// SPDX-License-Identifier: Apache-2.0
// RequestSender: sends one COMPOUND over one of the session's connections, decodes its reply and counts it.
// The Session decides what the reply means for the slot and the session. Owned by the Session; any loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/core/operation_counters.h"
#include "client/nfs4/session/call_securities.h"
#include "client/nfs4/session/connections.h"
#include "client/nfs4/session/lease.h"
#include "client/nfs4/session/request.h"
#include "client/nfs4/session/stop_flag.h"

namespace nfsrdma::client::nfs4 {

// Whether a call is sent before others that wait (rpc::Call).
enum class Precedence : uint8_t { kNone, kHandshake, kRenewal };

// What is measured of a request. It may be sent several times.
struct CallSize {
  TimePoint queued = Clock::now();
  unsigned transmissions = 0;
  size_t sent = 0, received = 0;  // bytes
  uint32_t place = 0;             // of the operation that the COMPOUND is for
};

class RequestSender {
 public:
  // `security`: null for sec=sys.
  RequestSender(Connections& connections, std::unique_ptr<CallSecurities> security, Lease& lease,
                rpc::CredentialPtr machine, const StopFlag& stopping)
      : connections_(connections),
        security_(std::move(security)),
        lease_(lease),
        machine_(std::move(machine)),
        stopping_(stopping) {}

  // The mount uses RPCSEC_GSS: a request needs a context before it takes a slot (secure()).
  bool secured() const { return security_ != nullptr; }
  // For status. Call it only if secured(). Any thread.
  std::vector<ContextStatistics> contexts() const { return security_->statistics(); }
  // Makes the user's context over that transport if there is none. Call it only if secured().
  Task<Result<>> secure(unsigned transport, rpc::CredentialPtr who);
  // Loop 0. Ends contexts when no request follows.
  Task<> end_security();

  // Sends the request in that slot over that transport, once. The references point into the frame of the
  // caller, which awaits the reply. With RPCSEC_GSS "once" means until the server knows the context: it does
  // not execute what it refuses for its context. `security`: for attempt_secured() alone.
  Task<Result<CompoundReply>> attempt(unsigned transport, const Request& request, const SlotTicket& ticket,
                                      Precedence precedence, CallSize& size,
                                      std::shared_ptr<rpc::CallSecurity> security = nullptr);
  // Runs one operation in its own COMPOUND without SEQUENCE, as part of a handshake. Retries after DELAY.
  Task<Result<CompoundReply>> run_alone(unsigned transport, nfs4::nfs_opnum4 op, BuildRef build);

  OperationCounters& counters() { return counters_; }

 private:
  Task<Result<CompoundReply>> attempt_secured(unsigned transport, const Request& request,
                                              const SlotTicket& ticket, Precedence precedence,
                                              CallSize& size);
  static void trace(const char* op, const std::string& operations, const Result<CompoundReply>& reply,
                    TimePoint sent);
  // Counts every COMPOUND that was answered, DELAY and GRACE included.
  void count(nfs4::nfs_opnum4 op, const CallSize& size, TimePoint sent, const Result<CompoundReply>& reply);

  Connections& connections_;
  const std::unique_ptr<CallSecurities> security_;
  Lease& lease_;
  const rpc::CredentialPtr machine_;
  const StopFlag& stopping_;
  OperationCounters counters_;
};

}  // namespace nfsrdma::client::nfs4
