// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/completion_queue.h"

#include <fcntl.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cerrno>

#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr int kCompletionBatch = 16;
// After this many batches the loop does its other work.
constexpr unsigned kBatchesATurn = 16;
// Every event must be acknowledged before the queue can be destroyed. An acknowledgement takes a lock, so
// this many events are acknowledged together.
constexpr unsigned kAcknowledgedAtOnce = 256;

}  // namespace

Result<std::shared_ptr<CompletionQueue>> CompletionQueue::make(Loop& loop, ibv_context* context,
                                                               unsigned depth,
                                                               std::chrono::microseconds poll) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  if (channel == nullptr) return fail(rdma_error(errno, "connect", "completion channel"));
  std::shared_ptr<CompletionQueue> queue(new CompletionQueue(loop, channel, poll));
  queue->cq_ = ibv_create_cq(context, static_cast<int>(depth), nullptr, channel, 0);
  if (queue->cq_ == nullptr) return fail(rdma_error(errno, "connect", "completion queue"));
  return queue;
}

CompletionQueue::CompletionQueue(Loop& loop, ibv_comp_channel* channel, std::chrono::microseconds poll)
    : loop_(loop), channel_(channel), poll_for_(poll), descriptor_(loop.context(), channel->fd) {
  ::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

void CompletionQueue::start(Handler handler) {
  handler_ = std::move(handler);
  poll_later();
}

void CompletionQueue::close() {
  if (std::exchange(closed_, true)) return;
  acknowledge();
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  cq_ = nullptr;
  descriptor_.release();  // the channel owns the descriptor
  ibv_destroy_comp_channel(channel_);
}

void CompletionQueue::poll_later() {
  if (std::exchange(later_, true)) return;
  asio::post(loop_.context(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->later_ = false;
    self->poll();
  });
}

// The loop may sleep only after the queue was empty, was armed, and was empty once more. Otherwise it could
// miss a completion.
void CompletionQueue::poll() {
  if (closed_ || polling_ || !handler_) return;
  const auto keep_alive = shared_from_this();
  const Loop::Turn turn(loop_);
  if (!hand_out()) return;
  if (poll_for_.count() > 0 && Clock::now() < busy_until_) return poll_later();
  if (waiting_) return;  // armed
  if (ibv_req_notify_cq(cq_, 0) != 0) return handler_({});
  wait();
  hand_out();
}

// True: the queue is empty. False: the queue is closed or broken (then the handler got an empty batch), or
// completions may be left, and poll() runs again later.
bool CompletionQueue::hand_out() {
  ibv_wc batch[kCompletionBatch];
  for (unsigned i = 0; i < kBatchesATurn; ++i) {
    const int n = ibv_poll_cq(cq_, kCompletionBatch, batch);
    if (n == 0) return true;
    if (poll_for_.count() > 0) busy_until_ = Clock::now() + poll_for_;
    polling_ = true;
    handler_({batch, static_cast<size_t>(n > 0 ? n : 0)});
    polling_ = false;
    if (closed_ || n < 0) return false;
  }
  poll_later();
  return false;
}

void CompletionQueue::wait() {
  waiting_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const asio::error_code& ec) {
                           const auto self = weak.lock();
                           if (ec || !self || self->closed_) return;
                           self->waiting_ = false;
                           self->take_event();
                           self->poll();
                         });
}

// An armed queue sends one event: asking for a second one would be a system call that finds nothing.
void CompletionQueue::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) == 0 && ++unacknowledged_ >= kAcknowledgedAtOnce)
    acknowledge();
}

void CompletionQueue::acknowledge() {
  if (unacknowledged_ > 0) ibv_ack_cq_events(cq_, std::exchange(unacknowledged_, 0));
}

}  // namespace nfsrdma::fabric::verbs
