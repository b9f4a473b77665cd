// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <utility>

#include "transport/rdma/connection.h"

namespace nfsrdma::rdma {

// draft-cel-nfsv4-rpcrdma-version-two-09 section 7: the first message is of version 2, has at most 1024
// bytes, and nothing else is sent before its answer. We send CONNPROP, which executes nothing. The Responder
// answers with its own CONNPROP. If it does not know version 2 it answers ERR_VERS, and we go on with version
// 1 on the same connection.

RdmaConnection::RdmaConnection(Loop& loop, std::unique_ptr<fabric::Endpoint> endpoint,
                               rpc::ConnectionOwner& owner, rpc::PendingCalls& calls, rpc::Counters& counters,
                               const RdmaOptions& options, RdmaCounters& rdma_counters, BufferPool& pool)
    : loop_(loop),
      owner_(owner),
      calls_(calls),
      counters_(counters),
      rdma_counters_(rdma_counters),
      pool_(pool),
      options_(options),
      theirs_(rpcrdma::find_private_data(endpoint->peer_private_data())),
      agree_timer_(loop),
      memory_timer_(loop),
      credits_(options.credits),
      endpoint_(std::move(endpoint)) {
  // RFC 8797 section 4.2: "the smaller of its own send size and the server's reported receive size".
  inline_send_ = std::min(options.inline_bytes, theirs_.receive_bytes);
  inline_receive_ = std::min(options.inline_bytes, theirs_.send_bytes);
}

RdmaConnection::~RdmaConnection() {
  exchanges_.for_each([](Exchange& x) {
    if (x.call != nullptr) x.call->mark = 0;
  });
}

Task<RdmaConnection::Agreement> RdmaConnection::agree(bool ask) {
  endpoint_->start(*this);
  if (!ask) {
    set_version(rpcrdma::kVersion1);
    co_return Agreement::kVersion1;
  }
  Completion<Agreement> agreeing;
  agreeing_ = &agreeing;
  loop_.spawn(give_up_waiting(self()));
  first_xid_ = std::random_device{}();
  send_properties(first_xid_);
  const Agreement agreement = co_await agreeing.wait();
  agree_timer_.cancel();
  co_return agreement;
}

Task<> RdmaConnection::give_up_waiting(std::shared_ptr<RdmaConnection> keep_alive) {
  const bool expired = co_await agree_timer_.wait_for(options_.negotiation_timeout);
  if (expired) agreed(Agreement::kNoVersion2);
  (void)keep_alive;
}

// Resumes the waiter from the loop's queue: the endpoint may be on the stack, and the waiter may destroy it.
void RdmaConnection::agreed(Agreement agreement) {
  Completion<Agreement>* waiting = std::exchange(agreeing_, nullptr);
  if (waiting == nullptr) return;
  loop_.post([keep_alive = self(), waiting, agreement] { waiting->set(agreement); });
}

void RdmaConnection::set_version(uint32_t version) {
  version_ = version;
  const bool ours = endpoint_->limits().remote_invalidation;
  // Version 2 only needs a handle in the header (section 3.3). Version 1 needs the R flag of both sides (RFC
  // 8797 section 4.1); its headers have no place for a handle.
  remote_invalidation_ = ours && (version == rpcrdma::kVersion2 || theirs_.remote_invalidation);
  rdma_counters_.version.store(version, std::memory_order_relaxed);
  rdma_counters_.credit_limit.store(credits_.limit(), std::memory_order_relaxed);
  rdma_counters_.inline_send.store(inline_send_, std::memory_order_relaxed);
  rdma_counters_.inline_receive.store(inline_receive_, std::memory_order_relaxed);
  rdma_counters_.remote_invalidation.store(remote_invalidation_, std::memory_order_relaxed);
}

void RdmaConnection::send_properties(uint32_t xid) {
  out_.clear();
  out_.xid = xid;
  out_.vers = rpcrdma::kVersion2;
  out_.credit = credits_.requested();
  out_.type = rpcrdma::RDMA2_CONNPROP;
  out_.properties.receive_buffer_bytes = static_cast<uint32_t>(options_.receive_bytes);
  out_.properties.reverse_request_support = rpcrdma::RDMA2_RVREQSUP_INLINE;
  out_bytes_.clear();
  rpcrdma::encode(out_bytes_, out_);
  const ConstBytes parts[] = {out_bytes_};
  endpoint_->send(parts);
}

void RdmaConnection::on_first_message(rpcrdma::Defect defect) {
  if (agreeing_ == nullptr) return;  // already decided
  if (defect != rpcrdma::Defect::kNone) return agreed(Agreement::kNoVersion2);
  const bool answer = in_.xid == first_xid_;
  if (answer && in_.type == rpcrdma::RDMA2_CONNPROP && in_.response()) {
    take_properties();
    credits_.granted(in_.credit);
    set_version(rpcrdma::kVersion2);
    return agreed(Agreement::kVersion2);
  }
  if (!answer || in_.type != rpcrdma::RDMA_ERROR) return agreed(Agreement::kNoVersion2);
  if (in_.error.code == rpcrdma::ERR_VERS && in_.error.first > rpcrdma::kVersion1)
    return agreed(Agreement::kNeither);
  // ERR_VERS, or any other error that a server of version 1 sends for a message it does not know.
  if (in_.error.code != rpcrdma::ERR_VERS && in_.vers != rpcrdma::kVersion1)
    return agreed(Agreement::kNoVersion2);
  set_version(rpcrdma::kVersion1);
  agreed(Agreement::kVersion1);
}

// Section 5.3.4: properties "are not allowed to change subsequently". Calls were already planned with the
// first ones.
void RdmaConnection::on_properties(uint32_t invalidated) {
  if (invalidated != 0) return broken("a handle was invalidated by transport properties");
  owner_.on_bad_message(*this, {"transport properties a second time", false, false, in_.xid});
}

void RdmaConnection::take_properties() {
  const size_t theirs = std::max<size_t>(in_.properties.receive_buffer_bytes, 1024);
  inline_send_ = std::min(options_.inline_bytes, theirs);
  // A Responder announces the size of its Sends in its private data or not at all (RFC 8797 section 4.2).
  inline_receive_ = std::min({options_.inline_bytes, options_.receive_bytes, theirs_.send_bytes});
}

rpcrdma::config_rdma_req RdmaConnection::wanted() const {
  const auto bytes = static_cast<uint32_t>(options_.inline_bytes);
  return {bytes, bytes, endpoint_->limits().incoming_reads};
}

// RFC 5666 section 6.2: "The client MUST NOT send an inline call message larger than what the server will
// accept."
void RdmaConnection::configured(const rpcrdma::config_rdma_reply& theirs) {
  inline_send_ = std::min<size_t>(options_.inline_bytes, theirs.maxcall_sendsize);
  inline_receive_ = options_.inline_bytes;
  set_version(version_);  // for status
}

}  // namespace nfsrdma::rdma
