// SPDX-License-Identifier: Apache-2.0
// Dispatcher: from an RPC message to its reply, with everything the fault plan does to either.
//
// A call goes: request faults, execution, reply faults, out. At each fault it may be parked and go on later,
// on the loop, or end. What a delegation is in the way of waits a while for its holder. The server's lock is
// held during execution only. A parked call whose server has
// restarted meanwhile is forgotten, as the crash would have done. Loop thread only, except where Core is
// locked by others.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "filer/fault_plan.h"
#include "filer/nfs/compound.h"
#include "filer/nfs/core.h"

namespace nfsrdma::filer {

class Dispatcher {
 public:
  struct Environment {
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after;  // on the loop
    std::function<void(bool forget_reclaims)> restart;  // Server::restart, lock not held
    std::function<void(uint32_t)> target_slots;         // likewise
  };

  Dispatcher(Core& core, FaultPlan& faults, Environment environment);
  ~Dispatcher();

  // False: the connection is not wanted.
  bool accepted(const LinkPtr& link);
  // What a call's header is answered with instead of being looked at.
  std::optional<rpcrdma::error> header(const LinkPtr& link, const rpcrdma::header& header);
  void received(const LinkPtr& link, ByteVector message);
  void closed(LinkId link);

 private:
  struct Exchange;
  using ExchangePtr = std::shared_ptr<Exchange>;
  enum class Verdict : uint8_t { kGoOn, kParked, kOver };

  void begin(const LinkPtr& link, ByteVector message);
  void go_on(const ExchangePtr& x);
  bool prepare(Exchange& x);
  void execute(const ExchangePtr& x);
  void answer(Exchange& x, const rpc::reply_header& header);
  void answer(Exchange& x, CompoundRun& run);
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
  void expire_lease(LinkId link);

  struct Held {
    unsigned left = 0;
    std::function<void()> send;
  };

  Core& core_;
  FaultPlan& faults_;
  Environment environment_;
  std::map<LinkId, std::vector<Held>> held_;       // replies that wait for others to overtake them
  std::map<LinkId, nfs4::clientid4> last_client_;  // of the last SEQUENCE on a connection
  // By delegations. Each keeps its message: where there are so many, the next is answered at once.
  static constexpr size_t kMostHeldBack = 256;
  std::vector<ExchangePtr> held_back_;
  uint64_t delegations_moved_ = 0;  // what they have been tried with
};

}  // namespace nfsrdma::filer
