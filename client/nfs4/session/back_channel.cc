// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/back_channel.h"

#include <algorithm>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {

nfs4::channel_attrs4 offered_back_channel() {
  // 4096 bytes: several times the largest callback that matters (CB_NOTIFY_LOCK, whose lock-owner takes up to
  // 1024). Linux rejects sizes below what a CB_RECALL with AUTH_SYS needs, and fewer than 2 operations.
  return {.ca_headerpadsize = 0,
          .ca_maxrequestsize = 4096,
          .ca_maxresponsesize = 4096,
          .ca_maxresponsesize_cached = 4096,
          .ca_maxoperations = 8,
          .ca_maxrequests = 8,
          .ca_rdma_ird = {}};
}

void BackChannel::open(const nfs4::sessionid4& session, const nfs4::channel_attrs4& granted) {
  nfs4::channel_attrs4 limits = offered_back_channel();
  limits.ca_maxrequestsize = std::min(limits.ca_maxrequestsize, granted.ca_maxrequestsize);
  limits.ca_maxresponsesize = std::min(limits.ca_maxresponsesize, granted.ca_maxresponsesize);
  limits.ca_maxresponsesize_cached =
      std::min(limits.ca_maxresponsesize_cached, granted.ca_maxresponsesize_cached);
  limits.ca_maxoperations = std::min(limits.ca_maxoperations, granted.ca_maxoperations);
  limits.ca_maxrequests = std::min(limits.ca_maxrequests, granted.ca_maxrequests);
  MutexLock lock(mutex_);
  ++generation_;
  session_ = session;
  limits_ = limits;
  slots_.assign(limits.ca_maxrequests, Slot{});
}

nfs4::channel_attrs4 BackChannel::limits() const {
  MutexLock lock(mutex_);
  return limits_;
}

BackChannel::Admission BackChannel::begin(const nfs4::CB_SEQUENCE4args& args) {
  using namespace nfs4;  // NOLINT: the statuses
  MutexLock lock(mutex_);
  if (generation_ == 0 || args.csa_sessionid != session_) return {.status = NFS4ERR_BADSESSION, .reply = {}};
  if (args.csa_slotid >= slots_.size()) return {.status = NFS4ERR_BADSLOT, .reply = {}};
  if (args.csa_highest_slotid >= slots_.size()) return {.status = NFS4ERR_BAD_HIGH_SLOT, .reply = {}};
  Slot& slot = slots_[args.csa_slotid];
  if (args.csa_sequenceid == slot.sequence) {
    // Section 2.10.6.2: a retry while the original is still executing.
    if (slot.busy) return {.status = NFS4ERR_DELAY, .reply = {}};
    if (slot.reply.empty()) return {.status = NFS4ERR_SEQ_MISORDERED, .reply = {}};
    return {.replay = true, .reply = slot.reply};
  }
  // Section 2.10.6.1: sequence IDs wrap to zero.
  if (args.csa_sequenceid != slot.sequence + 1 || slot.busy)
    return {.status = NFS4ERR_SEQ_MISORDERED, .reply = {}};
  ++slot.sequence;
  slot.busy = true;
  slot.reply.clear();
  return {.reply = {}, .generation = generation_, .highest_slot = static_cast<uint32_t>(slots_.size() - 1)};
}

void BackChannel::finish(uint64_t generation, uint32_t slot, ByteVector reply) {
  MutexLock lock(mutex_);
  if (generation != generation_) return;
  slots_[slot].busy = false;
  slots_[slot].reply = std::move(reply);
}

}  // namespace nfsrdma::client::nfs4
