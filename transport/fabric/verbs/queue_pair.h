// SPDX-License-Identifier: Apache-2.0
// QueuePair: the resources of one connection: a queue pair on its identifier, its completion queue, its
// Receives, and the memory of its Sends. Made before connecting, so that every message that arrives finds a
// Receive.
#pragma once

#include "transport/fabric/verbs/cm_id.h"
#include "transport/fabric/verbs/completion_queue.h"
#include "transport/fabric/verbs/options.h"
#include "transport/fabric/verbs/receive_queue.h"

namespace nfsrdma::fabric::verbs {

class QueuePair {
 public:
  // Maximum of outstanding Sends; further Sends wait as copies.
  static constexpr unsigned kSends = 32;

  // `id` has a device. Errors: kTransport; the text of ENOMEM names RLIMIT_MEMLOCK.
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

  // True if it accepts and executes work requests, according to the device.
  bool stands();
  // "rxe0 port 1, MTU 4096".
  std::string describe();
  // Ends the connection for the peer and flushes all work requests. Asynchronous: their completions follow.
  void disconnect();
  // After this no work request is in use and no completion comes. Exposures must be fenced before.
  void destroy();

 private:
  QueuePair() = default;
  Result<> create_qp(unsigned receives);

  std::unique_ptr<CmId> id_;  // destroyed last: librdmacm may close the device with its last identifier
  std::shared_ptr<Domain> domain_;
  MessageMemory sends_;
  ReceiveQueue receives_;
  std::shared_ptr<CompletionQueue> completions_;
  unsigned send_depth_ = 0;
  bool destroyed_ = false;
};

}  // namespace nfsrdma::fabric::verbs
