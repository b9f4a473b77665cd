// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/cm_id.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstring>

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {
namespace {

// RejectReason of a CM REJ message, InfiniBand Architecture release 1.4 table 111.
constexpr int kNobodyListens = 8;
constexpr int kStaleConnection = 10;
constexpr int kRefusedByConsumer = 28;

Error rejected(int status) {
  // iWARP gives an errno (siw reports an MPA rejection as ECONNRESET), InfiniBand and RoCE give the reason.
  if (status < 0) return rdma_error(status == -ECONNRESET ? ECONNREFUSED : -status, "connect", "refused");
  if (status == kStaleConnection)
    return rdma_error(ECONNRESET, "connect", "a connection of before is in the way");
  if (status == kNobodyListens) return rdma_error(ECONNREFUSED, "connect", "nobody listens");
  if (status == kRefusedByConsumer || status == 0) return rdma_error(ECONNREFUSED, "connect", "refused");
  return rdma_error(ECONNREFUSED, "connect", fmt::format("refused, reason {}", status));
}

bool unimportant(rdma_cm_event_type type) {
  return type == RDMA_CM_EVENT_TIMEWAIT_EXIT || type == RDMA_CM_EVENT_ADDR_CHANGE ||
         type == RDMA_CM_EVENT_MULTICAST_JOIN || type == RDMA_CM_EVENT_MULTICAST_ERROR;
}

CmEvent copy_of(const rdma_cm_event& e) {
  CmEvent copy;
  copy.type = e.event;
  copy.status = e.status;
  if (e.event != RDMA_CM_EVENT_CONNECT_REQUEST && e.event != RDMA_CM_EVENT_ESTABLISHED) return copy;
  const rdma_conn_param& p = e.param.conn;
  copy.reads_answered = p.responder_resources;
  copy.reads_initiated = p.initiator_depth;
  if (p.private_data != nullptr) {
    const auto* data = static_cast<const std::byte*>(p.private_data);
    copy.private_data.assign(data, data + p.private_data_len);
  }
  if (e.event == RDMA_CM_EVENT_CONNECT_REQUEST) copy.asking = e.id;
  return copy;
}

net::Endpoint endpoint_of(const sockaddr* address) {
  net::Endpoint e;
  e.length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&e.address, address, e.length);
  return e;
}

}  // namespace

Error to_error(const CmEvent& e) {
  const int errnum = e.status < 0 ? -e.status : ECONNRESET;
  switch (e.type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (errnum == ENODEV) return rdma_error(ENODEV, "connect", "no RDMA device leads there");
      return rdma_error(errnum, "connect", "address resolution");
    case RDMA_CM_EVENT_ROUTE_ERROR: return rdma_error(errnum, "connect", "route resolution");
    case RDMA_CM_EVENT_UNREACHABLE:
      return rdma_error(e.status < 0 ? errnum : ETIMEDOUT, "connect", "no answer of its connection manager");
    case RDMA_CM_EVENT_REJECTED: return rejected(e.status);
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return rdma_error(ENODEV, "connection", "the RDMA device was removed");
    case RDMA_CM_EVENT_DISCONNECTED: return rdma_error(ECONNRESET, "connection", "the peer disconnected");
    default: return rdma_error(errnum, "connect", rdma_event_str(e.type));
  }
}

Result<std::shared_ptr<CmChannel>> CmChannel::open(Loop& loop) {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) return fail(rdma_error(errno, "connect", "no RDMA connection manager (rdma_ucm)"));
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  std::shared_ptr<CmChannel> made(new CmChannel(loop, channel));
  made->wait();
  return made;
}

CmChannel::CmChannel(Loop& loop, rdma_event_channel* channel)
    : loop_(loop), channel_(channel), descriptor_(loop.context(), channel->fd) {}

CmChannel::~CmChannel() {
  descriptor_.release();  // the channel owns the descriptor
  rdma_destroy_event_channel(channel_);
}

void CmChannel::wait() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const asio::error_code& ec) {
                           const auto self = weak.lock();
                           if (ec || !self) return;
                           self->drain();
                           self->wait();
                         });
}

void CmChannel::drain() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    CmEvent copy = copy_of(*event);
    rdma_cm_id* id = copy.asking != nullptr ? event->listen_id : event->id;
    auto* const receiver = static_cast<CmId*>(id->context);
    rdma_ack_cm_event(event);
    if (receiver != nullptr && !unimportant(copy.type)) {
      receiver->deliver(std::move(copy));
    } else if (copy.asking != nullptr) {
      rdma_destroy_id(copy.asking);
    }
  }
}

Result<std::unique_ptr<CmId>> CmId::create(std::shared_ptr<CmChannel> channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel->get(), &id, nullptr, RDMA_PS_TCP) != 0)
    return fail(rdma_error(errno, "connect", "RDMA identifier"));
  return std::make_unique<CmId>(std::move(channel), id);
}

CmId::CmId(std::shared_ptr<CmChannel> channel, rdma_cm_id* id)
    : channel_(std::move(channel)), id_(id), timer_(channel_->loop()) {
  id_->context = this;
}

CmId::~CmId() {
  for (const CmEvent& e : events_) {
    if (e.asking != nullptr) rdma_destroy_id(e.asking);
  }
  // Release the device while its context exists: librdmacm closes the context of a removed device together
  // with the last identifier.
  device_.reset();
  rdma_destroy_id(id_);
}

std::string CmId::peer() const {
  return net::to_string(endpoint_of(rdma_get_peer_addr(id_)));
}
std::string CmId::local() const {
  return net::to_string(local_endpoint());
}
net::Endpoint CmId::local_endpoint() const {
  return endpoint_of(rdma_get_local_addr(id_));
}

void CmId::deliver(CmEvent event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && device_) device_->set_removed();
  if (handler_) return handler_(event);
  events_.push_back(std::move(event));
  timer_.cancel();
}

void CmId::set_handler(Handler handler) {
  handler_ = std::move(handler);
  while (!events_.empty() && handler_) {
    CmEvent event = std::move(events_.front());
    events_.pop_front();
    handler_(event);
  }
}

void CmId::cancel() {
  cancelled_ = true;
  timer_.cancel();
}

Task<Result<CmEvent>> CmId::expect(rdma_cm_event_type type, TimePoint deadline) {
  bool expired = false;
  while (events_.empty()) {
    if (cancelled_) {
      co_return fail({.layer = Layer::kTransport,
                      .recovery = Recovery::kInterrupted,
                      .errnum = EINTR,
                      .op = "connect",
                      .cause = "cancelled"});
    }
    if (expired) co_return fail(rdma_error(ETIMEDOUT, "connect", "no answer"));
    expired = co_await timer_.wait_until(deadline);
  }
  CmEvent event = std::move(events_.front());
  events_.pop_front();
  if (event.type != type) co_return fail(to_error(event));
  co_return event;
}

}  // namespace nfsrdma::fabric::verbs
