// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/verbs/endpoint_core.h"

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cerrno>

#include "transport/fabric/verbs/errors.h"
#include "transport/runtime/check.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr size_t kMaxSegmentBytes = 1u << 30;

EndpointLimits limits_of(QueuePair& pair, const Options& options) {
  const Abilities& can = pair.domain().abilities();
  const bool windows = uses_windows(options, pair.domain());
  EndpointLimits l;
  l.max_message_bytes = pair.sends().piece_bytes();
  l.max_segment_bytes = std::min(can.registration_bytes, kMaxSegmentBytes);
  l.max_read_bytes = l.max_segment_bytes;
  l.max_segments = 16;
  l.incoming_reads = std::min(can.reads_answered, options.reads);
  l.remote_invalidation = windows;
  l.exposure = windows ? "fenced by memory windows" : "fenced by registrations (no memory windows)";
  return l;
}

}  // namespace

EndpointCore::EndpointCore(Loop& loop, const Options& options, Established e)
    : loop_(loop),
      options_(options),
      pair_(std::move(e.pair)),
      watch_(std::move(e.watch)),
      domains_(std::move(e.domains)),
      private_data_(std::move(e.private_data)),
      peer_(pair_->id().peer()),
      local_(pair_->id().local()),
      carrier_(pair_->describe()),
      reads_at_once_(e.reads_initiated),
      sends_with_invalidate_(domains_->sends_with_invalidate(pair_->domain())),
      limits_(limits_of(*pair_, options)),
      timer_(loop.context()),
      keep_alive_(options.keepalive, e.active && pair_->domain().abilities().iwarp
                                         ? options.nudge_after
                                         : std::chrono::milliseconds(0)),
      exposures_(pair_->domain(), limits_.remote_invalidation),
      ledger_(pair_->send_depth(), std::min(pair_->send_depth(), QueuePair::kSends) / 2) {
  for (unsigned i = QueuePair::kSends; i-- > 0;) slots_.push_back(i);
}

EndpointCore::~EndpointCore() {
  release();
}

// Separate from the constructor, in which there is no weak pointer yet.
void EndpointCore::begin() {
  const std::weak_ptr<EndpointCore> weak = weak_from_this();
  pair_->domain().on_lost(this, loop_, [weak] {
    if (const auto self = weak.lock()) self->lost(ENODEV, "connection", "the RDMA device has failed");
  });
  pair_->id().set_handler([weak](CmEvent& event) {
    if (const auto self = weak.lock()) self->on_cm_event(event);
  });
}

void EndpointCore::start(EndpointEvents& events) {
  NFSRDMA_CHECK(events_ == nullptr && state_ != State::kUp);
  events_ = &events;
  if (state_ == State::kClosed) return tell();
  if (state_ != State::kNew) return;
  state_ = State::kUp;
  pair_->completions().start([weak = weak_from_this()](std::span<const ibv_wc> batch) {
    if (const auto self = weak.lock()) self->on_completions(batch);
  });
  arm_keep_alive();
}

void EndpointCore::arm_keep_alive() {
  const auto wait = keep_alive_.wait();
  if (wait.count() == 0) return;
  timer_.expires_after(wait);
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& ec) {
    const auto self = weak.lock();
    if (ec || !self || self->state_ != State::kUp) return;
    if (self->keep_alive_.due()) self->ask_peer();
    self->arm_keep_alive();
  });
}

void EndpointCore::on_cm_event(const CmEvent& event) {
  if (!usable()) return;
  // First process the messages that arrived before the peer disconnected.
  if (event.type == RDMA_CM_EVENT_DISCONNECTED && state_ == State::kUp) pair_->completions().poll();
  end(to_error(event));
}

// ---------------------------------------------------------------------------------------------------------
// Memory.

Result<std::vector<rpcrdma::segment>> EndpointCore::expose(MutableBytes memory, Access access) {
  if (!usable()) return fail(rdma_error(ENOTCONN, "expose", "the connection has ended"));
  std::vector<rpcrdma::segment> segments;
  while (!memory.empty()) {
    const MutableBytes part = memory.first(std::min(memory.size(), limits_.max_segment_bytes));
    Result<Exposures::Opened> opened = exposures_.open(part, access);
    if (!opened) {
      (void)close_segments(segments, 0, std::nullopt);
      return fail(std::move(opened).error());
    }
    if (opened->window != nullptr) submit_bind(*opened, part, access);
    segments.push_back(opened->segment);
    memory = memory.subspan(part.size());
    ++counters_.exposed;
  }
  return segments;
}

bool EndpointCore::invalidate(std::span<const rpcrdma::segment> segments, uint32_t remotely, Cookie cookie) {
  return !usable() || close_segments(segments, remotely, cookie);
}

// Memory is not closed while the peer may be using it. A registration that is removed during a Write stops
// the kernel (Linux 6.1, rxe and siw), and so does a window that both sides invalidate at the same time
// (rxe). On every device, a peer whose access is refused in the middle of its work loses the connection. So
// the connection is ended first; release() has the order.
bool EndpointCore::revoke(std::span<const rpcrdma::segment> segments) {
  if (std::ranges::none_of(segments, [&](const auto& s) { return exposures_.is_open(s.handle); }))
    return true;
  lost(ECANCELED, "expose", "memory was taken back that the peer could be using");
  return false;
}

bool EndpointCore::close_segments(std::span<const rpcrdma::segment> segments, uint32_t remotely,
                                  std::optional<Cookie> cookie) {
  if (remotely != 0) (void)exposures_.closed_by_peer(remotely);
  Invalidation asked{cookie, 0};
  for (const rpcrdma::segment& s : segments) {
    const Exposures::Closing closing = exposures_.close(s.handle);
    if (closing == Exposures::Closing::kUnknown) continue;
    if (closing == Exposures::Closing::kDone && s.handle == remotely) continue;
    ++counters_.locally_invalidated;
    if (closing == Exposures::Closing::kDone) continue;
    ++asked.left;
    WorkPtr work = works_.take(Work::Kind::kInvalidate);
    work->cookie = next_invalidation_;
    work->invalidate = s.handle;
    submit(std::move(work));
  }
  if (asked.left == 0) return true;
  invalidations_.emplace(next_invalidation_++, asked);
  return false;
}

// ---------------------------------------------------------------------------------------------------------
// The end.

void EndpointCore::lost(int errnum, const char* op, std::string cause) {
  end(rdma_error(errnum, op, std::move(cause)));
}

void EndpointCore::end(Error why) {
  if (!usable()) return;
  const bool started = state_ == State::kUp;
  state_ = State::kEnding;
  why_ = std::move(why);
  pair_->domain().forget(this);
  pair_->disconnect();
  const auto close_later = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  };
  if (!started || pair_->receives().posted() == 0) return loop_.post(close_later);
  // Every posted Receive completes. By then the requests on the send queue have been flushed, or they end
  // with the queue pair.
  timer_.expires_after(kFlush);
  timer_.async_wait([close_later](const asio::error_code& ec) {
    if (!ec) close_later();
  });
  pair_->completions().poll();
}

void EndpointCore::detach() {
  events_ = nullptr;
  if (usable()) end(rdma_error(ECONNABORTED, "connection", "closed"));
  release();
  state_ = State::kClosed;
}

void EndpointCore::close() {
  if (state_ != State::kEnding) return;
  release();
  state_ = State::kClosed;
  tell();
}

// Closes in this order: the peer's access, the queue pair that could use our memory, the memory that it used.
void EndpointCore::release() {
  timer_.cancel();
  if (!pair_) return;
  pair_->domain().forget(this);
  exposures_.fence();
  pair_->destroy();
  waiting_.clear();
  unsent_bytes_ = 0;
  slotless_ = 0;
  posted_.clear();
  reads_.clear();
  invalidations_.clear();
  exposures_.clear();
  watch_.reset();
  pair_.reset();
}

void EndpointCore::tell() {
  if (EndpointEvents* events = std::exchange(events_, nullptr)) events->on_disconnected(*why_);
}

}  // namespace nfsrdma::fabric::verbs
