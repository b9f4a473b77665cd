// SPDX-License-Identifier: Apache-2.0
// ReplyMemory: what the reply caches of all sessions may take together.
//
// A server that has agreed to ca_maxresponsesize_cached must keep so much for each slot (RFC 8881 section
// 2.10.6.1.3), so the bound is drawn when a session is made: each may have an eighth of what is left, in as
// many slots as it asks for if kSmallestReply fits in each of them, else in fewer. One slot is never denied:
// beyond `budget` come at most kSmallestReply bytes a session (of which there are
// ClientTable::Limits::max_sessions).
//
// Guarded by the server's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xdr/nfs4/session_ops.h"

namespace nfsrdma::filer {

class ReplyMemory {
 public:
  static constexpr uint32_t kSmallestReply = 2048;  // all but the longest of what cannot be asked for again

  explicit ReplyMemory(size_t budget) : budget_(budget) {}

  // Takes what `fore` needs, which is made less where that is too much.
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

}  // namespace nfsrdma::filer
