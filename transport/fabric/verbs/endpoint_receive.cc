// SPDX-License-Identifier: Apache-2.0
// EndpointCore: completions.
#include <cerrno>
#include <cstring>

#include "transport/fabric/verbs/endpoint_core.h"
#include "transport/fabric/verbs/errors.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fabric::verbs {
namespace {

// For a Send With Invalidate, Linux' rxe gives programs the kernel's own bit (1 << 2, which means "checksum
// is right" to a program) instead of IBV_WC_WITH_INV (1 << 3). invalidated_rkey is right.
constexpr unsigned kRxeWithInvalidate = 1u << 2;

bool invalidated(const ibv_wc& wc) {
  if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) return true;
  return (wc.wc_flags & kRxeWithInvalidate) != 0 && wc.invalidated_rkey != 0;
}

int errno_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR: return ETIMEDOUT;
    case IBV_WC_WR_FLUSH_ERR: return ECONNRESET;
    case IBV_WC_FATAL_ERR: return ENODEV;
    default: return EPROTO;
  }
}

}  // namespace

void EndpointCore::on_completions(std::span<const ibv_wc> batch) {
  if (batch.empty()) return lost(EIO, "connection", "the completion queue is broken");
  for (const ibv_wc& wc : batch) {
    if (!usable()) {
      note_flushed(wc);
    } else if ((wc.wr_id & ReceiveQueue::kMark) != 0) {
      on_received(wc);
    } else {
      on_sent(wc);
    }
  }
  if (!usable()) return;
  if (const int errnum = pair_->receives().post_again(pair_->get())) return lost(errnum, "post", "receives");
  flush();
}

void EndpointCore::on_received(const ibv_wc& wc) {
  const ConstBytes message = pair_->receives().take(wc);
  if (wc.status != IBV_WC_SUCCESS) return failed(wc, "receive");
  keep_alive_.heard();
  ++counters_.receives;
  Received received{message, 0};
  if (invalidated(wc)) {
    received.invalidated = wc.invalidated_rkey;
    ++counters_.remotely_invalidated;
    if (!exposures_.closed_by_peer(received.invalidated))
      return lost(EPROTO, "receive", "the peer invalidated what was not open to it");
  }
  events_->on_receive(received);
  if (usable()) pair_->receives().give_back(wc);
}

void EndpointCore::on_sent(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) return failed(wc, "send");
  keep_alive_.heard();
  for (unsigned over = ledger_.complete(wc.wr_id); over > 0 && usable(); --over) {
    WorkPtr done = std::move(posted_.front());
    posted_.pop_front();
    finish(std::move(done));
  }
}

// Releases what the work held before any event: its receiver may destroy the endpoint, and the domain with
// it.
void EndpointCore::finish(WorkPtr done) {
  Work& work = *done;
  const Work::Kind kind = work.kind;
  const std::optional<Cookie> cookie = work.cookie;
  const uint32_t handle = work.invalidate;
  if (kind == Work::Kind::kSend) slots_.push_back(*work.slot);
  if (kind == Work::Kind::kRead) {
    counters_.bytes_read += work.local.size();
    if (work.copy.buffer) std::memcpy(work.target.data(), work.copy.bytes.data(), work.target.size());
  }
  works_.give_back(std::move(done));
  switch (kind) {
    case Work::Kind::kSend:
    case Work::Kind::kBind:
    case Work::Kind::kAskPeer: break;
    case Work::Kind::kInvalidate: finish_invalidation(handle, *cookie); break;
    case Work::Kind::kRead: next_read(); [[fallthrough]];
    case Work::Kind::kWrite:
      if (cookie) events_->on_completed(*cookie);
      break;
  }
}

void EndpointCore::next_read() {
  --reads_under_way_;
  if (reads_.empty()) return;
  submit_read(std::move(reads_.front()));
  reads_.pop_front();
}

void EndpointCore::finish_invalidation(uint32_t handle, uint64_t number) {
  exposures_.closed(handle);
  const auto at = invalidations_.find(number);
  if (at == invalidations_.end() || --at->second.left > 0) return;
  const std::optional<Cookie> cookie = at->second.cookie;
  invalidations_.erase(at);
  if (cookie) events_->on_invalidated(*cookie);
}

// In kEnding, only the completions of Receives are counted. After the last one the endpoint closes.
void EndpointCore::note_flushed(const ibv_wc& wc) {
  if (!pair_ || (wc.wr_id & ReceiveQueue::kMark) == 0) return;
  (void)pair_->receives().take(wc);
  if (pair_->receives().posted() > 0) return;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

void EndpointCore::failed(const ibv_wc& wc, const char* what) {
  if (wc.status != IBV_WC_WR_FLUSH_ERR) {
    if (const uint64_t n = domains_->failures().hit())
      log::warn("RDMA: {} over {}: {}: {} (failure {})", peer_, carrier_, what, ibv_wc_status_str(wc.status),
                n);
  }
  lost(errno_of(wc.status), what, ibv_wc_status_str(wc.status));
}

}  // namespace nfsrdma::fabric::verbs
