// SPDX-License-Identifier: Apache-2.0
// ReceiveQueue: the Receives of one endpoint. In addition to the messages that the peer may send without a
// new grant, kSpare more are posted, for messages that are being processed. Receives are posted again, all
// together, before any reply is sent that lets the peer send more.
#pragma once

#include <cstdint>

#include "transport/fabric/verbs/message_memory.h"

namespace nfsrdma::fabric::verbs {

class ReceiveQueue {
 public:
  static constexpr unsigned kSpare = 16;
  // Work request IDs of Receives have this bit.
  static constexpr uint64_t kMark = uint64_t{1} << 63;

  static Result<ReceiveQueue> make(Domain& domain, unsigned receives, size_t bytes);

  unsigned depth() const { return memory_.pieces(); }
  // Receives that are posted and have not completed.
  unsigned posted() const { return posted_; }

  // The message of a completion, valid until give_back().
  ConstBytes take(const ibv_wc& completion);
  void give_back(const ibv_wc& completion);
  // Posts all Receives that are not posted: at first every one, then those that were given back. Returns 0 or
  // an errno.
  int post_again(ibv_qp* qp);

 private:
  MessageMemory memory_;
  std::vector<unsigned> idle_;
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> sges_;
  unsigned posted_ = 0;
};

}  // namespace nfsrdma::fabric::verbs
