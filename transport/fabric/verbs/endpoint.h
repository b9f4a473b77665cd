// SPDX-License-Identifier: Apache-2.0
// The fabric::Endpoint of an RDMA device: a handle for an EndpointCore.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/fabric/verbs/endpoint_core.h"

namespace nfsrdma::fabric::verbs {

class VerbsEndpoint final : public Endpoint {
 public:
  VerbsEndpoint(Loop& loop, const Options& options, Established established)
      : core_(std::make_shared<EndpointCore>(loop, options, std::move(established))) {
    core_->begin();
  }
  ~VerbsEndpoint() override { core_->detach(); }

  void start(EndpointEvents& events) override { core_->start(events); }
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) override {
    core_->send(parts, invalidate, solicited);
  }
  Result<std::vector<rpcrdma::segment>> expose(MutableBytes memory, Access access, PipedPlace*) override {
    return core_->expose(memory, access);
  }
  bool invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie) override {
    return core_->invalidate(segments, remotely, cookie);
  }
  bool revoke(std::span<const rpcrdma::segment> segments) override { return core_->revoke(segments); }
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, Cookie cookie,
             bool wants_completion) override {
    core_->write(target, source, std::move(owner),
                 wants_completion ? std::optional<Cookie>(cookie) : std::nullopt);
  }
  void read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) override {
    core_->read(target, source, std::move(owner), cookie);
  }
  void disconnect(Error why) override { core_->disconnect(std::move(why)); }

  size_t unsent_bytes() const override { return core_->unsent_bytes(); }
  const EndpointLimits& limits() const override { return core_->limits(); }
  EndpointCounters counters() const override { return core_->counters(); }
  ConstBytes peer_private_data() const override { return core_->peer_private_data(); }
  const std::string& peer() const override { return core_->peer(); }
  const std::string& local() const override { return core_->local(); }
  const std::string& carrier() const override { return core_->carrier(); }

 private:
  const std::shared_ptr<EndpointCore> core_;
};

}  // namespace nfsrdma::fabric::verbs
