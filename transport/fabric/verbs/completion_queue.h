// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: a completion queue whose channel wakes the loop.
//
// Work completions are delivered in batches. When the queue is empty it is polled for another Options::poll,
// in turns that leave room for the loop's other work. Then it is armed, and the loop sleeps. Shared by its
// owner and its handlers. Loop thread only.
#pragma once

#include <infiniband/verbs.h>

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <span>

#include "transport/runtime/loop.h"
#include "xdr/support/result.h"

namespace nfsrdma::fabric::verbs {

class CompletionQueue final : public std::enable_shared_from_this<CompletionQueue> {
 public:
  // An empty batch means that the queue is broken. The handler may call close().
  using Handler = std::function<void(std::span<const ibv_wc>)>;

  static Result<std::shared_ptr<CompletionQueue>> make(Loop& loop, ibv_context* context, unsigned depth,
                                                       std::chrono::microseconds poll);
  ~CompletionQueue() { close(); }

  ibv_cq* get() const { return cq_; }
  void start(Handler handler);
  // Delivers the completions that are there now.
  void poll();
  // Ends the delivery of batches. The queue pair must be destroyed before.
  void close();

 private:
  CompletionQueue(Loop& loop, ibv_comp_channel* channel, std::chrono::microseconds poll);
  void wait();
  void take_event();
  void acknowledge();
  bool hand_out();
  void poll_later();

  Loop& loop_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_ = nullptr;
  const std::chrono::microseconds poll_for_;
  asio::posix::stream_descriptor descriptor_;
  Handler handler_;
  TimePoint busy_until_{};
  unsigned unacknowledged_ = 0;  // events
  bool closed_ = false;
  bool polling_ = false;  // hand_out() is on the stack
  bool waiting_ = false;
  bool later_ = false;  // poll() will be called
};

}  // namespace nfsrdma::fabric::verbs
