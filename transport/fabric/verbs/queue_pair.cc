// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/queue_pair.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {
Result<std::unique_ptr<QueuePair>> QueuePair::make(Loop& loop, std::unique_ptr<CmId> id,
                                                   std::shared_ptr<Domain> domain, const Options& options,
                                                   size_t receive_bytes, unsigned receives) {
  std::unique_ptr<QueuePair> q(new QueuePair());
  q->id_ = std::move(id);
  q->domain_ = std::move(domain);
  const Abilities& can = q->domain_->abilities();
  q->send_depth_ = std::min(options.send_depth, can.work_requests);
  Result<ReceiveQueue> received = ReceiveQueue::make(*q->domain_, receives, receive_bytes);
  if (!received) return fail(std::move(received).error());
  q->receives_ = std::move(*received);
  Result<MessageMemory> sends = MessageMemory::make(*q->domain_, kSends, receive_bytes);
  if (!sends) return fail(std::move(sends).error());
  q->sends_ = std::move(*sends);
  // All requests may be flushed at once. If a device's completion queue is too short for them, the send queue
  // gets shorter.
  const unsigned depth = q->receives_.depth();
  if (can.completions > depth) q->send_depth_ = std::min(q->send_depth_, can.completions - depth);
  const unsigned completions = q->send_depth_ + depth;
  auto queue = CompletionQueue::make(loop, q->domain_->context(), completions, options.poll);
  if (!queue) return fail(std::move(queue).error());
  q->completions_ = std::move(*queue);
  NFSRDMA_TRY(q->create_qp(depth));
  return q;
}

Result<> QueuePair::create_qp(unsigned receives) {
  ibv_qp_init_attr a{};
  a.send_cq = a.recv_cq = completions_->get();
  a.qp_type = IBV_QPT_RC;
  a.cap.max_send_wr = send_depth_;
  a.cap.max_recv_wr = receives;
  a.cap.max_send_sge = a.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_->get(), domain_->pd(), &a) != 0)
    return fail(rdma_error(errno, "connect", fmt::format("{}: queue pair", domain_->name())));
  if (const int errnum = receives_.post_again(get()))
    return fail(rdma_error(errnum, "connect", fmt::format("{}: receives", domain_->name())));
  return {};
}

bool QueuePair::stands() {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr ignored{};
  return ibv_query_qp(get(), &attributes, IBV_QP_STATE, &ignored) == 0 && attributes.qp_state == IBV_QPS_RTS;
}

std::string QueuePair::describe() {
  std::string text = fmt::format("{} port {}", domain_->name(), id_->get()->port_num);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr ignored{};
  if (domain_->abilities().iwarp || ibv_query_qp(get(), &attributes, IBV_QP_PATH_MTU, &ignored) != 0)
    return text;
  return fmt::format("{}, MTU {}", text, mtu_bytes(attributes.path_mtu));
}

void QueuePair::disconnect() {
  if (destroyed_ || get() == nullptr) return;
  (void)rdma_disconnect(id_->get());
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(get(), &error, IBV_QP_STATE);  // if disconnecting does not do it at once
}

void QueuePair::destroy() {
  if (std::exchange(destroyed_, true)) return;
  if (get() != nullptr) rdma_destroy_qp(id_->get());
  if (completions_) completions_->close();
}

}  // namespace nfsrdma::fabric::verbs
