// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rdma/support/watched_fabric.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nfsrdma::test {

using fabric::Access;
using fabric::Cookie;
using rpcrdma::segment;

size_t HandleAccount::open() const {
  std::lock_guard lock(mutex_);
  return handles_.size();
}
size_t HandleAccount::opened() const {
  std::lock_guard lock(mutex_);
  return opened_;
}
size_t HandleAccount::closed_by_peer() const {
  std::lock_guard lock(mutex_);
  return closed_by_peer_;
}
std::vector<std::string> HandleAccount::offences() const {
  std::lock_guard lock(mutex_);
  return offences_;
}

void HandleAccount::on_exposed(uint32_t handle) {
  std::lock_guard lock(mutex_);
  ++opened_;
  if (!handles_.emplace(handle, State::kOpen).second)
    offences_.push_back("open twice: " + std::to_string(handle));
}

void HandleAccount::on_closed(uint32_t handle, uint32_t remotely) {
  std::lock_guard lock(mutex_);
  const auto at = handles_.find(handle);
  if (at == handles_.end()) return offences_.push_back("closed and not open: " + std::to_string(handle));
  const bool by_peer = at->second == State::kClosedByPeer;
  if (by_peer && handle != remotely)
    offences_.push_back("closed although the peer had: " + std::to_string(handle));
  if (!by_peer && handle == remotely)
    offences_.push_back("taken for closed by the peer: " + std::to_string(handle));
  handles_.erase(at);
}

void HandleAccount::on_closed_by_peer(uint32_t handle) {
  std::lock_guard lock(mutex_);
  ++closed_by_peer_;
  const auto at = handles_.find(handle);
  if (at != handles_.end()) at->second = State::kClosedByPeer;
}

// The end of a connection closes its open handles.
void HandleAccount::on_ended(const std::vector<uint32_t>& handles) {
  std::lock_guard lock(mutex_);
  for (const uint32_t handle : handles) handles_.erase(handle);
}

// ---------------------------------------------------------------------------------------------------------

namespace {

class WatchedEndpoint final : public fabric::Endpoint, private fabric::EndpointEvents {
 public:
  WatchedEndpoint(Loop& loop, std::unique_ptr<fabric::Endpoint> inner, std::shared_ptr<HandleAccount> account)
      : loop_(loop), inner_(std::move(inner)), account_(std::move(account)) {}
  ~WatchedEndpoint() override {
    *alive_ = false;
    end();
  }

  void start(fabric::EndpointEvents& events) override {
    events_ = &events;
    inner_->start(*this);
  }
  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) override {
    inner_->send(parts, invalidate, solicited);
  }
  Result<std::vector<segment>> expose(MutableBytes memory, Access access, PipedPlace*) override {
    std::vector<segment> segments;
    while (!memory.empty()) {
      const MutableBytes part = memory.first(std::min<size_t>(memory.size(), account_->segment_bytes));
      memory = memory.subspan(part.size());
      auto one = account_->exposes_left == 0 ? none() : inner_->expose(part, access);
      if (!one) {
        (void)invalidate(segments, 0, 0);
        return one;
      }
      if (account_->exposes_left != SIZE_MAX) --account_->exposes_left;
      account_->on_exposed(one->front().handle);
      open_.push_back(one->front().handle);
      segments.push_back(one->front());
    }
    return segments;
  }
  bool invalidate(std::span<const segment> segments, uint32_t remotely, Cookie cookie) override {
    close(segments, remotely);
    const bool done = inner_->invalidate(segments, remotely, cookie);
    if (!done || segments.empty() || !account_->closes_later || cookie == 0) return done;
    loop_.post([this, cookie, alive = alive_] {
      if (*alive && events_ != nullptr) events_->on_invalidated(cookie);
    });
    return false;
  }
  bool revoke(std::span<const segment> segments) override {
    close(segments, 0);
    return inner_->revoke(segments);
  }
  void write(const segment& target, ConstBytes source, fabric::Owner owner, Cookie cookie,
             bool wants_completion) override {
    inner_->write(target, source, std::move(owner), cookie, wants_completion);
  }
  void read(MutableBytes target, const segment& source, fabric::Owner owner, Cookie cookie) override {
    inner_->read(target, source, std::move(owner), cookie);
  }
  void disconnect(Error why) override { inner_->disconnect(std::move(why)); }
  size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  const fabric::EndpointLimits& limits() const override { return inner_->limits(); }
  fabric::EndpointCounters counters() const override { return inner_->counters(); }
  ConstBytes peer_private_data() const override { return inner_->peer_private_data(); }
  const std::string& peer() const override { return inner_->peer(); }
  const std::string& local() const override { return inner_->local(); }
  const std::string& carrier() const override { return inner_->carrier(); }

 private:
  void on_receive(fabric::Received received) override {
    if (received.invalidated != 0) account_->on_closed_by_peer(received.invalidated);
    events_->on_receive(received);
  }
  void on_completed(Cookie cookie) override { events_->on_completed(cookie); }
  void on_invalidated(Cookie cookie) override { events_->on_invalidated(cookie); }
  void on_disconnected(const Error& why) override {
    end();
    std::exchange(events_, nullptr)->on_disconnected(why);
  }

  static Result<std::vector<segment>> none() {
    return fail({.layer = Layer::kTransport,
                 .recovery = Recovery::kReconnect,
                 .errnum = ENOBUFS,
                 .op = "expose",
                 .cause = "the test has none left"});
  }
  void close(std::span<const segment> segments, uint32_t remotely) {
    for (const segment& s : segments) {
      account_->on_closed(s.handle, remotely);
      std::erase(open_, s.handle);
    }
  }
  void end() { account_->on_ended(std::exchange(open_, {})); }

  Loop& loop_;
  const std::unique_ptr<fabric::Endpoint> inner_;
  const std::shared_ptr<HandleAccount> account_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  fabric::EndpointEvents* events_ = nullptr;
  std::vector<uint32_t> open_;
};

class WatchedFabric final : public fabric::Fabric {
 public:
  WatchedFabric(Loop& loop, std::unique_ptr<fabric::Fabric> inner, std::shared_ptr<HandleAccount> account)
      : loop_(loop), inner_(std::move(inner)), account_(std::move(account)) {}

  std::string name() const override { return inner_->name(); }
  Task<Result<std::unique_ptr<fabric::Endpoint>>> connect(fabric::ConnectOptions options) override {
    account_->receives = options.endpoint.receives;
    auto endpoint = co_await inner_->connect(std::move(options));
    if (!endpoint) co_return endpoint;
    co_return std::make_unique<WatchedEndpoint>(loop_, *std::move(endpoint), account_);
  }
  void cancel() override { inner_->cancel(); }
  Result<std::unique_ptr<fabric::Listener>> listen(
      std::string address, uint16_t port,
      std::function<void(std::unique_ptr<fabric::Incoming>)> on_incoming) override {
    return inner_->listen(std::move(address), port, std::move(on_incoming));
  }

 private:
  Loop& loop_;
  const std::unique_ptr<fabric::Fabric> inner_;
  const std::shared_ptr<HandleAccount> account_;
};

}  // namespace

std::unique_ptr<fabric::Fabric> make_watched_fabric(Loop& loop, std::unique_ptr<fabric::Fabric> inner,
                                                    std::shared_ptr<HandleAccount> account) {
  return std::make_unique<WatchedFabric>(loop, std::move(inner), std::move(account));
}

}  // namespace nfsrdma::test
