// SPDX-License-Identifier: Apache-2.0
// FaultPlan: a test's rules for injecting faults. A rule's trigger selects the n-th event of a kind; its
// action says what goes wrong.
//
//     // RENAME is executed, its reply is lost, and the connection is gone:
//     server.faults().add(on::reply_to(OP_RENAME), fault::Cut{});
//     server.faults().add(on::request_with(OP_OPEN).nth(2), fault::Answer{OP_OPEN, NFS4ERR_DELAY});
//     auto id = server.faults().add(on::request_with(OP_WRITE), fault::Stall{});
//     ...  // wait_fired(id), then release(id)
//
// A rule counts events from the moment it is added. Rules are independent. When several fire on one event,
// their actions are carried out in the order in which the rules were added, until an action ends the message.
// All functions may be called from any thread. A test's own functions run on the server's loop and without
// the server's lock: `Call`, `Mangle` and `when`. `when` runs under the plan's own mutex and must not call
// the plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "filer/links/link.h"
#include "filer/nfs/options.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::filer {

// What happened. `ops` are the COMPOUND's operations; empty for other calls, for kAccept and for kHeader.
struct FaultEvent {
  // kHeader: a call's RPC-over-RDMA header was received; the rest of the message has not been looked at.
  enum class Kind : uint8_t { kAccept, kHeader, kRequest, kReply };
  Kind kind = Kind::kRequest;
  links::LinkId link = 0;
  rpc::Xid xid{};
  std::vector<nfs4::nfs_opnum4> ops;

  bool has(nfs4::nfs_opnum4 op) const {
    for (const nfs4::nfs_opnum4 o : ops) {
      if (o == op) return true;
    }
    return false;
  }
};

struct Trigger {
  FaultEvent::Kind kind = FaultEvent::Kind::kRequest;
  std::optional<nfs4::nfs_opnum4> op;
  unsigned first = 1;  // fires at the `first`-th matching event, ...
  unsigned count = 1;  // ...`count` times in all, ...
  unsigned every = 1;  // ...at every `every`-th matching event from there on
  std::optional<links::LinkId> only_link;
  std::function<bool(const FaultEvent&)> when;

  Trigger nth(unsigned n) const { return with(&Trigger::first, n); }
  Trigger times(unsigned n) const { return with(&Trigger::count, n); }
  Trigger every_nth(unsigned n) const { return with(&Trigger::every, n); }
  Trigger always() const { return with(&Trigger::count, UINT32_MAX); }
  Trigger link(links::LinkId id) const { return with(&Trigger::only_link, std::optional(id)); }
  Trigger if_(std::function<bool(const FaultEvent&)> predicate) const {
    return with(&Trigger::when, std::move(predicate));
  }

 private:
  template <class T>
  Trigger with(T Trigger::*member, T value) const {
    Trigger changed = *this;
    changed.*member = std::move(value);
    return changed;
  }
};

namespace on {
inline Trigger accept() {
  return {FaultEvent::Kind::kAccept, {}, 1, 1, 1, {}, {}};
}
inline Trigger header() {
  return {FaultEvent::Kind::kHeader, {}, 1, 1, 1, {}, {}};
}
inline Trigger any_request() {
  return {FaultEvent::Kind::kRequest, {}, 1, 1, 1, {}, {}};
}
inline Trigger any_reply() {
  return {FaultEvent::Kind::kReply, {}, 1, 1, 1, {}, {}};
}
inline Trigger request_with(nfs4::nfs_opnum4 op) {
  return {FaultEvent::Kind::kRequest, op, 1, 1, 1, {}, {}};
}
inline Trigger reply_to(nfs4::nfs_opnum4 op) {
  return {FaultEvent::Kind::kReply, op, 1, 1, 1, {}, {}};
}
}  // namespace on

// The actions. Each comment says what the action does to a request (before it is executed) and to a reply
// (after execution). Where a comment does not name an event, the action does nothing to it. To a header only
// Cut, RefuseHeader and Call apply.
namespace fault {

// The connection ends. Request: not executed. Reply: executed, reply lost. Accept: at once.
struct Cut {
  bool abort = false;  // with a TCP reset
};
struct Drop {};  // request: never executed; reply: never sent. The connection stays.
// Request: executed later. Reply: sent later.
struct Delay {
  std::chrono::milliseconds by{0};
};
struct Stall {};  // as Delay, until release()
// Request: SEQUENCE is executed at once, the rest after release(). Retries meanwhile get NFS4ERR_DELAY.
struct StallInProgress {};
// Request: `op` is answered with `status` and not executed. For SEQUENCE the slot's sequence ID does not
// change.
struct Answer {
  nfs4::nfs_opnum4 op = nfs4::OP_SEQUENCE;
  nfs4::nfsstat4 status = nfs4::NFS4ERR_DELAY;
};
// Request: not executed; the RPC layer refuses it (MSG_DENIED, or accepted with an error). The XID of
// `header` is filled in.
struct RefuseRpc {
  rpc::reply_header header;
};
// Reply: `edit` may change the message, from the XID to the end. If it leaves the message empty, nothing is
// sent.
struct Mangle {
  std::function<void(ByteVector&)> edit;
};
// Reply: more messages are sent before and after it. Accept: `before` is sent.
struct Extra {
  std::vector<ByteVector> before;
  std::vector<ByteVector> after;
  bool raw = false;  // sent without record marks or RPC-over-RDMA headers
};
// Reply: sent `copies` more times.
struct Duplicate {
  unsigned copies = 1;
};
// Reply: sent after `replies` later replies of its connection, that is out of order.
struct HoldBehind {
  unsigned replies = 1;
};
// The server restarts. Request: before it is executed; the request is lost. Reply: after execution, without a
// reply.
struct Restart {
  bool forget_reclaims = false;
};
// The lease of the client of the last SEQUENCE on this connection expires. Request: before execution. Reply:
// after.
struct ExpireLease {};
// Header: the call is answered with this RDMA_ERROR and not executed. Version 1 has only ERR_VERS and
// ERR_CHUNK, so any other error is sent as ERR_CHUNK there.
struct RefuseHeader {
  rpcrdma::error error;
};
// Credits granted on this RPC-over-RDMA connection from the next reply on.
struct Credits {
  uint32_t granted = 1;
};
// For all sessions: `target` is how many slots the server wants the client to use, so
// sr_target_highest_slotid becomes `target` - 1. It is limited to the session's slots. The server enforces a
// lower target once the client has received it and sends an sa_highest_slotid that is not above it.
struct Slots {
  uint32_t target = 1;
};
// Recalls every delegation.
struct Recall {};
// Revokes every delegation, as if its client had not returned it in time.
struct Revoke {};
// How the server reports change attributes from now on.
struct TellChange {
  tree::ChangeTold told = tree::ChangeTold::kTrue;
};
// Runs any function; the message continues when it returns.
struct Call {
  std::function<void()> function;
};

// Common edits for Mangle.
Mangle truncate_to(size_t bytes);
Mangle extend_by(size_t bytes);
Mangle flip(size_t offset, std::byte mask);
Mangle wrong_xid();
Mangle as_call();  // msg_type is CALL
// `n` NULL calls of an unknown program; no real server sends such calls.
Extra call_flood(unsigned n);
// A record mark that announces more bytes than any message may have, with nothing after it.
Extra oversized_record(uint32_t claimed_bytes);
Extra garbage(size_t bytes);

}  // namespace fault

using FaultAction =
    std::variant<fault::Cut, fault::Drop, fault::Delay, fault::Stall, fault::StallInProgress, fault::Answer,
                 fault::RefuseRpc, fault::Mangle, fault::Extra, fault::Duplicate, fault::HoldBehind,
                 fault::Restart, fault::ExpireLease, fault::RefuseHeader, fault::Credits, fault::Slots,
                 fault::Recall, fault::Revoke, fault::TellChange, fault::Call>;

class FaultPlan {
 public:
  using RuleId = uint64_t;

  struct Fired {
    RuleId rule = 0;
    FaultAction action;
  };

  // For tests.
  RuleId add(Trigger trigger, FaultAction action);
  void remove(RuleId rule);
  void clear();  // removes all rules; calls that are parked stay parked
  unsigned fired(RuleId rule) const;
  // Returns false if the rule did not fire `times` times before the timeout.
  bool wait_fired(RuleId rule, unsigned times = 1,
                  std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // Continues the calls that the rule has parked; the rule parks none from now on.
  void release(RuleId rule);
  void release_all();

  // For the server.
  bool armed() const;
  std::vector<Fired> match(const FaultEvent& event);
  // Keeps `go_on` until the rule is released. Returns false, and keeps nothing, if it was released already.
  bool park(RuleId rule, std::function<void()> go_on);
  // How a released call gets back to the loop. Set once, before the server starts.
  void set_post(std::function<void(std::function<void()>)> post) {
    MutexLock lock(mutex_);
    post_ = std::move(post);
  }

 private:
  struct Rule {
    Trigger trigger;
    FaultAction action;
    unsigned seen = 0;
    unsigned fired = 0;
    bool active = true;
    bool released = false;
    std::vector<std::function<void()>> parked;
  };
  void release_locked(Rule& rule) NFSRDMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;
  std::map<RuleId, Rule> rules_ NFSRDMA_GUARDED_BY(mutex_);
  RuleId next_ NFSRDMA_GUARDED_BY(mutex_) = 1;
  std::function<void(std::function<void()>)> post_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::filer
