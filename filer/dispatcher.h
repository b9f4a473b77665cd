// SPDX-License-Identifier: Apache-2.0
// Dispatcher: takes an RPC message through the server to its reply, and applies the fault plan to both.
//
// A call under RPCSEC_GSS is verified first, without the server's lock. A call passes through request faults,
// execution, protection of the reply (RPCSEC_GSS), reply faults and transmission. A fault can park the call,
// which then continues later on the loop, or end it. A COMPOUND that conflicts with a delegation waits for a
// limited time until the delegation is returned. A parked call is dropped if the server restarted meanwhile,
// as in a crash.
//
// The server's lock (Core::mutex) is held while a call is executed and while its reply is queued for sending.
// All functions run on the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "filer/fault_plan.h"
#include "filer/nfs/compound.h"
#include "filer/nfs/core.h"
#include "filer/security/gss_contexts.h"

namespace nfsrdma::filer {

class Dispatcher {
 public:
  struct Environment {
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after;  // on the loop
    std::function<void(bool forget_reclaims)> restart;  // Server::restart; called without the server's lock
    std::function<void(uint32_t)> target_slots;  // Server::set_target_slots; called without the server's lock
  };

  Dispatcher(nfs::Core& core, FaultPlan& faults, Environment environment);
  ~Dispatcher();

  // From now on RPCSEC_GSS is answered. Before the first connection.
  void accept_contexts(std::unique_ptr<security::GssContexts> contexts) { contexts_ = std::move(contexts); }

  // Returns false if a fault closed the new connection.
  bool accepted(const links::LinkPtr& link);
  // The RDMA_ERROR that a fault sends in place of handling this call; nullopt: handle the call.
  std::optional<rpcrdma::error> header(const links::LinkPtr& link, const rpcrdma::header& header);
  void received(const links::LinkPtr& link, ByteVector message);
  void closed(links::LinkId link);

 private:
  struct Exchange;
  using ExchangePtr = std::shared_ptr<Exchange>;
  enum class Verdict : uint8_t { kGoOn, kParked, kOver };

  void begin(const links::LinkPtr& link, ByteVector message);
  void go_on(const ExchangePtr& x);
  bool prepare(Exchange& x);
  bool believe(Exchange& x, bool known);
  bool verify(Exchange& x);
  void execute(const ExchangePtr& x);
  void answer(Exchange& x, const rpc::reply_header& header);
  void answer(Exchange& x, nfs::CompoundRun& run);
  void begin_reply(const ExchangePtr& x);
  void transmit(Exchange& x);
  bool park(const ExchangePtr& x, FaultPlan::RuleId rule);
  void hold_back(const ExchangePtr& x);
  void let_go_on();
  FaultEvent event_of(const Exchange& x, FaultEvent::Kind kind) const;

  Verdict apply(const ExchangePtr& x, const FaultPlan::Fired& fired);
  Verdict on_request(const ExchangePtr& x, const FaultPlan::Fired& fired);
  Verdict on_reply(const ExchangePtr& x, const FaultPlan::Fired& fired);
  Verdict wait(const ExchangePtr& x, const FaultPlan::Fired& fired);
  bool change_core(const FaultAction& action);
  void expire_lease(links::LinkId link);

  struct Held {
    unsigned left = 0;
    std::function<void()> send;
  };

  nfs::Core& core_;
  FaultPlan& faults_;
  Environment environment_;
  std::unique_ptr<security::GssContexts> contexts_;  // null: no RPCSEC_GSS
  uint64_t contexts_boot_ = 0;                       // the instance of the server that they belong to
  // Replies that wait until later replies of the connection have overtaken them (fault::HoldBehind).
  std::map<links::LinkId, std::vector<Held>> held_;
  std::map<links::LinkId, nfs4::clientid4> last_client_;  // client of the last SEQUENCE on each connection
  // Limit for COMPOUNDs that wait for a delegation, since each keeps its message. Above it the next one gets
  // NFS4ERR_DELAY at once.
  static constexpr size_t kMostHeldBack = 256;
  std::vector<ExchangePtr> held_back_;
  uint64_t delegations_moved_ = 0;  // StateTable::delegations_moved() when held_back_ was last tried
};

}  // namespace nfsrdma::filer
