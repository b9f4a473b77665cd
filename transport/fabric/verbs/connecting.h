// SPDX-License-Identifier: Apache-2.0
// Connecting: what a fabric's connections begin with, on either side. Loop thread only.
#pragma once

#include <list>
#include <unordered_map>

#include "transport/fabric/verbs/endpoint_core.h"

namespace nfsrdma::fabric::verbs {

// One fabric's part of a loop: shared with its listeners and with connections that begin.
class Context final : public std::enable_shared_from_this<Context> {
 public:
  Context(Loop& l, const Options& o, std::shared_ptr<Domains> d)
      : loop(l), options(o), domains(std::move(d)) {}

  // The one that is in use, or a new one.
  Result<std::shared_ptr<CmChannel>> channel();
  std::shared_ptr<DeviceWatch> watch(const std::shared_ptr<Domain>& domain);
  // An identifier may have come to a device: from now on it keeps it, and the device has a witness.
  void note_device(CmId& id);
  // For an identifier that has a device.
  Result<Established> prepare(std::unique_ptr<CmId> id, const EndpointOptions& wanted);

  Loop& loop;
  const Options options;
  const std::shared_ptr<Domains> domains;
  // Connections of peers that have not said yet that they stand: each has a queue pair and registered memory,
  // and who asks need not go on. In the order of their arrival.
  static constexpr size_t kMostAccepting = 64;
  std::list<CmId*> accepting;

 private:
  void witness(const CmId& id, const std::shared_ptr<OpenDevice>& device);

  std::weak_ptr<CmChannel> channel_;
  // An identifier at each device that was come to, for nothing but to be told of its removal: librdmacm keeps
  // the device open between one connection and the next, and the removal may wait for that (open_device.h).
  std::unordered_map<const ibv_context*, std::unique_ptr<CmId>> witnesses_;
  std::unordered_map<const Domain*, std::weak_ptr<DeviceWatch>> watches_;
};

// What is given to rdma_connect() and rdma_accept(): `said` has to live as long.
rdma_conn_param connection_parameters(const ByteVector& said, unsigned reads_answered,
                                      unsigned reads_initiated);

}  // namespace nfsrdma::fabric::verbs
