// SPDX-License-Identifier: Apache-2.0
// HelperLink: the daemon's end of the Kerberos helper, a TokenSource. Each exchange has its own socket, whose
// other end goes to the helper; so exchanges neither wait for nor disturb each other, and the end of the
// helper's process is the end of the socket.
//
// Shared by the loops of a mount; it must outlive the exchanges. The daemon never blocks: an exchange ends
// with an error (kRetry) if the helper does not answer within the deadline. kPermanent: nobody is left who
// could answer, now or later.
#pragma once

#include <memory>

#include "transport/runtime/fd.h"
#include "transport/runtime/loop.h"
#include "transport/security/token_source.h"

namespace nfsrdma::security {

class HelperLink final : public TokenSource {
 public:
  // The helper's own limit is shorter, so that it can say what it waited for.
  static constexpr Duration kDeadline = std::chrono::seconds(30);

  // `socket`: the daemon's end of make_packet_pair(), non-blocking.
  explicit HelperLink(Fd socket, Duration deadline = kDeadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  Result<std::unique_ptr<Initiation>> begin(ContextRequest request) override;

 private:
  const Fd socket_;
  const Duration deadline_;
};

}  // namespace nfsrdma::security
