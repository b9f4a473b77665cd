// SPDX-License-Identifier: Apache-2.0
// EndpointCore: the send queue.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/fabric/verbs/endpoint_core.h"
#include "transport/fabric/verbs/errors.h"

namespace nfsrdma::fabric::verbs {
namespace {

constexpr size_t kSendBatch = 16;

MutableBytes without_const(ConstBytes bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

void gather(std::span<const ConstBytes> parts, std::byte* to) {
  for (const ConstBytes part : parts) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------
// Operations.

void EndpointCore::send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited) {
  if (!usable()) return;
  WorkPtr owned = works_.take(Work::Kind::kSend);
  Work& work = *owned;
  work.solicited = solicited;
  if (sends_with_invalidate_) work.invalidate = invalidate;
  for (const ConstBytes part : parts) work.size += part.size();
  if (work.size > limits_.max_message_bytes)
    return lost(EMSGSIZE, "send", "a message longer than this side can send");
  // Do not overtake a Send that waits for a slot: all slots could then be used by Sends that wait behind it,
  // and nothing in progress would free one.
  if (slots_.empty() || slotless_ > 0) {
    ++slotless_;
    work.bytes.resize(work.size);
    gather(parts, work.bytes.data());
  } else {
    work.slot = slots_.back();
    slots_.pop_back();
    gather(parts, pair_->sends().piece(*work.slot).data());
  }
  ++counters_.sends;
  if (work.invalidate != 0) ++counters_.sends_with_invalidate;
  submit(std::move(owned));
}

void EndpointCore::write(const rpcrdma::segment& target, ConstBytes source, Owner owner,
                         std::optional<Cookie> cookie) {
  if (!usable()) return;
  WorkPtr owned = works_.take(Work::Kind::kWrite);
  Work& work = *owned;
  work.cookie = cookie;
  work.remote = target;
  work.owner = std::move(owner);
  if (Result<> prepared = prepare_local(work, without_const(source)); !prepared)
    return end(std::move(prepared).error());
  counters_.bytes_written += source.size();
  submit(std::move(owned));
}

void EndpointCore::read(MutableBytes target, const rpcrdma::segment& source, Owner owner, Cookie cookie) {
  if (!usable()) return;
  if (reads_at_once_ == 0) return lost(ENOTSUP, "read", "the peer does not answer RDMA Reads");
  WorkPtr owned = works_.take(Work::Kind::kRead);
  Work& work = *owned;
  work.cookie = cookie;
  work.remote = source;
  work.owner = std::move(owner);
  work.target = target;
  if (Result<> prepared = prepare_local(work, target); !prepared) return end(std::move(prepared).error());
  submit_read(std::move(owned));
}

// Never posts more Reads than the peer has resources for: the queue pair would hold back the first surplus
// Read and all work requests behind it.
void EndpointCore::submit_read(WorkPtr work) {
  if (reads_under_way_ >= reads_at_once_) return reads_.push_back(std::move(work));
  ++reads_under_way_;
  submit(std::move(work));
}

void EndpointCore::ask_peer() {
  submit(works_.take(Work::Kind::kAskPeer));
}

void EndpointCore::submit_bind(const Exposures::Opened& opened, MutableBytes memory, Access access) {
  WorkPtr work = works_.take(Work::Kind::kBind);
  work->window = opened.window;
  work->under = opened.under;
  work->invalidate = opened.segment.handle;
  work->local = memory;
  work->rights = static_cast<unsigned>(right_of(access));
  submit(std::move(work));
}

// ---------------------------------------------------------------------------------------------------------
// The local side of Writes and Reads.

Result<> EndpointCore::prepare_local(Work& work, MutableBytes memory) {
  Domain& domain = pair_->domain();
  work.local = memory;
  if (memory.empty()) return {};
  const bool pooled = domain.in_pool(memory);
  // For an iWARP Read, the peer Writes the data into the target (RFC 5040 section 5.2).
  const bool by_peer = work.kind == Work::Kind::kRead && domain.abilities().iwarp;
  if (!pooled && !by_peer && memory.size() < options_.copy_below && copy_local(work, memory)) return {};
  Result<Registration> registered =
      by_peer ? domain.own(memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : domain.share(memory);
  if (registered) {
    work.registration = std::move(*registered);
    return {};
  }
  if (by_peer || pooled || memory.size() > BufferPool::kMaxBytes || !copy_local(work, memory))
    return fail(std::move(registered).error());
  return {};
}

Result<> EndpointCore::copy_local(Work& work, MutableBytes memory) {
  Slice copy = pair_->domain().pool().slice(memory.size());
  if (!copy.buffer) return fail(rdma_error(ENOMEM, "copy", ""));
  Result<Registration> registered = pair_->domain().share(copy.bytes);
  if (!registered) return fail(std::move(registered).error());
  if (work.kind == Work::Kind::kWrite) std::memcpy(copy.bytes.data(), memory.data(), memory.size());
  work.local = copy.bytes;
  work.copy = std::move(copy);
  work.registration = std::move(*registered);
  return {};
}

// ---------------------------------------------------------------------------------------------------------
// Posting.

// All operations of one turn of the loop are posted together.
void EndpointCore::submit(WorkPtr work) {
  unsent_bytes_ += work->held_bytes();
  waiting_.push_back(std::move(work));
  if (std::exchange(flush_queued_, true)) return;
  loop_.at_end_of_turn([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->flush_queued_ = false;
    self->flush();
  });
}

void EndpointCore::flush() {
  while (usable() && post_batch()) {
  }
}

// False: nothing more can be posted at present.
bool EndpointCore::post_batch() {
  std::array<ibv_send_wr, kSendBatch> requests;
  std::array<ibv_sge, kSendBatch> sges;
  size_t n = 0;
  for (; n < kSendBatch && !waiting_.empty() && ledger_.room() && ready(*waiting_.front()); ++n) {
    Work& work = *posted_.emplace_back(std::move(waiting_.front()));
    waiting_.pop_front();
    unsent_bytes_ -= work.held_bytes();
    fill(work, requests[n], sges[n]);
    if (n > 0) requests[n - 1].next = &requests[n];
  }
  if (n == 0) return false;
  ibv_send_wr* bad = nullptr;
  if (const int result = ibv_post_send(pair_->get(), requests.data(), &bad)) {
    refused(errno_from_provider(result), bad);
    return false;
  }
  // Store the new handles of the windows: the next binding increments them.
  for (size_t i = posted_.size() - n; i < posted_.size(); ++i) {
    const Work& work = *posted_[i];
    if (work.kind == Work::Kind::kBind) work.window->rkey = work.invalidate;
  }
  return true;
}

// `first` and the requests behind it were not posted. This connection is lost. If the device does not know
// the request, note that, so that the next connection is not lost for the same reason. (A queue pair that has
// ended refuses every request.)
void EndpointCore::refused(int errnum, const ibv_send_wr* first) {
  const bool unknown = errnum == EINVAL || errnum == EOPNOTSUPP || errnum == ENOSYS;
  const bool invalidate = first != nullptr && first->opcode == IBV_WR_SEND_WITH_INV;
  if (unknown && invalidate && pair_->stands()) domains_->note_invalidate_refused(pair_->domain());
  lost(errnum, "post", "work requests");
}

bool EndpointCore::ready(Work& work) {
  if (work.kind != Work::Kind::kSend || work.slot) return true;
  if (slots_.empty()) return false;
  work.slot = slots_.back();
  slots_.pop_back();
  --slotless_;
  const ConstBytes bytes = work.bytes;
  gather({&bytes, 1}, pair_->sends().piece(*work.slot).data());
  work.bytes = {};
  return true;
}

void EndpointCore::fill(Work& work, ibv_send_wr& request, ibv_sge& sge) {
  const SendLedger::Entry entry = ledger_.add(work.awaited());
  request = {};
  request.wr_id = entry.number;
  // There is always a list: for a Write, libcxgb4 reads the list and what follows it before it checks the
  // length.
  sge = {};
  request.sg_list = &sge;
  request.send_flags = entry.signalled ? IBV_SEND_SIGNALED : 0;
  switch (work.kind) {
    case Work::Kind::kSend:
      request.opcode = work.invalidate != 0 ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
      if (work.invalidate != 0) request.invalidate_rkey = work.invalidate;
      if (work.solicited) request.send_flags |= IBV_SEND_SOLICITED;
      request.num_sge = work.size > 0 ? 1 : 0;
      if (work.size > 0) sge = pair_->sends().sge(*work.slot, work.size);
      break;
    case Work::Kind::kWrite:
    case Work::Kind::kRead:
    case Work::Kind::kAskPeer:
      request.opcode = work.kind == Work::Kind::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
      request.wr.rdma.remote_addr = work.remote.offset;
      request.wr.rdma.rkey = work.remote.handle;
      request.num_sge = work.local.empty() ? 0 : 1;
      if (!work.local.empty())
        sge = {reinterpret_cast<uintptr_t>(work.local.data()), static_cast<uint32_t>(work.local.size()),
               work.registration.lkey()};
      break;
    case Work::Kind::kBind:
      request.opcode = IBV_WR_BIND_MW;
      request.bind_mw.mw = work.window;
      request.bind_mw.rkey = work.invalidate;
      request.bind_mw.bind_info = {work.under, reinterpret_cast<uintptr_t>(work.local.data()),
                                   work.local.size(), work.rights};
      break;
    case Work::Kind::kInvalidate:
      request.opcode = IBV_WR_LOCAL_INV;
      request.invalidate_rkey = work.invalidate;
      break;
  }
}

}  // namespace nfsrdma::fabric::verbs
