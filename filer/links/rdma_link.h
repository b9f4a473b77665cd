// SPDX-License-Identifier: Apache-2.0
// RdmaLink: one accepted RPC-over-RDMA connection, version 1 or 2.
//
// Its loop's thread runs the Responder and calls `on_message` there. Sends may come from any thread. While a
// test has paused the link, received messages wait in it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "filer/links/link.h"
#include "transport/rdma/responder.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::filer::links {

class RdmaLink final : public Link,
                       private rdma::ResponderEvents,
                       public std::enable_shared_from_this<RdmaLink> {
 public:
  RdmaLink(Loop& loop, std::unique_ptr<fabric::Endpoint> endpoint, LinkId id, LinkEvents events,
           const rdma::ResponderOptions& options, std::chrono::milliseconds patience);

  // Loop thread.
  void start();
  rdma::Responder& responder() { return responder_; }

  LinkId id() const override { return id_; }
  using Link::send;
  void send(ByteVector message, BulkPlaces items) override;
  void send_raw(ByteVector bytes) override;
  void close(bool abort) override;
  void call_dropped() override { close(false); }
  void grant(uint32_t credits) override;
  void recognised() override;
  size_t held_bytes() const override { return ended_ ? 0 : responder_.held_bytes(); }
  void look(TimePoint now) override;
  void pause_reading(bool pause) override;

 private:
  void on_message(ByteVector message) override;
  void on_held() override;
  void on_closed(const Error& why) override;
  void on_loop(std::function<void()> fn);

  Loop& loop_;
  const LinkId id_;
  LinkEvents events_;
  rdma::Responder responder_;
  std::deque<ByteVector> waiting_;
  bool paused_ = false;
  bool ended_ = false;
  size_t unsent_ = 0;       // bytes not sent, as of the last look(), ...
  TimePoint taking_since_;  // ...and the time when they were last 0 or had decreased
  const std::chrono::milliseconds patience_;
};

}  // namespace nfsrdma::filer::links
