// SPDX-License-Identifier: Apache-2.0
// ForeChannel: the attributes of the session's fore channel, as we ask for them and as CREATE_SESSION granted
// them (RFC 8881 section 18.36.3). Loop 0 writes them, any thread reads them.
#pragma once

#include <atomic>
#include <cstdint>

#include "client/nfs4/protocol_types.h"
#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::client::nfs4 {

class ForeChannel {
 public:
  // csa_fore_chan_attrs. The server may lower the sizes, and change the numbers of slots and operations.
  static nfs4::channel_attrs4 offered();

  // Takes the attributes of a new session. Sizes and slots above our offer are lowered to it. Returns an
  // error (kPermanent) if the server grants too little to work with; the former values then stay.
  Result<> open(const nfs4::channel_attrs4& granted);

  uint32_t request_bytes() const { return request_bytes_.load(std::memory_order_relaxed); }
  uint32_t response_bytes() const { return response_bytes_.load(std::memory_order_relaxed); }
  uint32_t operations() const { return operations_.load(std::memory_order_relaxed); }  // of one COMPOUND
  uint32_t slots() const { return slots_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> request_bytes_{0}, response_bytes_{0}, operations_{0}, slots_{1};
};

}  // namespace nfsrdma::client::nfs4
