// SPDX-License-Identifier: Apache-2.0
// PendingCalls: the calls that wait for a reply, found by XID and by age.
//
// XIDs are assigned in sequence from a random start, so that a server's duplicate request cache does not
// mistake one mount's calls for another's. The low bits of an XID index the table directly: no hashing, no
// allocation per call. An XID whose place is taken by a long-running call is skipped. Entries live in the
// frames of the call() coroutines; the table points to them. A list through the entries orders them by age:
// in that order they are sent again after a reconnect.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::rpc {

struct PendingCall {
  // The state of the call on the present connection.
  enum class Stage : uint8_t {
    kWaiting,    // the connection does not have it
    kQueued,     // in the connection's send queue, perhaps sent in part
    kSent,       // the kernel has every byte
    kReceiving,  // its reply is being received
  };

  explicit PendingCall(rpc::Call& c) : call(&c) {}
  // No connection has the call, and its caller does not want it to be sent on the next one.
  bool abandoned() const {
    return stage == Stage::kWaiting && call->abandoned != nullptr &&
           call->abandoned->load(std::memory_order_acquire);
  }

  rpc::Call* call;
  uint32_t xid = 0;
  Stage stage = Stage::kWaiting;
  uint32_t mark = 0;  // for the present connection's own use; 0 when it gets the call
  uint64_t end = 0;   // likewise, from kSent on: a byte position for has_moved()
  unsigned transmissions = 0;
  unsigned unverified = 0;  // replies that did not verify
  TimePoint issued{};       // when call() was called
  TimePoint queued{};       // when the present connection got the call; valid unless kWaiting
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

  // Assigns an XID and writes it into the first four bytes of the call's head.
  void add(PendingCall& p, TimePoint now);
  void remove(PendingCall& p);
  // Assigns another XID and keeps the call's age: to the server's RPC layer, what is sent next is a new call.
  void renew_xid(PendingCall& p);
  PendingCall* find(uint32_t xid) const;
  PendingCall* oldest() const { return oldest_; }
  size_t size() const { return size_; }

  void queued(PendingCall& p, TimePoint now);
  // The connection is lost: sets every call back to kWaiting.
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
