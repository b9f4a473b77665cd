// SPDX-License-Identifier: Apache-2.0
// A fabric::Endpoint without a network. It records what the object under test requests. The fuzz target plays
// the peer and the adapter: it delivers Sends, completes Reads, uses exposed memory, and ends the connection.
//
// Wire holds all of it and outlives the endpoint, which the object under test owns. It has two modes: memory
// is closed at once, as in software RDMA; or memory is closed later and the connection ends if the peer might
// use it, as with adapters (fabric/verbs).
//
// Checked for every user: memory is exposed only once at a time, and no request exceeds the limits.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "transport/fabric/fabric.h"

namespace nfsrdma::fuzz {

using rpcrdma::segment;

inline Error lost_error() {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = ECONNRESET,
          .op = "connection",
          .cause = "lost"};
}

// Runs the loop's queued work and what that queues. Called from outside of the loop.
inline void settle(Loop& loop) {
  for (int turn = 0; turn < 4; ++turn) {
    loop.post([&loop] { loop.stop(); });
    loop.run();
    loop.context().restart();
  }
}

class Wire final : public std::enable_shared_from_this<Wire> {
 public:
  explicit Wire(Loop& loop) : loop_(loop) {
    limits.max_message_bytes = 1u << 20;
    limits.max_segment_bytes = 1u << 30;
    limits.max_read_bytes = 1u << 30;
    limits.max_segments = 16;
    limits.incoming_reads = 8;
  }

  // --- set before use
  fabric::EndpointLimits limits;
  ByteVector private_data;
  bool closes_later = false;
  std::function<void(ConstBytes message, uint32_t invalidate)> on_send;
  std::function<void(const segment& target, ConstBytes source)> on_write;
  std::function<void()> on_gone;  // called when the endpoint is destroyed; from then on no memory is open

  // --- what was requested
  struct Exposure {
    segment range;
    MutableBytes memory;
    fabric::Access access{};
    bool closing = false;
    bool closed_by_peer = false;
  };
  struct Read {
    MutableBytes target;
    segment source;
    fabric::Owner owner;
    fabric::Cookie cookie = 0;
  };
  std::map<uint32_t, Exposure> open;  // by handle
  std::deque<Read> reads;
  unsigned refuse_after = 0;      // this many exposures still succeed, ...
  unsigned refuse_exposures = 0;  // ...then this many fail
  size_t most_open = SIZE_MAX;    // limit for exposures at one time
  bool gone = false;              // the endpoint has been destroyed

  bool up() const { return state_ == State::kUp; }
  bool usable() const { return state_ == State::kNew || state_ == State::kUp; }
  bool ended() const { return state_ == State::kEnded; }

  // --- the peer and the adapter
  void deliver(ConstBytes message, uint32_t invalidate = 0) {
    if (!up()) return;
    if (invalidate != 0) {
      const auto at = open.find(invalidate);
      if (at == open.end() || at->second.closed_by_peer) return end(lost_error());
      at->second.closed_by_peer = true;
      if (!closes_later) open.erase(at);
    }
    const std::vector<std::byte> exact(message.begin(), message.end());
    events_->on_receive({exact, invalidate});
  }
  void complete_read(size_t i) {
    if (!up() || reads.empty()) return;
    const auto at = reads.begin() + static_cast<ptrdiff_t>(i % reads.size());
    Read done = std::move(*at);
    reads.erase(at);
    done.owner.reset();
    events_->on_completed(done.cookie);
  }
  void complete_invalidation() {
    if (!up() || invalidations_.empty()) return;
    const Invalidation done = std::move(invalidations_.front());
    invalidations_.pop_front();
    for (const uint32_t handle : done.handles) open.erase(handle);
    events_->on_invalidated(done.cookie);
  }
  bool invalidating() const { return !invalidations_.empty(); }
  // As disconnect(): only the last event follows, in a later turn of the loop.
  void end(Error why) {
    if (!usable()) return;
    state_ = State::kEnding;
    loop_.post([self = shared_from_this(), why = std::move(why)] { self->tell(why); });
  }

  // --- fabric::Endpoint
  void start(fabric::EndpointEvents& events) {
    require(state_ == State::kNew && events_ == nullptr, "an endpoint is started once");
    events_ = &events;
    state_ = State::kUp;
  }
  void send(std::span<const ConstBytes> parts, uint32_t invalidate) {
    if (!usable()) return;
    std::vector<std::byte> message;
    for (const ConstBytes part : parts) message.insert(message.end(), part.begin(), part.end());
    require(message.size() <= limits.max_message_bytes, "no Send is longer than the fabric takes");
    on_send(message, invalidate);
  }
  Result<std::vector<segment>> expose(MutableBytes memory, fabric::Access access) {
    if (!usable() || refuses())
      return fail({.layer = Layer::kTransport,
                   .recovery = Recovery::kReconnect,
                   .errnum = ENOBUFS,
                   .op = "expose",
                   .cause = "nothing is free"});
    std::vector<segment> segments;
    for (; !memory.empty(); memory = memory.subspan(segments.back().length)) {
      const MutableBytes part = memory.first(std::min(memory.size(), limits.max_segment_bytes));
      for (const auto& [handle, e] : open) {
        // A call that could not be sent is sent again while its earlier exposure is still being closed.
        const bool again = e.closing && e.access == fabric::Access::kRemoteRead && access == e.access;
        require(again || apart(e.memory, part), "memory is exposed for one call");
      }
      segments.push_back({next_handle_, static_cast<uint32_t>(part.size()), uint64_t{next_handle_} << 20});
      open[next_handle_++] = {segments.back(), part, access};
    }
    require(segments.size() <= limits.max_segments, "a chunk has no more segments than there may be");
    return segments;
  }
  bool invalidate(std::span<const segment> segments, fabric::Cookie cookie) {
    if (!usable()) return true;
    Invalidation asked{cookie, {}};
    for (const segment& s : segments) {
      const auto at = open.find(s.handle);
      if (at == open.end() || at->second.closing) continue;
      if (closes_later && !at->second.closed_by_peer) {
        at->second.closing = true;
        asked.handles.push_back(s.handle);
      } else {
        open.erase(at);
      }
    }
    if (asked.handles.empty()) return true;
    invalidations_.push_back(std::move(asked));
    return false;
  }
  bool revoke(std::span<const segment> segments) {
    const bool any = std::ranges::any_of(segments, [&](const segment& s) { return open.contains(s.handle); });
    if (any && closes_later) return end(lost_error()), false;
    for (const segment& s : segments) open.erase(s.handle);
    return true;
  }
  void write(const segment& target, ConstBytes source) {
    if (!usable()) return;
    require(source.size() <= target.length, "a Write is no longer than its target");
    on_write(target, source);
  }
  void read(MutableBytes target, const segment& source, fabric::Owner owner, fabric::Cookie cookie) {
    if (!usable()) return;
    require(target.size() <= source.length, "a Read is no longer than its source");
    require(target.size() <= limits.max_read_bytes, "nor than the fabric's longest");
    reads.push_back({target, source, std::move(owner), cookie});
  }
  void drop_endpoint() {
    if (on_gone) on_gone();
    gone = true;
    events_ = nullptr;
    finish();
  }

 private:
  enum class State : uint8_t { kNew, kUp, kEnding, kEnded };
  struct Invalidation {
    fabric::Cookie cookie = 0;
    std::vector<uint32_t> handles;
  };

  static bool apart(MutableBytes a, MutableBytes b) {
    return a.data() + a.size() <= b.data() || b.data() + b.size() <= a.data();
  }
  bool refuses() {
    if (open.size() >= most_open) return true;
    if (refuse_exposures == 0) return false;
    if (refuse_after > 0) return --refuse_after, false;
    return --refuse_exposures, true;
  }
  void finish() {
    state_ = State::kEnded;
    open.clear();
    reads.clear();
    invalidations_.clear();
  }
  void tell(const Error& why) {
    if (state_ == State::kEnded) return;
    finish();
    if (fabric::EndpointEvents* events = std::exchange(events_, nullptr)) events->on_disconnected(why);
  }

  Loop& loop_;
  State state_ = State::kNew;
  fabric::EndpointEvents* events_ = nullptr;
  uint32_t next_handle_ = 0x100;
  std::deque<Invalidation> invalidations_;
};

class FuzzEndpoint final : public fabric::Endpoint {
 public:
  explicit FuzzEndpoint(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~FuzzEndpoint() override { wire_->drop_endpoint(); }

  using Endpoint::expose;
  void start(fabric::EndpointEvents& events) override { wire_->start(events); }
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool) override {
    wire_->send(parts, invalidate);
  }
  Result<std::vector<segment>> expose(MutableBytes memory, fabric::Access access, PipedPlace*) override {
    return wire_->expose(memory, access);
  }
  bool invalidate(std::span<const segment> segments, uint32_t, fabric::Cookie cookie) override {
    return wire_->invalidate(segments, cookie);
  }
  bool revoke(std::span<const segment> segments) override { return wire_->revoke(segments); }
  void write(const segment& target, ConstBytes source, fabric::Owner, fabric::Cookie, bool wants) override {
    require(!wants, "nobody here waits for a Write");
    wire_->write(target, source);
  }
  void read(MutableBytes target, const segment& source, fabric::Owner owner, fabric::Cookie cookie) override {
    wire_->read(target, source, std::move(owner), cookie);
  }
  void disconnect(Error why) override { wire_->end(std::move(why)); }

  size_t unsent_bytes() const override { return 0; }  // this wire accepts everything at once
  const fabric::EndpointLimits& limits() const override { return wire_->limits; }
  fabric::EndpointCounters counters() const override { return {}; }
  ConstBytes peer_private_data() const override { return wire_->private_data; }
  const std::string& peer() const override { return name_; }
  const std::string& local() const override { return name_; }
  const std::string& carrier() const override { return name_; }

 private:
  const std::shared_ptr<Wire> wire_;
  const std::string name_ = "fuzz";
};

}  // namespace nfsrdma::fuzz
