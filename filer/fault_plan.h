// SPDX-License-Identifier: Apache-2.0
// FaultPlan: what goes wrong, when. The n-th event of a kind triggers an action; tests say both.
//
//     server.faults().add(on::reply_to(OP_RENAME), fault::Cut{});             // executed, reply lost,
//     connection gone server.faults().add(on::request_with(OP_OPEN).nth(2), fault::Answer{OP_OPEN,
//     NFS4ERR_DELAY}); auto id = server.faults().add(on::request_with(OP_WRITE), fault::Stall{});
//     ...                                                                     // wait_fired(id), then
//     release(id)
//
// Events are counted from the moment a rule is added. Rules are independent; when several fire on one event,
// their actions are carried out in the order the rules were added, until one ends the message. Everything may
// be called from any thread; functions of a test (Call, Mangle, when) run on the server's loop: Call without
// the server's lock, the others with it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "filer/net/link.h"
#include "filer/options.h"
#include "xdr/nfs4/compound.h"
#include "xdr/rpc.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::filer {

// What happened. `ops` are those of the COMPOUND; empty for other calls, for kAccept and kHeader.
struct FaultEvent {
  // kHeader: a call's RPC-over-RDMA header has come; nothing behind it has been looked at yet.
  enum class Kind : uint8_t { kAccept, kHeader, kRequest, kReply };
  Kind kind = Kind::kRequest;
  LinkId link = 0;
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
  unsigned first = 1;  // fires at the first-th match...
  unsigned count = 1;  // ...and on the following, so often in all
  unsigned every = 1;  // ...or on every so many-th of them
  std::optional<LinkId> only_link;
  std::function<bool(const FaultEvent&)> when;

  Trigger nth(unsigned n) const { return with(&Trigger::first, n); }
  Trigger times(unsigned n) const { return with(&Trigger::count, n); }
  Trigger every_nth(unsigned n) const { return with(&Trigger::every, n); }
  Trigger always() const { return with(&Trigger::count, UINT32_MAX); }
  Trigger link(LinkId id) const { return with(&Trigger::only_link, std::optional(id)); }
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

// A header can be cut, refused, and called for. Each says what it means for a request (before it is executed)
// and for a reply (after). What is not said does nothing.
namespace fault {

struct Cut {  // the connection ends. Request: not executed. Reply: executed, not answered. Accept: at once.
  bool abort = false;  // with a TCP reset
};
struct Drop {};  // request: never executed; reply: never sent. The connection stays.
struct Delay {   // request: executed later; reply: sent later
  std::chrono::milliseconds by{0};
};
struct Stall {};  // as Delay, until release()
struct StallInProgress {
};               // request: SEQUENCE is executed, the rest not until release(); retries see NFS4ERR_DELAY
struct Answer {  // request: `op` is not executed but answered so. On SEQUENCE the slot does not move.
  nfs4::nfs_opnum4 op = nfs4::OP_SEQUENCE;
  nfs4::nfsstat4 status = nfs4::NFS4ERR_DELAY;
};
struct RefuseRpc {  // request: not executed, refused by the RPC layer (rejected, or accepted and failed); xid
                    // is set
  rpc::reply_header header;
};
struct Mangle {  // reply: the message, from XID to the end, may be changed in any way; empty: nothing is sent
  std::function<void(ByteVector&)> edit;
};
struct Extra {  // reply: more messages before and after it
  std::vector<ByteVector> before;
  std::vector<ByteVector> after;
  bool raw = false;  // without framing
};
struct Duplicate {  // reply: sent more than once
  unsigned copies = 1;
};
struct HoldBehind {  // reply: sent after so many other replies of its connection: out of order
  unsigned replies = 1;
};
struct Restart {  // the server restarts. Request: before it is executed, and it is lost; reply: after,
                  // unanswered
  bool forget_reclaims = false;
};
struct ExpireLease {
};                     // of the client of the last SEQUENCE on this connection; request: before, reply: after
struct RefuseHeader {  // header: its call is not looked at but answered with this error; version 1 has only
                       // two
  rpcrdma::error error;
};
struct Credits {  // of an RPC-over-RDMA connection, granted from the next reply on
  uint32_t granted = 1;
};
struct Slots {  // sr_target_highest_slotid of all sessions; enforced when the client follows
  uint32_t target = 1;
};
struct Recall {};    // of every delegation
struct Revoke {};    // of every delegation: as of a client that has not returned it in time
struct TellChange {  // what clients are told of change attributes from now on
  ChangeTold told = ChangeTold::kTrue;
};
struct Call {  // anything; the rest goes on when it returns
  std::function<void()> function;
};

// Common ways to mangle.
Mangle truncate_to(size_t bytes);
Mangle extend_by(size_t bytes);
Mangle flip(size_t offset, std::byte mask);
Mangle wrong_xid();
Mangle as_call();  // the message type says CALL
// `n` NULL calls of an unknown program, as the server would never send.
Extra call_flood(unsigned n);
// A record mark that claims more bytes than any message may have, then silence.
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

  // Tests.
  RuleId add(Trigger trigger, FaultAction action);
  void remove(RuleId rule);
  void clear();  // rules, not what is stalled
  unsigned fired(RuleId rule) const;
  // False when it did not fire in time.
  bool wait_fired(RuleId rule, unsigned times = 1,
                  std::chrono::milliseconds timeout = std::chrono::seconds(30)) const;
  // Lets what the rule has stalled go on, now and from now on.
  void release(RuleId rule);
  void release_all();

  // The server.
  bool armed() const;
  std::vector<Fired> match(const FaultEvent& event);
  // Keeps `go_on` until the rule is released; false if it already is.
  bool park(RuleId rule, std::function<void()> go_on);
  // Where what was released continues; set once, before the server starts.
  void set_post(std::function<void(std::function<void()>)> post) { post_ = std::move(post); }

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
  void release_locked(Rule& rule);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<RuleId, Rule> rules_;
  RuleId next_ = 1;
  std::function<void(std::function<void()>)> post_;
};

}  // namespace nfsrdma::filer
