// SPDX-License-Identifier: Apache-2.0
// ReplyMemory: the memory limit for the reply caches of all sessions.
//
// A server that grants ca_maxresponsesize_cached must keep that many bytes for each slot (RFC 8881 section
// 2.10.6.1.3). So the limit is applied when a session is created. A session may have an eighth of what is
// left. If at least kSmallestReply bytes fit in each requested slot it gets all slots, otherwise fewer. One
// slot is always granted, so at most kSmallestReply bytes for each session may exceed `budget` (there are at
// most ClientTable::Limits::max_sessions).
//
// Guarded by the server's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::filer::state {

class ReplyMemory {
 public:
  // Bytes; enough for almost all replies of non-idempotent requests.
  static constexpr uint32_t kSmallestReply = 2048;

  explicit ReplyMemory(size_t budget) : budget_(budget) {}

  // Reserves the bytes that `fore` needs; reduces `fore` if they are too many.
  void reserve(nfs4::channel_attrs4& fore);
  void release(const nfs4::channel_attrs4& fore) { reserved_ -= bytes_of(fore); }
  void release_all() { reserved_ = 0; }
  size_t reserved() const { return reserved_; }

 private:
  static size_t bytes_of(const nfs4::channel_attrs4& fore) {
    return size_t{fore.ca_maxrequests} * fore.ca_maxresponsesize_cached;
  }
  const size_t budget_;
  size_t reserved_ = 0;
};

}  // namespace nfsrdma::filer::state
