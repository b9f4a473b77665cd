// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/endpoint.h"

namespace nfsrdma::fabric::iwarp {
namespace {

EndpointLimits make_limits(const Established& established) {
  EndpointLimits l;
  l.max_message_bytes = 1u << 20;  // limited because it is copied; the protocol allows 4 GiB
  l.max_segment_bytes = EndpointCore::kMaxSegmentBytes;
  l.max_read_bytes = EndpointCore::kMaxSegmentBytes;
  l.max_segments = 16;
  l.incoming_reads = established.agreed.ird;
  l.remote_invalidation = true;
  return l;
}

}  // namespace

IwarpEndpoint::IwarpEndpoint(Loop& loop, const Options& options, Established established)
    : limits_(make_limits(established)),
      core_(std::make_shared<EndpointCore>(loop, options, std::move(established))) {}

IwarpEndpoint::~IwarpEndpoint() {
  core_->detach();
}

void IwarpEndpoint::start(EndpointEvents& events) {
  core_->start(events);
}

void IwarpEndpoint::send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) {
  core_->send(parts, invalidate, solicited);
}

Result<std::vector<rpcrdma::segment>> IwarpEndpoint::expose(MutableBytes memory, Access access,
                                                            PipedPlace* piped) {
  return core_->expose(memory, access, piped);
}

bool IwarpEndpoint::invalidate(std::span<const rpcrdma::segment> segments, uint32_t, Cookie) {
  core_->invalidate(segments, false);
  return true;
}

bool IwarpEndpoint::revoke(std::span<const rpcrdma::segment> segments) {
  core_->invalidate(segments, true);
  return true;
}

void IwarpEndpoint::write(const rpcrdma::segment& target, ConstBytes source, Owner owner, Cookie cookie,
                          bool wants_completion) {
  core_->write(target, source, std::move(owner),
               wants_completion ? std::optional<Cookie>(cookie) : std::nullopt);
}

void IwarpEndpoint::read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) {
  core_->read(target, source, std::move(owner), cookie);
}

void IwarpEndpoint::disconnect(Error why) {
  core_->disconnect(std::move(why));
}

}  // namespace nfsrdma::fabric::iwarp
