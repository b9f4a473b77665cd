// SPDX-License-Identifier: Apache-2.0
#include "filer/links/rdma_link.h"

#include <cerrno>
#include <utility>

namespace nfsrdma::filer::links {

RdmaLink::RdmaLink(Loop& loop, std::unique_ptr<fabric::Endpoint> endpoint, LinkId id, LinkEvents events,
                   const rdma::ResponderOptions& options, std::chrono::milliseconds patience)
    : loop_(loop),
      id_(id),
      events_(std::move(events)),
      responder_(std::move(endpoint), options, *this),
      taking_since_(Clock::now()),
      patience_(patience) {}

void RdmaLink::start() {
  if (events_.on_header) {
    responder_.set_refusal(
        [this](const rpcrdma::header& header) { return events_.on_header(shared_from_this(), header); });
  }
  responder_.start();
}

// Runs `fn` on the loop at the end of its turn. Other threads must not touch the responder, nor may callbacks
// of this link, which run inside it.
void RdmaLink::on_loop(std::function<void()> fn) {
  loop_.at_end_of_turn([self = shared_from_this(), fn = std::move(fn)] {
    if (!self->ended_) fn();
  });
}

void RdmaLink::send(ByteVector message, BulkPlaces items) {
  auto shared = std::make_shared<ByteVector>(std::move(message));
  on_loop([this, shared, items = std::move(items)] {
    responder_.send(std::move(*shared), items);
    on_held();
  });
}

void RdmaLink::send_raw(ByteVector bytes) {
  auto shared = std::make_shared<ByteVector>(std::move(bytes));
  on_loop([this, shared] {
    const ConstBytes parts[] = {*shared};
    responder_.endpoint().send(parts);
  });
}

// Orderly close and abort are the same here: posted messages may be lost either way.
void RdmaLink::close(bool) {
  on_loop([this] {
    responder_.close({.layer = Layer::kTransport,
                      .recovery = Recovery::kReconnect,
                      .errnum = ECONNABORTED,
                      .op = "connection",
                      .cause = "closed"});
  });
}

void RdmaLink::grant(uint32_t credits) {
  on_loop([this, credits] { responder_.grant(credits); });
}

void RdmaLink::recognised() {
  on_loop([this] { responder_.full_credits(); });
}

void RdmaLink::look(TimePoint now) {
  if (ended_) return;
  const size_t unsent = responder_.endpoint().unsent_bytes();
  if (unsent == 0 || unsent < unsent_) taking_since_ = now;
  unsent_ = unsent;
  if (now - taking_since_ > patience_) {
    return responder_.close({.layer = Layer::kTransport,
                             .recovery = Recovery::kReconnect,
                             .errnum = ETIMEDOUT,
                             .op = "connection",
                             .cause = "the client does not take its answers"});
  }
  responder_.look(now);
}

void RdmaLink::on_held() {
  if (!ended_ && events_.on_held) events_.on_held(shared_from_this());
}

void RdmaLink::pause_reading(bool pause) {
  on_loop([this, pause] {
    paused_ = pause;
    while (!paused_ && !ended_ && !waiting_.empty()) {
      ByteVector message = std::move(waiting_.front());
      waiting_.pop_front();
      events_.on_message(shared_from_this(), std::move(message));
    }
  });
}

void RdmaLink::on_message(ByteVector message) {
  if (paused_) {
    waiting_.push_back(std::move(message));
  } else {
    events_.on_message(shared_from_this(), std::move(message));
  }
}

void RdmaLink::on_closed(const Error&) {
  ended_ = true;
  const auto self = shared_from_this();
  events_.on_closed(self);
  responder_.set_refusal({});
  events_ = {};
  // The endpoint is still on the stack, so the link is destroyed in a later turn.
  loop_.post([self] {});
}

}  // namespace nfsrdma::filer::links
