// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/fore_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace nfsrdma::client::nfs4 {
namespace {

constexpr uint32_t kBytes = (1u << 20) + 4096;
constexpr uint32_t kCachedBytes = 2048;  // our cached replies are small; servers then grant more slots
constexpr uint32_t kOperations = 40;     // 16 files, each by PUTFH and CLOSE, behind SEQUENCE
constexpr uint32_t kSlots = 128;
// The least that we can work with: a READ of 4 KiB, and our longest COMPOUND.
constexpr uint32_t kLeastBytes = 8192;
constexpr uint32_t kLeastOperations = 8;

}  // namespace

nfs4::channel_attrs4 ForeChannel::offered() {
  return {.ca_headerpadsize = 0,
          .ca_maxrequestsize = kBytes,
          .ca_maxresponsesize = kBytes,
          .ca_maxresponsesize_cached = kCachedBytes,
          .ca_maxoperations = kOperations,
          .ca_maxrequests = kSlots,
          .ca_rdma_ird = std::nullopt};
}

Result<> ForeChannel::open(const nfs4::channel_attrs4& granted) {
  if (granted.ca_maxrequests == 0 || granted.ca_maxrequestsize < kLeastBytes ||
      granted.ca_maxresponsesize < kLeastBytes || granted.ca_maxoperations < kLeastOperations) {
    return fail(
        {.layer = Layer::kSession,
         .recovery = Recovery::kPermanent,
         .errnum = EPROTO,
         .op = "CREATE_SESSION",
         .cause = fmt::format("the server grants too little: {} slots, {} and {} bytes, {} operations",
                              granted.ca_maxrequests, granted.ca_maxrequestsize, granted.ca_maxresponsesize,
                              granted.ca_maxoperations)});
  }
  slots_.store(std::min(granted.ca_maxrequests, kSlots));
  request_bytes_.store(std::min(granted.ca_maxrequestsize, kBytes));
  response_bytes_.store(std::min(granted.ca_maxresponsesize, kBytes));
  operations_.store(granted.ca_maxoperations);
  return {};
}

}  // namespace nfsrdma::client::nfs4
