// SPDX-License-Identifier: Apache-2.0
// QueuePair: what carries one connection: a queue pair on its identifier, its completion queue, its Receives
// and the memory its Sends leave from. Made before connecting, so that nothing that arrives finds no Receive.
#pragma once

#include "transport/fabric/verbs/cm_id.h"
#include "transport/fabric/verbs/completion_queue.h"
#include "transport/fabric/verbs/options.h"
#include "transport/fabric/verbs/receive_queue.h"

namespace nfsrdma::fabric::verbs {

class QueuePair {
 public:
  // How many Sends may be on their way: more wait, as copies.
  static constexpr unsigned kSends = 32;

  // `id` has a device. Errors: kTransport; ENOMEM names RLIMIT_MEMLOCK.
  static Result<std::unique_ptr<QueuePair>> make(Loop& loop, std::unique_ptr<CmId> id,
                                                 std::shared_ptr<Domain> domain, const Options& options,
                                                 size_t receive_bytes, unsigned receives);
  ~QueuePair() { destroy(); }

  CmId& id() { return *id_; }
  Domain& domain() { return *domain_; }
  ibv_qp* get() { return id_->get()->qp; }
  CompletionQueue& completions() { return *completions_; }
  ReceiveQueue& receives() { return receives_; }
  MessageMemory& sends() { return sends_; }
  unsigned send_depth() const { return send_depth_; }

  // Whether it takes work requests and carries them out, by what the device says.
  bool stands();
  // "rxe0 port 1, MTU 4096".
  std::string describe();
  // How the peer will see it end, and all work requests be flushed. Asynchronous: the completions follow.
  void disconnect();
  // No work request is in use any more, nor does any completion come. Exposures are fenced before it.
  void destroy();

 private:
  QueuePair() = default;
  Result<> create_qp(unsigned receives);

  std::unique_ptr<CmId> id_;  // goes last: librdmacm may close the device with its last identifier
  std::shared_ptr<Domain> domain_;
  MessageMemory sends_;
  ReceiveQueue receives_;
  std::shared_ptr<CompletionQueue> completions_;
  unsigned send_depth_ = 0;
  bool destroyed_ = false;
};

}  // namespace nfsrdma::fabric::verbs
