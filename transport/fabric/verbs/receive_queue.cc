// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/receive_queue.h"

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {

Result<ReceiveQueue> ReceiveQueue::make(Domain& domain, unsigned receives, size_t bytes) {
  Result<MessageMemory> memory = MessageMemory::make(domain, receives + kSpare, bytes);
  if (!memory) return fail(std::move(memory).error());
  ReceiveQueue queue;
  queue.memory_ = std::move(*memory);
  queue.requests_.resize(queue.depth());
  queue.sges_.resize(queue.depth());
  for (unsigned i = queue.depth(); i-- > 0;) queue.idle_.push_back(i);
  return queue;
}

ConstBytes ReceiveQueue::take(const ibv_wc& completion) {
  --posted_;
  const auto index = static_cast<unsigned>(completion.wr_id & ~kMark);
  if (completion.status != IBV_WC_SUCCESS) return {};
  return ConstBytes(memory_.piece(index)).first(completion.byte_len);
}

void ReceiveQueue::give_back(const ibv_wc& completion) {
  idle_.push_back(static_cast<unsigned>(completion.wr_id & ~kMark));
}

int ReceiveQueue::post_again(ibv_qp* qp) {
  if (idle_.empty()) return 0;
  for (size_t i = 0; i < idle_.size(); ++i) {
    sges_[i] = memory_.sge(idle_[i], memory_.piece_bytes());
    requests_[i] = {kMark | idle_[i], i + 1 < idle_.size() ? &requests_[i + 1] : nullptr, &sges_[i], 1};
  }
  ibv_recv_wr* bad = nullptr;
  if (const int result = ibv_post_recv(qp, requests_.data(), &bad)) return errno_from_provider(result);
  posted_ += static_cast<unsigned>(idle_.size());
  idle_.clear();
  return 0;
}

}  // namespace nfsrdma::fabric::verbs
