// SPDX-License-Identifier: Apache-2.0
#include "filer/state/reply_memory.h"

#include <algorithm>

namespace nfsrdma::filer::state {

void ReplyMemory::reserve(nfs4::channel_attrs4& fore) {
  constexpr size_t kShares = 8;
  const size_t share = (budget_ - std::min(budget_, reserved_)) / kShares;
  const size_t per_slot = std::max<size_t>(share / fore.ca_maxrequests, kSmallestReply);
  fore.ca_maxresponsesize_cached =
      static_cast<uint32_t>(std::min<size_t>(fore.ca_maxresponsesize_cached, per_slot));
  if (bytes_of(fore) > share)
    fore.ca_maxrequests = static_cast<uint32_t>(std::max<size_t>(share / fore.ca_maxresponsesize_cached, 1));
  reserved_ += bytes_of(fore);
}

}  // namespace nfsrdma::filer::state
