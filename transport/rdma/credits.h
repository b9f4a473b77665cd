// SPDX-License-Identifier: Apache-2.0
// Credits: how many calls may be outstanding (RFC 8166 section 3.3.1), for one direction of one connection.
//
// "A Requester MUST NOT send unacknowledged requests in excess of the Responder's granted credit limit": the
// number of calls that may be sent is min(requested, granted) - outstanding. Before the first grant the limit
// is one. Every message of the Responder that carries a grant may raise or lower it. A grant of 0 would be a
// deadlock, so it counts as one. The last free credit is reserved for calls that renew the lease, unless the
// limit is one.
//
// Pure; loop thread only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nfsrdma::rdma {

class Credits {
 public:
  explicit Credits(uint32_t requested) : requested_(std::max(requested, uint32_t{1})) {}

  uint32_t requested() const { return requested_; }
  uint32_t limit() const { return limit_; }
  uint32_t outstanding() const { return outstanding_; }

  bool available(bool renewal) const {
    const uint32_t reserved = renewal || limit_ < 2 ? 0 : 1;
    return outstanding_ + reserved < limit_;
  }
  void take() { ++outstanding_; }
  void give_back() { --outstanding_; }
  void granted(uint32_t value) { limit_ = std::clamp(value, uint32_t{1}, requested_); }

 private:
  const uint32_t requested_;
  uint32_t limit_ = 1;
  uint32_t outstanding_ = 0;
};

}  // namespace nfsrdma::rdma
