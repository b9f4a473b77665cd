// SPDX-License-Identifier: Apache-2.0
// The fabric::Endpoint of software RDMA: a handle for an EndpointCore. Its destructor detaches the core,
// which then ends by itself.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/fabric/iwarp/endpoint_core.h"

namespace nfsrdma::fabric::iwarp {

class IwarpEndpoint final : public Endpoint {
 public:
  IwarpEndpoint(Loop& loop, const Options& options, Established established);
  ~IwarpEndpoint() override;

  void start(EndpointEvents& events) override;
  using Endpoint::expose;
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) override;
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access,
                                               PipedPlace* piped) override;
  // Both always return true: they complete at once.
  bool invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie) override;
  bool revoke(std::span<const rpcrdma::segment> segments) override;
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, Cookie cookie,
             bool wants_completion) override;
  void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) override;
  void disconnect(Error why) override;

  size_t unsent_bytes() const override { return core_->unsent_bytes(); }
  const EndpointLimits& limits() const override { return limits_; }
  EndpointCounters counters() const override { return core_->counters(); }
  ConstBytes peer_private_data() const override { return core_->peer_private_data(); }
  const std::string& peer() const override { return core_->peer(); }
  const std::string& local() const override { return core_->local(); }
  const std::string& carrier() const override { return carrier_; }

 private:
  const EndpointLimits limits_;
  const std::string carrier_ = kCarrier;
  const std::shared_ptr<EndpointCore> core_;
};

}  // namespace nfsrdma::fabric::iwarp
