// SPDX-License-Identifier: Apache-2.0
// PendingCalls: the calls that wait for a reply, by XID and by age.
//
// XIDs are handed out in sequence from a random start (a server's duplicate request cache must not take one
// mount's calls for another's), so the low bits index a table directly: no hashing, no allocation per call,
// and an XID whose place is taken by a long-running call is skipped. Entries live in the frames of the call()
// coroutines; the table points to them. A second thread through them is the list by age, in which they are
// sent again after a reconnect.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::rpc {

struct PendingCall {
  // How far the call has come on the present connection.
  enum class Stage : uint8_t {
    kWaiting,    // not given to it
    kQueued,     // in its send queue, perhaps sent in part
    kSent,       // every byte is with the kernel
    kReceiving,  // its reply is being received
  };

  explicit PendingCall(rpc::Call& c) : call(&c) {}
  // It is with no connection, and nobody wants it to be with the next.
  bool abandoned() const {
    return stage == Stage::kWaiting && call->abandoned != nullptr &&
           call->abandoned->load(std::memory_order_acquire);
  }

  rpc::Call* call;
  uint32_t xid = 0;
  Stage stage = Stage::kWaiting;
  uint32_t mark = 0;  // the present connection's own; 0 when it gets the call
  uint64_t end = 0;   // likewise, once it is kSent: a place in what it counts for has_moved()
  unsigned transmissions = 0;
  TimePoint issued{};  // when call() took it
  TimePoint queued{};  // when the present connection got it; valid unless kWaiting
  PendingCall* older = nullptr;
  PendingCall* newer = nullptr;
  Completion<rpc::Outcome> done;
};

class PendingCalls {
 public:
  explicit PendingCalls(uint32_t first_xid);
  PendingCalls(const PendingCalls&) = delete;
  PendingCalls& operator=(const PendingCalls&) = delete;
  ~PendingCalls();  // must be empty

  // Gives the call its XID and puts it into the first four bytes of its head.
  void add(PendingCall& p, TimePoint now);
  void remove(PendingCall& p);
  // Another XID for a call that stays where it is in age: what is sent next is a new call to the server's RPC
  // layer.
  void renew_xid(PendingCall& p);
  PendingCall* find(uint32_t xid) const;
  PendingCall* oldest() const { return oldest_; }
  size_t size() const { return size_; }

  void queued(PendingCall& p, TimePoint now);
  // The connection is gone: every call is back at kWaiting.
  void connection_lost();

 private:
  PendingCall*& slot(uint32_t xid) { return table_[xid & (table_.size() - 1)]; }
  void give_xid(PendingCall& p);
  void grow();

  uint32_t next_xid_;
  std::vector<PendingCall*> table_;  // size is a power of two, more than twice size_
  size_t size_ = 0;
  PendingCall* oldest_ = nullptr;
  PendingCall* newest_ = nullptr;
};

}  // namespace nfsrdma::rpc
