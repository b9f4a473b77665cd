// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/endpoint_core.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cerrno>

#include "transport/runtime/check.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::iwarp {
namespace {

// How long a connection that has ended may take to close in order.
constexpr std::chrono::seconds kLinger{2};
// The largest tagged payload of one frame, a multiple of 16 bytes. Transfers of 256 KiB to 1 MiB then have a
// very short odd frame, which the peer receives together with a header.
constexpr size_t kLargestPayload = (kMaxUlpduBytes - kTaggedBytes) / 16 * 16;
// The largest frame is never limited to less, however small TCP's segments are: a peer may count on 128 bytes
// (RFC 5044 section 5.1).
constexpr size_t kSmallestFrame = 128;

bool is_loopback(const net::Endpoint& e) {
  if (e.family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(e.get())->sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(e.get())->sin6_addr);
}

bool same_host(const net::Endpoint& a, const net::Endpoint& b) {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a.get())->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b.get())->sin_addr.s_addr;
  }
  return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6*>(a.get())->sin6_addr,
                            &reinterpret_cast<const sockaddr_in6*>(b.get())->sin6_addr);
}

bool peer_is_here(int fd) {
  net::Endpoint peer;
  peer.length = sizeof(peer.address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.address), &peer.length) != 0) return false;
  const Result<net::Endpoint> local = net::local_endpoint(fd);
  return local && (is_loopback(peer) || same_host(peer, *local));
}

// The frame size for this peer, unless the options set one: the largest possible if the peer is on this host,
// otherwise one TCP segment.
SendQueue::Limits send_limits(int fd, const Options& options, bool crc) {
  size_t frame = options.frame_bytes;
  if (frame == 0) {
    if (peer_is_here(fd)) return {kLargestPayload + kTaggedBytes, crc, true};
    int mss = 0;
    socklen_t length = sizeof(mss);
    if (::getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &length) == 0 && mss > 0)
      frame = static_cast<size_t>(mss);
  }
  frame = std::clamp(frame, kSmallestFrame, fpdu_bytes(kMaxUlpduBytes - 1));
  // A multiple of four in total, so that a full frame needs no padding.
  return {frame / 4 * 4 - kLengthBytes - kCrcBytes, crc, false};
}

}  // namespace

EndpointCore::EndpointCore(Loop& loop, const Options& options, Established e)
    : loop_(loop),
      options_(options),
      agreed_(e.agreed),
      active_(e.active),
      peer_(std::move(e.connection.peer)),
      local_(std::move(e.connection.local)),
      private_data_(std::move(e.private_data)),
      violations_(std::move(e.violations)),
      descriptor_(loop.context(), e.connection.socket.release()),
      timer_(loop.context()),
      reads_(tags_, agreed_.ord),
      reader_(*this, {e.receive_bytes, agreed_.crc}),
      queue_(send_limits(descriptor_.native_handle(), options_, agreed_.crc)) {}

void EndpointCore::start(EndpointEvents& events) {
  NFSRDMA_CHECK(state_ == State::kNew && events_ == nullptr);
  events_ = &events;
  state_ = State::kUp;
  wait_readable();
  if (active_) arm_nudge();
}

// ---------------------------------------------------------------------------------------------------------
// Memory.

Result<std::vector<rpcrdma::segment>> EndpointCore::expose(MutableBytes memory, Access access,
                                                           PipedPlace* piped) {
  const auto refuse = [](int errnum, const char* cause) {
    return fail({.layer = Layer::kTransport,
                 .recovery = Recovery::kReconnect,
                 .errnum = errnum,
                 .op = "expose",
                 .cause = cause});
  };
  if (!usable()) return refuse(ENOTCONN, "the connection has ended");
  const size_t needed = (memory.size() + kMaxSegmentBytes - 1) / kMaxSegmentBytes;
  // Tags are also reserved for the sinks of our own Reads.
  const size_t kept = agreed_.ord > reads_.outstanding() ? agreed_.ord - reads_.outstanding() : 0;
  if (tags_.size() + needed + kept > StagTable::kMaxTags) return refuse(ENOBUFS, "no steering tag is free");
  std::vector<rpcrdma::segment> segments;
  segments.reserve(needed);
  while (!memory.empty()) {
    const MutableBytes part = memory.first(std::min(memory.size(), kMaxSegmentBytes));
    const auto tag =
        tags_.add(part, access == Access::kRemoteRead ? TagUse::kRemoteRead : TagUse::kRemoteWrite,
                  needed == 1 ? piped : nullptr);
    segments.push_back({tag->stag, static_cast<uint32_t>(part.size()), tag->offset});
    memory = memory.subspan(part.size());
    ++counters_.exposed;
  }
  return segments;
}

// A peer that is using the memory at this moment loses the connection: the rest of its frame must not be
// placed, and a Read Response must not send what the memory contains after this call.
void EndpointCore::invalidate(std::span<const rpcrdma::segment> segments, bool revoked) {
  std::optional<Terminate> in_use;
  for (const rpcrdma::segment& s : segments) {
    const auto use = tags_.use_of(s.handle);
    if (!use || *use == TagUse::kReadSink) continue;
    if (reader_.placing() == s.handle) in_use = reader_.terminate_for(term::kInvalidStag);
    if (queue_.sends_from(s.handle)) in_use = Terminate{term::kReadInvalidStag, {}, {}, {}};
    if (revoked) {
      tags_.revoke(s.handle);
    } else {
      tags_.remove(s.handle);
    }
    ++counters_.locally_invalidated;
  }
  if (in_use) violated(*in_use);
}

// ---------------------------------------------------------------------------------------------------------
// The end.

void EndpointCore::violated(const Terminate& t) {
  const std::string cause = to_string(t.code);
  if (const uint64_t n = violations_->hit())
    log::warn("software RDMA: {} is cut off: {} (violation {})", peer_, cause, n);
  end({.layer = Layer::kTransport,
       .recovery = Recovery::kReconnect,
       .errnum = EPROTO,
       .op = "RDMA",
       .cause = "the peer broke a rule: " + cause},
      t, Ending::kOrderly);
}

void EndpointCore::disconnect(Error why) {
  end(std::move(why), std::nullopt, Ending::kOrderly);
}

void EndpointCore::detach() {
  events_ = nullptr;
  disconnect({.layer = Layer::kTransport,
              .recovery = Recovery::kReconnect,
              .errnum = ECONNABORTED,
              .op = "RDMA",
              .cause = "closed"});
}

void EndpointCore::end(Error why, const std::optional<Terminate>& last, Ending ending) {
  if (!usable()) return;
  if (ending == Ending::kOrderly && !last) {
    const bool receiving = std::exchange(receiving_, true);  // no events from here
    transmit();                                              // sends as much of the posted operations as the
                                                             // socket accepts
    receiving_ = receiving;
    if (!usable()) return;  // the connection was lost meanwhile
  }
  state_ = State::kEnding;
  timer_.cancel();
  queue_.finish(last);
  reads_.clear();
  tags_.clear();
  asio::post(loop_.context(), [self = shared_from_this(), why = std::move(why)] {
    if (EndpointEvents* events = std::exchange(self->events_, nullptr)) events->on_disconnected(why);
  });
  if (ending == Ending::kLost) return close();
  timer_.expires_after(kLinger);
  timer_.async_wait([self = shared_from_this()](const asio::error_code& ec) {
    if (!ec) self->close();
  });
  queue_flush();
  if (!receiving_ && !waits_readable_) wait_readable();
}

void EndpointCore::close() {
  state_ = State::kClosed;
  timer_.cancel();
  asio::error_code ignored;
  descriptor_.close(ignored);
}

}  // namespace nfsrdma::fabric::iwarp
