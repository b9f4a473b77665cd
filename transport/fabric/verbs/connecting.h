// SPDX-License-Identifier: Apache-2.0
// Connecting: the state of a fabric that connections need at their beginning, on both sides. Loop thread
// only.
#pragma once

#include <list>
#include <unordered_map>

#include "transport/fabric/verbs/endpoint_core.h"

namespace nfsrdma::fabric::verbs {

// The state of one fabric on one loop, shared with its listeners and with connections that are being made.
class Context final : public std::enable_shared_from_this<Context> {
 public:
  Context(Loop& l, const Options& o, std::shared_ptr<Domains> d)
      : loop(l), options(o), domains(std::move(d)) {}

  // The channel that is in use, or a new one.
  Result<std::shared_ptr<CmChannel>> channel();
  std::shared_ptr<DeviceWatch> watch(const std::shared_ptr<Domain>& domain);
  // To be called when an identifier may have got a device: the identifier then keeps it, and the device gets
  // a witness.
  void note_device(CmId& id);
  // Makes the queue pair for an identifier that has a device.
  Result<Established> prepare(std::unique_ptr<CmId> id, const EndpointOptions& wanted);

  Loop& loop;
  const Options options;
  const std::shared_ptr<Domains> domains;
  // Accepted connections that their peers have not confirmed yet, in the order of their arrival. Each has a
  // queue pair and registered memory, and a peer need not go on, so their number is limited.
  static constexpr size_t kMostAccepting = 64;
  std::list<CmId*> accepting;

 private:
  void witness(const CmId& id, const std::shared_ptr<OpenDevice>& device);

  std::weak_ptr<CmChannel> channel_;
  // For each device in use an identifier with the only task to receive the device's removal event. librdmacm
  // keeps the device open between two connections, and the removal may wait for that (open_device.h).
  std::unordered_map<const ibv_context*, std::unique_ptr<CmId>> witnesses_;
  std::unordered_map<const Domain*, std::weak_ptr<DeviceWatch>> watches_;
};

// Parameters for rdma_connect() and rdma_accept(). They point into `said`, which must outlive them.
rdma_conn_param connection_parameters(const ByteVector& said, unsigned reads_answered,
                                      unsigned reads_initiated);

}  // namespace nfsrdma::fabric::verbs
