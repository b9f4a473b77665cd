// SPDX-License-Identifier: Apache-2.0
// CmChannel: the RDMA connection manager's events, on a loop. CmId: one of its identifiers (a connection,
// from its beginning to its end, or a listener), which receives its own events.
//
// Resolving, connecting, accepting and disconnecting are started here and end with an event; none of them
// blocks. An event is copied and acknowledged before it is delivered, so an identifier can be destroyed at
// any time (rdma_destroy_id waits for unacknowledged events). Loop thread only; a channel is shared by its
// identifiers.
#pragma once

#include <rdma/rdma_cma.h>

#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>

#include "transport/fabric/verbs/open_device.h"
#include "transport/net/endpoint.h"
#include "transport/runtime/loop.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

class CmId;

struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  // For CONNECT_REQUEST and ESTABLISHED: RDMA Reads of the peer that we answer, and our own.
  unsigned reads_answered = 0;
  unsigned reads_initiated = 0;
  ByteVector private_data;       // may be padded
  rdma_cm_id* asking = nullptr;  // CONNECT_REQUEST: the new identifier, owned by the receiver
};

// The error for an event other than the expected one.
Error to_error(const CmEvent& event);

class CmChannel final : public std::enable_shared_from_this<CmChannel> {
 public:
  // Errors: ENODEV and similar if there is no connection manager.
  static Result<std::shared_ptr<CmChannel>> open(Loop& loop);
  ~CmChannel();
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;

  Loop& loop() const { return loop_; }
  rdma_event_channel* get() const { return channel_; }

 private:
  CmChannel(Loop& loop, rdma_event_channel* channel);
  void wait();
  void drain();

  Loop& loop_;
  rdma_event_channel* const channel_;
  asio::posix::stream_descriptor descriptor_;
};

class CmId {
 public:
  using Handler = std::function<void(CmEvent&)>;

  static Result<std::unique_ptr<CmId>> create(std::shared_ptr<CmChannel> channel);
  // An identifier from a CONNECT_REQUEST.
  CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id);
  ~CmId();
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  rdma_cm_id* get() const { return id_; }
  rdma_cm_id* operator->() const { return id_; }
  const std::shared_ptr<CmChannel>& channel() const { return channel_; }
  // The device of this identifier. The identifier keeps it while it lives; a removed device is released after
  // that.
  void set_device(std::shared_ptr<OpenDevice> device) { device_ = std::move(device); }

  std::string peer() const;
  std::string local() const;
  net::Endpoint local_endpoint() const;

  // Waits for the next event, which must have this type. Errors: the error for another event; ETIMEDOUT;
  // kInterrupted after cancel(). At most one waiter, and no handler.
  Task<Result<CmEvent>> expect(rdma_cm_event_type type, TimePoint deadline);
  void cancel();

  // From now on events go to `handler`; events that are waiting go there at once.
  void set_handler(Handler handler);

 private:
  friend class CmChannel;
  void deliver(CmEvent event);

  const std::shared_ptr<CmChannel> channel_;
  std::shared_ptr<OpenDevice> device_;
  rdma_cm_id* const id_;
  Handler handler_;
  std::deque<CmEvent> events_;
  Timer timer_;
  bool cancelled_ = false;
};

}  // namespace nfsrdma::fabric::verbs
