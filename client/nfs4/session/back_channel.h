// SPDX-License-Identifier: Apache-2.0
// BackChannel: the slots of the back channel with their reply cache (RFC 8881 sections 2.10.6, 20.9).
//
// The server is the requester here and this client the replier: each slot remembers the last sequence ID it
// executed and the reply to it, so that a retry is answered with the same bytes and not executed twice. Every
// reply that is not larger than the negotiated ca_maxresponsesize_cached is kept, whether the server asked
// for that or not.
//
// It serves one session at a time: open() forgets the slots of the former session, and finish() does nothing
// for a request of the former session. Owned by the CallbackServer; one short lock; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "client/nfs4/protocol_types.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/callback.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

// The callback program, as CREATE_SESSION announces it (csa_cb_program). RFC 5531 section 13: a transient
// number.
inline constexpr uint32_t kCallbackProgram = 0x40000000;
inline constexpr uint32_t kCallbackVersion = 1;  // the server's choice; Linux and Ganesha call version 1

// csa_back_chan_attrs: what this client offers. The server may lower the sizes (RFC 8881 section 18.36.3).
nfs4::channel_attrs4 offered_back_channel();

class BackChannel {
 public:
  // A new session, with the attributes that CREATE_SESSION granted. Values above our offer are lowered to it.
  void open(const nfs4::sessionid4& session, const nfs4::channel_attrs4& granted);
  nfs4::channel_attrs4 limits() const;

  // How to answer CB_SEQUENCE.
  struct Admission {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;  // an error: the slot is untouched
    bool replay = false;                    // answer with `reply`, nothing is executed
    ByteVector reply;                       // as it was first sent, with the original request's XID
    uint64_t generation = 0;                // for finish()
    uint32_t highest_slot = 0;              // csr_highest_slotid and csr_target_highest_slotid
  };
  // A new request occupies its slot until finish().
  Admission begin(const nfs4::CB_SEQUENCE4args& args);
  // `reply`: the answer to a retry.
  void finish(uint64_t generation, uint32_t slot, ByteVector reply);

 private:
  struct Slot {
    uint32_t sequence = 0;  // the last one executed; the first request carries 1
    bool busy = false;      // being executed
    ByteVector reply;       // empty: never used, or busy
  };

  mutable Mutex mutex_;
  uint64_t generation_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  nfs4::sessionid4 session_ NFSRDMA_GUARDED_BY(mutex_){};
  nfs4::channel_attrs4 limits_ NFSRDMA_GUARDED_BY(mutex_) = offered_back_channel();
  std::vector<Slot> slots_ NFSRDMA_GUARDED_BY(mutex_);
};

}  // namespace nfsrdma::client::nfs4
