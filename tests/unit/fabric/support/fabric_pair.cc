// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric/support/fabric_pair.h"

#include <future>

namespace nfsrdma::test {

void Side::note() {
  if (!disconnected_.empty()) after_the_end_ = true;
}

void Side::on_receive(fabric::Received r) {
  {
    std::lock_guard lock(mutex_);
    note();
    messages_.emplace_back(r.message.begin(), r.message.end());
    invalidated_.push_back(r.invalidated);
  }
  if (hook) hook(r);
}

void Side::on_completed(Cookie cookie) {
  std::lock_guard lock(mutex_);
  note();
  completed_.push_back(cookie);
}

void Side::on_invalidated(Cookie cookie) {
  std::lock_guard lock(mutex_);
  note();
  done_invalidating_.push_back(cookie);
}

void Side::on_disconnected(const Error& why) {
  std::lock_guard lock(mutex_);
  note();
  disconnected_.push_back(why);
}

size_t Side::received() const {
  std::lock_guard lock(mutex_);
  return messages_.size();
}
ByteVector Side::message(size_t i) const {
  std::lock_guard lock(mutex_);
  return messages_.at(i);
}
uint32_t Side::invalidated(size_t i) const {
  std::lock_guard lock(mutex_);
  return invalidated_.at(i);
}
std::vector<Cookie> Side::completed() const {
  std::lock_guard lock(mutex_);
  return completed_;
}
std::vector<Cookie> Side::done_invalidating() const {
  std::lock_guard lock(mutex_);
  return done_invalidating_;
}
std::vector<Error> Side::disconnected() const {
  std::lock_guard lock(mutex_);
  return disconnected_;
}
bool Side::silent_after_the_end() const {
  std::lock_guard lock(mutex_);
  return !after_the_end_;
}

FabricPair::FabricPair(const MakeFabric& make, std::string address) : address_(std::move(address)) {
  on_loop([&] { fabric_ = make(*loop_); });
}

FabricPair::~FabricPair() {
  destroy(active);
  destroy(passive);
  on_loop([&] { fabric_.reset(); });
  EXPECT_TRUE(active.silent_after_the_end());
  EXPECT_TRUE(passive.silent_after_the_end());
}

Task<Result<std::unique_ptr<fabric::Endpoint>>> FabricPair::accept(fabric::Incoming* incoming,
                                                                   fabric::EndpointOptions options) {
  const std::unique_ptr<fabric::Incoming> mine(incoming);
  co_return co_await mine->accept(std::move(options));
}

void FabricPair::connect_only(fabric::EndpointOptions a, fabric::EndpointOptions p) {
  std::promise<fabric::Incoming*> asked;
  auto listener = on_loop([&] {
    return fabric_->listen(address_, 0,
                           [&](std::unique_ptr<fabric::Incoming> i) { asked.set_value(i.release()); });
  });
  ASSERT_TRUE(listener) << describe(listener.error());
  fabric::ConnectOptions to;
  to.host = address_;
  to.port = (*listener)->port();
  to.endpoint = std::move(a);
  auto connected = start_on(*loop_, fabric_->connect(std::move(to)));
  auto accepted = run_on(*loop_, accept(asked.get_future().get(), std::move(p)));
  ASSERT_TRUE(accepted) << describe(accepted.error());
  passive.endpoint = std::move(*accepted);
  auto made = connected.get();
  ASSERT_TRUE(made) << describe(made.error());
  active.endpoint = std::move(*made);
  on_loop([&] { listener->reset(); });  // endpoints stay alive
}

void FabricPair::start() {
  on_loop([&] {
    passive->start(passive);
    active->start(active);
  });
}

void FabricPair::connect(fabric::EndpointOptions a, fabric::EndpointOptions p) {
  connect_only(std::move(a), std::move(p));
  if (active.endpoint && passive.endpoint) start();
}

std::vector<rpcrdma::segment> FabricPair::expose(Side& side, MutableBytes memory, fabric::Access access) {
  return on_loop([&] {
    auto exposed = side->expose(memory, access);
    EXPECT_TRUE(exposed);
    return exposed ? *exposed : std::vector<rpcrdma::segment>{};
  });
}

void FabricPair::send(Side& side, ConstBytes message, uint32_t invalidate) {
  on_loop([&] { side->send({&message, 1}, invalidate); });
}

bool FabricPair::invalidate(Side& side, const std::vector<rpcrdma::segment>& segments) {
  const size_t before = side.done_invalidating().size();
  if (on_loop([&] { return side->invalidate(segments, 0, 77); })) return true;
  // The end of the connection closes everything, too.
  return eventually([&] { return side.done_invalidating().size() > before || !side.disconnected().empty(); });
}

bool FabricPair::revoke(Side& side, const std::vector<rpcrdma::segment>& segments) {
  return on_loop([&] { return side->revoke(segments); }) || side.disconnects();
}

void FabricPair::destroy(Side& side) {
  on_loop([&] { side.endpoint.reset(); });
}

}  // namespace nfsrdma::test
