// SPDX-License-Identifier: Apache-2.0
// DueReplies: tells the record reader (ReplyDirectory) which replies may arrive on a TCP connection, and
// which of them have a bulk item to be received in place. A reply is due when its call has been sent
// completely.
//
// Owner: one connection, which also destroys it. On a TCP connection only this class uses PendingCall::mark.
// Loop thread only.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "transport/rpc/pending_calls.h"
#include "transport/tcp/record_reader.h"

namespace nfsrdma::tcp {

using rpc::PendingCall;
using rpc::PendingCalls;

class DueReplies final : public ReplyDirectory {
 public:
  // Items for sinks of at least `direct_min_bytes` are received in place.
  DueReplies(PendingCalls& calls, size_t direct_min_bytes)
      : calls_(calls), direct_min_bytes_(direct_min_bytes) {}

  // Every byte of the call has been sent.
  void sent(PendingCall& p);
  // The call is about to end without a reply.
  void forget(PendingCall& p) { count_in_place(p, false); }
  // A late reply to this XID may come; it is ignored.
  void abandon(uint32_t xid) { abandoned_.insert(xid); }
  size_t abandoned() const { return abandoned_.size(); }

  Expected expect(uint32_t xid) override;
  size_t prefix_hint() const override { return due_in_place_ == 0 ? 0 : prefix_hint_; }

 private:
  void count_in_place(PendingCall& p, bool due);

  PendingCalls& calls_;
  const size_t direct_min_bytes_;
  size_t due_in_place_ = 0;
  size_t prefix_hint_ = 0;
  std::unordered_set<uint32_t> abandoned_;
};

}  // namespace nfsrdma::tcp
