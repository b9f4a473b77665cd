// SPDX-License-Identifier: Apache-2.0
// ReceiveQueue: the Receives of one endpoint. More are posted than the peer may send without a grant from us
// (kSpare: those of which the messages are being looked at), and they are posted again, together, before
// anything is answered that would let the peer send more.
#pragma once

#include <cstdint>

#include "transport/fabric/verbs/message_memory.h"

namespace nfsrdma::fabric::verbs {

class ReceiveQueue {
 public:
  static constexpr unsigned kSpare = 16;
  // Work request numbers of Receives have this bit.
  static constexpr uint64_t kMark = uint64_t{1} << 63;

  static Result<ReceiveQueue> make(Domain& domain, unsigned receives, size_t bytes);

  unsigned depth() const { return memory_.pieces(); }
  // How many have been posted and not come back.
  unsigned posted() const { return posted_; }

  // A completion: its message, until give_back().
  ConstBytes take(const ibv_wc& completion);
  void give_back(const ibv_wc& completion);
  // All that are not posted: at first every one, then what was given back; 0, or an errno.
  int post_again(ibv_qp* qp);

 private:
  MessageMemory memory_;
  std::vector<unsigned> idle_;
  std::vector<ibv_recv_wr> requests_;
  std::vector<ibv_sge> sges_;
  unsigned posted_ = 0;
};

}  // namespace nfsrdma::fabric::verbs
